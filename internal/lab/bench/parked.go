package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// measureParked alternately sends a message to a session of the real codex
// while it is idle, to the same session when it is parked, and to a thread for
// which codex is started by hand, all on a warm host. Most of the time is spent
// on starting codex.
func measureParked(ctx context.Context, o *options) (err error) {
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Script: []byte(script), Keep: o.keep}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// Without a nice value: the host's work is part of what is measured.
	host, err := f.lab.AddHost(ctx, "web-1", hosttest.Options{})
	if err != nil {
		return err
	}
	if _, err := f.lab.Out(ctx, "host", "provision", "web-1"); err != nil {
		return err
	}
	if err := f.lab.ImportSeed(ctx, "bench"); err != nil {
		return err
	}
	const id = "sleeper"
	if err := f.start(ctx, id, session.Options{Host: "web-1", Seed: "bench"}, "say yes"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(context.WithoutCancel(ctx), []string{id})) }()
	ws, err := f.workers()
	if err != nil {
		return err
	}
	v, err := f.watch(ctx, id, []string{ws[0].API})
	if err != nil {
		return err
	}
	defer v.Close()
	p := &sleeper{fleet: f, id: id, v: v}
	if err := p.is(ctx, protocol.Idle, 1); err != nil {
		return err
	}
	hand := &setup{options: o, lab: f.lab, host: host, codex: filepath.Join(o.repo, ".tools", "codex", "bin", "codex")}
	home, thread := filepath.Join(f.lab.Dir, "hand"), ""
	var idle, parked, byHand series
	spent := map[string]series{}
	for n := range o.parked + 1 {
		awake, err := p.says(ctx)
		if err != nil {
			return err
		}
		if err := f.c.SignalWorkflow(ctx, protocol.SessionID(id), "", protocol.SignalPark, protocol.Park{By: "bench"}); err != nil {
			return err
		}
		if err := p.is(ctx, protocol.Parked, p.turns); err != nil {
			return err
		}
		asleep, err := p.says(ctx)
		if err != nil {
			return err
		}
		var anew time.Duration
		if anew, thread, err = hand.byHand(ctx, home, thread, "permissions", "denying"); err != nil {
			return fmt.Errorf("by hand: %w", err)
		}
		if n > 0 { // the first round is the warm-up
			idle, parked, byHand = append(idle, awake), append(parked, asleep), append(byHand, anew)
			err = p.spent(ctx, asleep, spent)
		}
		if err != nil {
			return err
		}
	}
	fmt.Printf("  idle     %v\n  parked   %v   (n %d)\n  by hand  %v: codex started over ssh, the thread resumed\n", idle, parked, len(parked), byHand)
	var more series
	for i := range parked {
		more = append(more, parked[i]-idle[i])
	}
	more.against("a parked one's first words come later by", 2*time.Second)
	fmt.Println("  until the words of a parked one:")
	for _, what := range slices.Sorted(maps.Keys(spent)) {
		fmt.Printf("    %-22s %v\n", what, spent[what])
	}
	return nil
}

// spent adds, for the time since the last message, how long each activity took
// before RunPump was scheduled, how long no activity ran, and how long it took
// from RunPump to the words.
func (p *sleeper) spent(ctx context.Context, all time.Duration, to map[string]series) error {
	var since, busy time.Time
	var took map[string]time.Duration
	sent := true
	begun := map[int64]*history.HistoryEvent{}
	it := p.c.GetWorkflowHistory(ctx, protocol.SessionID(p.id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return err
		}
		at := e.GetEventTime().AsTime()
		switch {
		case e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == protocol.SignalMessage:
			since, busy, took, sent = at, at, map[string]time.Duration{}, false
		case sent:
		case e.GetActivityTaskScheduledEventAttributes() != nil:
			begun[e.GetEventId()] = e
			took["no activity"] += max(0, at.Sub(busy))
			if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == "RunPump" {
				took["RunPump to the words"], sent = all-at.Sub(since), true
			}
		case e.GetActivityTaskCompletedEventAttributes() != nil:
			if s := begun[e.GetActivityTaskCompletedEventAttributes().GetScheduledEventId()]; s != nil {
				took[s.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()] += at.Sub(s.GetEventTime().AsTime())
				busy = at
			}
		}
	}
	for what, d := range took {
		to[what] = append(to[what], d)
	}
	return nil
}

type sleeper struct {
	*fleet
	id    string
	v     *viewer
	turns int
}

// is waits until the session has had that many turns and is in the state.
func (p *sleeper) is(ctx context.Context, state protocol.SessionStatus, turns int) error {
	p.turns = turns
	return lab.Until(ctx, "the session to be "+string(state), func() (bool, error) {
		d, err := p.detail(ctx, p.id)
		last := len(d.Turns) - 1 // the oldest turns may be dropped
		return err == nil && last >= 0 && d.View.State == state && d.Turns[last].N == turns && d.Turns[last].Done(), err
	})
}

// says returns the time from a message to the first words.
func (p *sleeper) says(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	m := protocol.Message{ID: fmt.Sprintf("m%d", p.turns+1), Text: "say yes", By: "bench"}
	if err := p.c.SignalWorkflow(ctx, protocol.SessionID(p.id), "", protocol.SignalMessage, m); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := p.v.await(ctx, "the first words", func() bool { return !p.v.after(begin).IsZero() }); err != nil {
		return 0, err
	}
	p.v.mu.Lock()
	d := p.v.after(begin).Sub(begin)
	p.v.at = nil
	p.v.mu.Unlock()
	return d, p.is(ctx, protocol.Idle, p.turns+1)
}
