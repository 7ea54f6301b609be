// Package snapshot is `ctl snapshot`: taking, listing, exporting, pruning and checking
// snapshots, and starting sessions from them.
package snapshot
