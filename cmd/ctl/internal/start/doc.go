// Package start holds what the commands that start sessions have in common: the
// flags, the options made of them, the checks before anything starts, and the
// message and files that go with a start. Sessions, batches and schedules use it.
package start
