package snapshots

import (
	"slices"
	"time"
)

// Retention is what a policy keeps of each session's snapshots.
type Retention struct {
	Keep   int           // so many of the newest complete ones; 0 is all
	MaxAge time.Duration // and none that is older; 0 is any age
	Now    time.Time
}

// Retain returns which of the snapshots the policy drops, oldest first. It
// never drops the newest complete one of a session, nor one that is pinned (a
// session goes on from it, a fork was begun at it). One that is not complete,
// or holds what was left on a host that the session went away from, counts for
// nothing: it goes as the others of its age do, and never makes another one go.
// One that a newer version has written is that version's to drop.
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
