// Package snapshot is `ctl snapshot`: taking, listing, exporting, pruning and
// checking snapshots, and going on from one.
package snapshot
