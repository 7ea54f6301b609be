// Package kit has typed errors and their conversion for Temporal (Failing), progress in
// heartbeats, and the Gate, which limits how many snapshots a worker moves at once.
package kit
