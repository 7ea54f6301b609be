package audits

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/store"
)

const (
	// moment is how long a refusal waits for its record to be stored. Workflow code waits
	// with it.
	moment = 300 * time.Millisecond
	// burst and perSecond bound how many refusals are kept. Further ones are counted.
	burst     = 100
	perSecond = 1
	// strangersBurst and strangersPerSecond do so for requests of callers who are not known.
	strangersBurst     = 10
	strangersPerSecond = 1. / 60
	// settleEvery is how often a count becomes a record.
	settleEvery = time.Minute
	// writeFor bounds one attempt to write.
	writeFor = 10 * time.Second
)

// Refusals is the chain of records of commands that this process refused. Each process has
// its own. It is safe for concurrent use.
type Refusals struct {
	store *store.Store
	log   *slog.Logger
	now   func() time.Time
	user  string
	wake  chan struct{}

	mu    sync.Mutex
	chain audit.Chain
	round chan struct{} // closed after the next write
	room  room
	// strangers is another room, so that those who have no right to anything cannot fill the first.
	strangers room
}

// A room is a rate limit.
type room struct {
	burst, perSecond float64
	left             float64
	since            time.Time // when left was computed
}

func (r *room) take(now time.Time) bool {
	if !r.since.IsZero() {
		r.left = min(r.burst, r.left+r.perSecond*now.Sub(r.since).Seconds())
	}
	r.since = now
	if r.left < 1 {
		return false
	}
	r.left--
	return true
}

// NewRefusals begins the chain of this process.
func NewRefusals(st *store.Store, log *slog.Logger) *Refusals {
	return &Refusals{store: st, log: log, now: time.Now, user: audit.UnixUser(), wake: make(chan struct{}, 1), round: make(chan struct{}),
		room: room{burst: burst, perSecond: perSecond, left: burst}, strangers: room{burst: strangersBurst, perSecond: strangersPerSecond, left: strangersBurst},
		chain: audit.Chain{Entity: "worker/" + strings.ToLower(rand.Text())}}
}

// Refused records a refused command, or an act that this process accepted. The rate limit
// applies to refusals only. Refused returns when the record is in the store, or after a moment.
func (r *Refusals) Refused(rec audit.Record) { r.refused(rec, &r.room) }

// RefusedStranger does the same for a refused request of a caller who is not known.
func (r *Refusals) RefusedStranger(rec audit.Record) { r.refused(rec, &r.strangers) }

func (r *Refusals) refused(rec audit.Record, of *room) {
	done := r.add(rec, of)
	select {
	case r.wake <- struct{}{}:
	default: // the writer is awake
	}
	t := time.NewTimer(moment)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

func (r *Refusals) add(rec audit.Record, of *room) (done <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	rec.At = audit.TimeText(now)
	if rec.Source == audit.Unix {
		rec.Principal = r.user
	}
	if rec.Outcome == audit.Accepted {
		r.chain.Add(rec)
		return r.round
	}
	if !of.take(now) {
		r.chain.Leave(rec)
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	r.chain.Add(rec)
	return r.round
}

// Run writes records until ctx ends, and then those that are left.
func (r *Refusals) Run(ctx context.Context) {
	settle := time.NewTicker(settleEvery)
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			r.settle()
			r.write(context.WithoutCancel(ctx))
			return
		case <-settle.C:
			r.settle()
		case <-r.wake:
		}
		r.write(ctx)
	}
}

func (r *Refusals) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chain.Settle()
}

// write makes one attempt. What it cannot write waits for the next one.
func (r *Refusals) write(ctx context.Context) {
	r.mu.Lock()
	b, round := r.chain.Batch(), r.round
	r.round = make(chan struct{})
	r.mu.Unlock()
	defer close(round)
	if b == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	err := records.WriteAudit(ctx, r.store, *b)
	if err != nil {
		r.log.Error("refused commands are not on record yet", "entity", b.Entity, "err", err)
	}
	if err != nil && !errors.Is(err, records.ErrAuditChanged) {
		return
	}
	r.mu.Lock()
	r.chain.Wrote(b.Last())
	head := r.chain.Newest()
	r.mu.Unlock()
	r.log.Info("refused commands are on record", "entity", b.Entity, "seq", b.Last(), "newest", head.Seq, "hash", head.Hash)
}
