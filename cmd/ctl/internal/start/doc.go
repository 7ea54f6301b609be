// Package start holds the common parts of all commands that start sessions: the flags, the
// options made from them, the checks before anything starts, and the message and files that
// go with a start. Sessions, batches and schedules use it.
package start
