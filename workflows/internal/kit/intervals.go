package kit

import "time"

// Intervals are the intervals at which workflows do some things. Tests choose shorter ones.
type Intervals struct {
	// Reap is the interval at which a workflow checks whether the holders of leases have
	// ended.
	Reap time.Duration
	// Snapshot is the shortest interval of snapshots within a turn. Each snapshot
	// costs events.
	Snapshot time.Duration
}

// Usual are the intervals that workers use.
var Usual = Intervals{Reap: 5 * time.Minute, Snapshot: MostOften}

// MostOften is the shortest interval of snapshots within a turn that people can choose.
const MostOften = time.Minute
