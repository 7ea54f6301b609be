package kit

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Progress is how far an activity is. A nil Progress records nothing.
type Progress struct {
	mu  sync.Mutex
	now SnapshotProgress // guarded by mu
}

// Step sets the step; p may be nil.
func (p *Progress) Step(name string) { p.Set(SnapshotProgress{Step: name}) }

// Set records the progress.
func (p *Progress) Set(now SnapshotProgress) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.now = now
	p.mu.Unlock()
}

func (p *Progress) get() SnapshotProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// ReportProgress sends heartbeats with the progress until quiet is called. Its callers
// belong in activities.reports, which Beats leaves out.
func ReportProgress(ctx context.Context) (p *Progress, quiet func()) {
	p = &Progress{now: SnapshotProgress{Step: "waiting"}}
	every := activity.GetInfo(ctx).HeartbeatTimeout / 3
	if every <= 0 {
		return p, func() {}
	}
	return p, beatWith(ctx, every, func() any { return p.get() })
}

// beatWith sends now() until quiet is called.
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

// StoreWork is the progress of work on the whole store.
type StoreWork struct {
	mu  sync.Mutex
	Now protocol.SnapshotsProgress // guarded by mu
}

func (w *StoreWork) Tell(step string, done, total int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Now = protocol.SnapshotsProgress{Step: step, Done: done, Total: total}
}

// Beat sends heartbeats until quiet is called.
func (w *StoreWork) Beat(ctx context.Context) (quiet func()) {
	return beatWith(ctx, time.Second, func() any {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.Now
	})
}

// LastOf returns at most the last n bytes of s, from a whole line or word on: a part of a
// secret would not be redacted.
func LastOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	if _, lines, ok := strings.Cut(s, "\n"); ok && lines != "" {
		return "…" + lines
	}
	if i := strings.IndexAny(s, " \t\n"); i >= 0 {
		return "…" + s[i+1:]
	}
	return "…"
}

// NextTry returns the wait before the next attempt: short after a steady attempt, else
// doubling up to 5 seconds.
func NextTry(n int32, lasted time.Duration) time.Duration {
	if lasted >= steady {
		n = 1
	}
	return min(300*time.Millisecond<<min(n-1, 5), 5*time.Second)
}

// steady makes the next wait short.
const steady = 10 * time.Second

// HandOver is the wait when this worker stops. It is constant, and long enough that this
// worker does not get the task again.
const HandOver = 300 * time.Millisecond

// SnapshotProgress is in heartbeats about snapshots.
type SnapshotProgress struct {
	Step    string `json:"step"`              // such as stopping, saving, taking, restoring, planting
	Entries int64  `json:"entries,omitempty"` // listed or restored
	Files   int64  `json:"files,omitempty"`   // read or written
	Bytes   int64  `json:"bytes,omitempty"`
}
