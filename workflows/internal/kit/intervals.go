package kit

import "time"

// Intervals are how often workflows do some things.
type Intervals struct {
	// Reap is for the checks for ended holders.
	Reap time.Duration
	// Snapshot is the shortest one within a turn; each snapshot costs events.
	Snapshot time.Duration
}

// Usual are the intervals outside tests.
var Usual = Intervals{Reap: 5 * time.Minute, Snapshot: MostOften}

// MostOften is the shortest interval of snapshots that people can choose.
const MostOften = time.Minute
