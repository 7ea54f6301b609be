// Package schedule is the workflow Fire, which a person's Schedule starts. Fire begins a
// session or a batch and runs until that has ended, so that the Schedule knows what runs. If
// Fire is cancelled, it closes what it began.
package schedule
