package snapshots

import (
	"slices"
	"time"
)

// Retention says which of each session's snapshots to keep.
type Retention struct {
	Keep   int           // number of the newest complete snapshots to keep; 0 means all
	MaxAge time.Duration // maximum age; 0 means any
	Now    time.Time
}

// Retain returns the snapshots to drop, oldest first. It never returns the newest complete
// snapshot of a session, nor a pinned one (a session continues from it, or a fork began at
// it), nor one of a newer version. Snapshots that are incomplete, or were taken of files
// that a session left behind on a host, do not count for Keep: they are dropped with others
// of their age, and never cause another one to be dropped.
func Retain(all []Manifest, policy Retention, pinned func(id string) bool) []Manifest {
	all = slices.Clone(all)
	sortByTime(all)
	newer := map[string]int{} // number of complete snapshots of a session that are newer
	var drop []Manifest
	for _, m := range slices.Backward(all) {
		if m.Newer() {
			continue
		}
		n := newer[m.Session]
		if m.GoesOn() {
			newer[m.Session]++
		}
		tooMany := policy.Keep > 0 && n >= policy.Keep
		tooOld := policy.MaxAge > 0 && policy.Now.Sub(m.CreatedAt) > policy.MaxAge
		if n > 0 && (tooMany || tooOld) && (pinned == nil || !pinned(m.ID)) {
			drop = append(drop, m)
		}
	}
	slices.Reverse(drop)
	return drop
}
