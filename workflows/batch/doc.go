// Package batch is the workflow Batch: it runs many sessions from one file, a window of
// them at a time, and records how each ended. It retries those that fail for a passing
// reason, as often as the file allows. Its result can be the Carry of another batch, which
// runs what failed.
package batch
