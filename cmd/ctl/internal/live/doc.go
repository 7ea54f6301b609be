// Package live reads what the worker that is attached to a session knows before Temporal
// does: the state of the session's turn, the feed of its events, and the output of a
// command on a host.
package live
