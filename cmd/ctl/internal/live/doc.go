// Package live reads what a session's attached worker knows before Temporal does: the
// turn's state, the feed of events, and a command's output.
package live
