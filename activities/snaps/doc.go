// Package snaps has the activities that take, pin, prune and check snapshots. See
// activities/places for their promises, and package snapshots for those about content.
package snaps
