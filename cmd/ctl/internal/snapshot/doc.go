// Package snapshot is `ctl snapshot`: taking, listing, exporting, pruning, checking and
// restoring.
package snapshot
