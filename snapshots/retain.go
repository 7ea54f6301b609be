package snapshots

import (
	"slices"
	"time"
)

// Retention says which snapshots of each session to keep.
type Retention struct {
	Keep   int           // number of the newest complete snapshots; 0 means all
	MaxAge time.Duration // 0 means any
	Now    time.Time
}

// Retain returns the snapshots to drop, oldest first. It never returns the newest complete
// snapshot of a session, nor a pinned one, nor one of a newer version. Snapshots that are
// incomplete, or were taken of files that a session left on a host, do not count for Keep,
// but are dropped with others of their age.
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
