// Package schedule is `ctl schedule`: sessions and batches that Temporal starts at
// given times.
package schedule
