package site

import "time"

// DeliverLimits limit deliveries. Zero means the default.
type DeliverLimits struct {
	MaxBytes     int64 // of one file; 64 MiB
	SessionBytes int64 // of a session, equal content once; 1 GiB
	SessionCalls int   // of deliver; 1000
}

// OrDefaults replaces zeros by the defaults.
func (l DeliverLimits) OrDefaults() DeliverLimits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = 64 << 20
	}
	if l.SessionBytes <= 0 {
		l.SessionBytes = 1 << 30
	}
	if l.SessionCalls <= 0 {
		l.SessionCalls = 1000
	}
	return l
}

// SnapshotLimits are a worker's limits.
type SnapshotLimits struct {
	Keep     int           // newest of each session; 0 is all
	MaxAge   time.Duration // 0 is any; the newest stays
	MaxBytes int64         // of one snapshot; 0 is no limit
}

// BodyLimits say whether a worker keeps what codex asks model gateways and what it gets.
type BodyLimits struct {
	Keep         time.Duration // for how long; 0 means that nothing is kept
	Bytes        int64         // of a request, and of an answer
	SessionBytes int64         // of a session
}
