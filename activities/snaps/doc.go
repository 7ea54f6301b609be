// Package snaps has the activities on snapshots: take one of a session's folder, pin one for a
// fork, prune the store and check it. The promises about snapshots are those of
// activities/places; those about their content are in package snapshots.
package snaps
