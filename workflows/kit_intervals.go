package workflows

import "time"

// intervals are the intervals at which workflows do some things. Tests choose shorter ones.
type intervals struct {
	// reap is the interval at which a workflow checks whether the holders of leases have
	// ended.
	reap time.Duration
	// snapshot is the shortest interval of snapshots within a turn. Each snapshot
	// costs events.
	snapshot time.Duration
}

// usual are the intervals that workers use.
var usual = intervals{reap: 5 * time.Minute, snapshot: mostOften}

// mostOften is the shortest interval of snapshots within a turn that people can choose.
const mostOften = time.Minute
