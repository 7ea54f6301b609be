package snapshots

import (
	"slices"
	"time"
)

// Retention says which of each session's snapshots to keep.
type Retention struct {
	Keep   int           // how many of the newest complete ones to keep; 0 means all
	MaxAge time.Duration // maximum age; 0 means any
	Now    time.Time
}

// Retain returns the snapshots to drop, oldest first. It never drops the newest complete
// one of a session, nor one that is pinned (a session continues from it, or a fork began at
// it). A snapshot that is incomplete, or was taken of what a session left behind on a host,
// does not count: it is dropped with others of its age, and never causes another to be
// dropped. Snapshots of a newer version are never dropped.
func Retain(all []Manifest, policy Retention, pinned func(id string) bool) []Manifest {
	all = slices.Clone(all)
	sortByTime(all)
	newer := map[string]int{} // complete ones of a session that are newer
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
