package site

import "time"

// DeliverLimits limit the files that sessions deliver. A zero means the default.
type DeliverLimits struct {
	MaxBytes     int64 // of one file; 64 MiB
	SessionBytes int64 // of all that a session delivers, each content counted once; 1 GiB
	SessionCalls int   // calls of deliver; 1000
}

// OrDefaults returns the limits with the defaults in place of zeros.
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

// SnapshotLimits are a worker's configured limits of snapshots.
type SnapshotLimits struct {
	Keep     int           // number of newest snapshots of each session; 0 is all
	MaxAge   time.Duration // 0 is any; the newest of a session is kept in any case
	MaxBytes int64         // content of one snapshot; 0 is no limit
}
