// Package overseer has the activities that ask Temporal itself: which workflows ended,
// which sessions run, which seeds and hosts are due for a check. They need no host and no
// store, and return the client's errors.
package overseer
