// Package live is what the worker that is attached to a session knows before
// Temporal does: the state of its turn, the feed of its events, the output of a
// command on a host.
package live
