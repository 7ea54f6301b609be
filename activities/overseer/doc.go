// Package overseer has the activities that ask Temporal itself: which workflows have ended,
// which sessions run, which seeds and hosts are due for a check. Its Engine needs no host and
// no store. Its errors are those of the Temporal client.
package overseer
