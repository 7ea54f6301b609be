// Package schedule is `ctl schedule`: sessions and batches that start at given times.
package schedule
