package audits

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
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
	// hostsBurst and hostsPerSecond do so for requests of hosts.
	hostsBurst     = 100
	hostsPerSecond = 1
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

	spool  *spool // nil: a record that the store has not taken is lost with the process
	folder string // of spools

	mu    sync.Mutex
	chain audit.Chain
	round chan struct{} // closed after the next write
	room  room
	// strangers is another room, so that those who have no right to anything cannot fill the first.
	strangers room
	// hosts is a third one: of a session there is one record a minute, see package gateways.
	hosts room
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
		hosts: room{burst: hostsBurst, perSecond: hostsPerSecond, left: hostsBurst},
		chain: audit.Chain{Entity: "worker/" + strings.ToLower(rand.Text())}}
}

// KeepIn names a folder of this machine that keeps records while the store does not take them.
// Refusals also stores the records that processes which died have left in the folder. Call
// KeepIn before Run.
func (r *Refusals) KeepIn(folder string) error {
	s, err := openSpool(folder, strings.ReplaceAll(r.chain.Entity, "/", "-"), r.store)
	if err != nil {
		return fmt.Errorf("keep the records of refused commands in %s: %w", folder, err)
	}
	r.spool, r.folder = s, folder
	return nil
}

// Refused records a refused command, or an act that this process accepted. The rate limit
// applies to refusals only. Refused returns when the record is in the store or in the spool.
// Without a spool, it returns after a moment.
func (r *Refusals) Refused(rec audit.Record) { r.refused(rec, &r.room) }

// RefusedStranger does the same for a refused request of a caller who is not known.
func (r *Refusals) RefusedStranger(rec audit.Record) { r.refused(rec, &r.strangers) }

// RefusedHost does the same for refused requests that came by a forward from a host.
func (r *Refusals) RefusedHost(rec audit.Record) { r.refused(rec, &r.hosts) }

func (r *Refusals) refused(rec audit.Record, of *room) {
	done, seq := r.add(rec, of)
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
	r.keep(seq)
}

// keep has the record seq kept on this machine, unless the store has it.
func (r *Refusals) keep(seq int64) {
	if r.spool == nil || seq == 0 {
		return
	}
	if err := r.spool.keep(seq, r.waiting); err != nil {
		r.log.Error("ALARM: the record of a refused command is neither in the store nor on this machine's disk: if this worker dies now, it is lost", "entity", r.chain.Entity, "seq", seq, "err", err)
	}
}

// waiting returns the chain as it is.
func (r *Refusals) waiting() audit.Chain {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.chain
	c.Waiting = slices.Clone(c.Waiting)
	return c
}

// Newest returns the newest record of this process that is in the store, or nil.
func (r *Refusals) Newest() *protocol.AuditHead {
	c := r.waiting()
	return c.Stored()
}

// add returns a channel that is closed after the next write, and the seq of the record. The seq
// is 0 if the record is only counted.
func (r *Refusals) add(rec audit.Record, of *room) (done <-chan struct{}, seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	rec.At = audit.TimeText(now)
	if rec.Source == audit.Unix {
		rec.Principal = r.user
	}
	if rec.Outcome != audit.Accepted && !of.take(now) {
		r.chain.Leave(rec)
		closed := make(chan struct{})
		close(closed)
		return closed, 0
	}
	before := r.chain.Seq
	if r.chain.Add(rec); r.chain.Seq == before { // too many wait
		return r.round, 0
	}
	return r.round, r.chain.Seq
}

// Run writes records until ctx ends, and then those that are left.
func (r *Refusals) Run(ctx context.Context) {
	settle := time.NewTicker(settleEvery)
	defer settle.Stop()
	var drains sync.WaitGroup
	defer drains.Wait()
	drains.Go(func() { r.drainAlways(ctx) })
	for {
		select {
		case <-ctx.Done():
			r.settle()
			r.write(context.WithoutCancel(ctx))
			r.end()
			return
		case <-settle.C:
			r.settle()
		case <-r.wake:
		}
		r.write(ctx)
	}
}

// Drain stores what processes that died have left on this machine. Run does so again and again.
func (r *Refusals) Drain(ctx context.Context) {
	if r.spool != nil {
		drain(ctx, r.store, r.folder, r.log)
	}
}

// drainAlways does not keep the records of this process waiting.
func (r *Refusals) drainAlways(ctx context.Context) {
	t := time.NewTicker(settleEvery)
	defer t.Stop()
	for {
		r.Drain(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// end keeps what the store did not take, for the next process.
func (r *Refusals) end() {
	if r.spool == nil {
		return
	}
	if c := r.waiting(); len(c.Waiting) > 0 {
		r.keep(c.Seq)
	}
	if err := r.spool.close(); err != nil {
		r.log.Warn("the spool of refused commands is not closed", "err", err)
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
		r.log.Error("refused commands are not in the store yet", "entity", b.Entity, "err", err)
	}
	if err != nil && !errors.Is(err, records.ErrAuditChanged) {
		return
	}
	r.mu.Lock()
	r.chain.Wrote(b.Last())
	head := r.chain.Newest()
	r.mu.Unlock()
	if r.spool != nil {
		if err := r.spool.clear(r.waiting); err != nil {
			r.log.Warn("records that are in the store stay on this machine, too", "err", err)
		}
	}
	r.log.Info("refused commands are on record", "entity", b.Entity, "seq", b.Last(), "newest", head.Seq, "hash", head.Hash)
}
