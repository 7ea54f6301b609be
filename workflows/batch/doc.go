// Package batch is the workflow Batch: it runs many sessions from one file, a window of them
// at a time, and records how each ended. A session that fails for a passing reason is tried
// again, up to the retries that the file allows. The batch ends when all its sessions have
// ended. Its result can be the Carry of another batch, which then runs what failed.
package batch
