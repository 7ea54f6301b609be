// Package schedule is the workflow Fire, which a person's Schedule starts.
package schedule
