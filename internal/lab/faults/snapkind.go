package main

import (
	"context"
	"errors"
	"sync"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

var snapKind = &kind{
	name: "snapshots", title: "Snapshots, by the step that is struck",
	counts: []string{workLost, halfWhole, hidden, twoCodexes, history, wrong},
	rows:   snapRows,
	after:  everyByteIsThere,
}

// What must not happen to snapshots.
const (
	workLost   = "work lost"
	halfWhole  = "half, said to be whole"
	hidden     = "good one hidden"
	twoCodexes = "two codexes"
	history    = "history"
)

// A snapRun is one execution of a row: a session with a work folder, and two
// hosts.
type snapRun struct {
	*rowRun
	run     *run
	options session.Options
	store   keptStore

	states map[string]int      // digests that the work folder has had, and their versions
	lines  map[string][]string // of these digests
	now    string              // the digest that the work folder must have
	// atLeast, set when a host was lost with its disk, is the least version
	// that the work folder must have. Its actual version is known afterwards.
	atLeast int
	mayLack int // likewise the turn that the thread may have forgotten
	// unparked are the blobs that existed before the session was asked to park.
	unparked   map[string]bool
	afterwards []func() // checks that need the store to be back

	mu      sync.Mutex // guards what the watchers use as well
	hosts   []*host
	version int
	stood   map[*host]int // version of the work folder that was last seen there
}

var snapOptions = session.Options{Seed: "team", By: "faults", OnInterrupt: "ask",
	Snapshot: protocol.SnapshotOptions{Work: protocol.WorkFull, When: protocol.SnapshotTurn}}

// ofSnapshots makes two hosts and a session, calls do while the session is
// watched, closes it, and judges the outcome.
func ofSnapshots(do func(context.Context, *snapRun) error) func(context.Context, *rowRun) {
	return func(ctx context.Context, r *rowRun) {
		s := newSnapRun(r)
		if err := s.furnish(ctx); err != nil {
			r.res.Must("before the fault", err)
			return
		}
		defer s.store.Close()
		r.traces = append(r.traces, s.run.told)
		watched := s.watch(ctx)
		err := do(ctx, s)
		r.res.Took = err == nil
		r.res.Must("the run", err)
		err = s.close(ctx)
		r.res.Must("the close", err)
		if err == nil {
			r.res.Must("the judge", s.judge(ctx))
		}
		watched()
		for _, judge := range s.afterwards {
			judge()
		}
	}
}

func newSnapRun(r *rowRun) *snapRun {
	return &snapRun{rowRun: r, options: snapOptions, states: map[string]int{}, lines: map[string][]string{}, stood: map[*host]int{}}
}

func (s *snapRun) furnish(ctx context.Context) (err error) {
	for _, name := range []string{"p1", "p2"} {
		h, herr := s.host(ctx, name)
		s.hosts, err = append(s.hosts, h), errors.Join(err, herr)
	}
	if err != nil {
		return err
	}
	if s.store, err = s.openStore(ctx); err != nil {
		return err
	}
	s.options.Host = s.hosts[0].name
	s.run = &run{stage: s.stage, host: s.hosts[0], fault: faults[0], moment: moments[0], id: s.id, rng: s.rng}
	return nil
}
