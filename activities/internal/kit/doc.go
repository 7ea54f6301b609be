// Package kit has what all jobs use: errors with a kind and a hint, and their conversion for
// Temporal (Failing); progress that is reported by heartbeats; and the Gate, which limits how
// many snapshots a worker moves at once.
package kit
