package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// SnapshotProgress is in the heartbeats of activities that take or restore a snapshot.
type SnapshotProgress struct {
	Step    string `json:"step"`              // stopping, saving, taking, restoring, planting, …
	Entries int64  `json:"entries,omitempty"` // number of entries listed or restored
	Files   int64  `json:"files,omitempty"`   // number of files read or written
	Bytes   int64  `json:"bytes,omitempty"`
}

// A progress records how far an activity is. A nil progress records nothing.
type progress struct {
	mu  sync.Mutex
	now SnapshotProgress // guarded by mu
}

func (p *progress) step(name string) { p.set(SnapshotProgress{Step: name}) }

func (p *progress) set(now SnapshotProgress) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.now = now
	p.mu.Unlock()
}

func (p *progress) get() SnapshotProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// reportProgress sends heartbeats with the progress until quiet is called. Activities
// that call it belong in reports, so that Beats sends none for them.
func reportProgress(ctx context.Context) (p *progress, quiet func()) {
	p = &progress{now: SnapshotProgress{Step: "waiting"}}
	every := activity.GetInfo(ctx).HeartbeatTimeout / 3
	if every <= 0 {
		return p, func() {}
	}
	return p, beatWith(ctx, every, func() any { return p.get() })
}

// beatWith sends heartbeats with what now returns until quiet is called.
func beatWith(ctx context.Context, every time.Duration, now func() any) (quiet func()) {
	done, joined := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(joined)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			activity.RecordHeartbeat(ctx, now())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-joined }
}
