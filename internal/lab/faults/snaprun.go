package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// begun starts a session that completes a turn, works, and has a snapshot.
func (s *snapRun) begun(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.says(ctx, "hello from "+s.run.id); err != nil {
		return err
	}
	if s.options.Host == "" { // it was placed on one
		d, err := s.detail(ctx, s.run.id)
		if err != nil {
			return err
		}
		s.run.host = s.hostNamed(d.View.Host)
	}
	if err := s.works(); err != nil {
		return err
	}
	if err := s.says(ctx, "hello, that is my work"); err != nil {
		return err
	}
	return s.isKept(ctx)
}

func (s *snapRun) hostNamed(name string) *host {
	for _, h := range s.hosts {
		if h.name == name {
			return h
		}
	}
	return s.hosts[0]
}

func (s *snapRun) other() *host {
	if s.run.host == s.hosts[0] {
		return s.hosts[1]
	}
	return s.hosts[0]
}

func (s *snapRun) open(ctx context.Context) error {
	s.run.logf("start")
	return again(ctx, "start "+s.run.id, func(ctx context.Context) error {
		_, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: protocol.SessionID(s.run.id), TaskQueue: protocol.TaskQueueOf("")},
			protocol.TypeSession, session.Input{ID: s.run.id, Options: s.options})
		return err
	})
}

func (s *snapRun) says(ctx context.Context, text string) error {
	if err := s.run.send(ctx, text); err != nil {
		return err
	}
	t, err := s.run.turn(ctx, len(s.run.said))
	if err == nil && t.Status != "completed" {
		err = fmt.Errorf("a plain turn is %s (%+v)", t.Status, t.Error)
	}
	return err
}

func (s *snapRun) isKept(ctx context.Context) error {
	turn := len(s.run.said)
	_, err := s.until(ctx, s.run.id, fmt.Sprintf("to be kept as of turn %d", turn), func(d protocol.SessionDetail) bool {
		v := d.View.Snapshot
		return v != nil && v.ID != "" && v.Turn >= turn && v.Taking == 0
	})
	return err
}

// state returns the session's state; empty if the query fails.
func (s *snapRun) state() string {
	d, err := s.detail(context.Background(), s.run.id)
	if err != nil {
		return ""
	}
	return string(d.View.State)
}

func (s *snapRun) ended(n int) bool {
	d, err := s.detail(context.Background(), s.run.id)
	return err == nil && slices.ContainsFunc(d.Turns, func(t protocol.TurnView) bool { return t.N == n && t.Done() })
}

func (s *snapRun) numbered(text string) string {
	return fmt.Sprintf("%s (%d)", text, len(s.run.said)+1)
}

func (s *snapRun) beingTaken() bool {
	d, err := s.detail(context.Background(), s.run.id)
	return err == nil && d.View.Snapshot != nil && d.View.Snapshot.Taking > 0
}

// promptly polls often, for something that may last only a moment.
func (s *snapRun) promptly(ctx context.Context, what string, there func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, scenario.Patience)
	defer cancel()
	for !there() {
		if ctx.Err() != nil {
			return fmt.Errorf("waited in vain for %s", what)
		}
		scenario.Sleep(ctx, 3*time.Millisecond)
	}
	return nil
}

// parks waits until the session has given back its host.
func (s *snapRun) parks(ctx context.Context) error {
	if err := s.signal(ctx, s.run.id, protocol.SignalPark, protocol.Park{By: "faults"}); err != nil {
		return err
	}
	_, err := s.until(ctx, s.run.id, "to be parked", func(d protocol.SessionDetail) bool { return d.View.State == protocol.Parked })
	return err
}

func (s *snapRun) movesTo(ctx context.Context, h *host) error {
	if err := s.parks(ctx); err != nil {
		return err
	}
	s.run.logf("to %s", h.name)
	if err := s.signal(ctx, s.run.id, protocol.SignalResume, protocol.Resume{Host: h.name, By: "faults"}); err != nil {
		return err
	}
	return s.goesOnAt(ctx, h)
}

// goesOn completes a turn wherever the session is, and checks its history and
// its work. If a turn is reported as unknown or interrupted, the message is
// sent again, as a person would do.
func (s *snapRun) goesOn(ctx context.Context) error {
	if n := len(s.run.said); n > 0 {
		if _, err := s.run.turn(ctx, n); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		if err := s.run.send(ctx, fmt.Sprintf("what was first? (%s, %d)", s.run.id, len(s.run.said)+1)); err != nil {
			return err
		}
		t, err := s.run.turn(ctx, len(s.run.said))
		if err != nil {
			return err
		}
		if t.Status == "completed" {
			if want := "The first was: " + s.run.said[0].text; t.FinalText != want {
				s.res.Find(history, "turn %d says %q, not %q", t.N, t.FinalText, want)
			}
			break
		}
		if t.Status != "unknown" && t.Status != "interrupted" || try == 3 {
			return fmt.Errorf("turn %d of %s is %s (%+v)", t.N, s.run.id, t.Status, t.Error)
		}
	}
	d, err := s.detail(ctx, s.run.id)
	if err != nil {
		return err
	}
	s.run.host = s.hostNamed(d.View.Host)
	s.sameWork("turn " + fmt.Sprint(len(s.run.said)) + " on " + d.View.Host)
	return s.isKept(ctx)
}

func (s *snapRun) goesOnAt(ctx context.Context, h *host) error {
	if err := s.goesOn(ctx); err != nil {
		return err
	}
	if s.run.host != h {
		return fmt.Errorf("the session is on %s, not on %s", s.run.host.name, h.name)
	}
	return nil
}

func (s *snapRun) close(ctx context.Context) error {
	if err := s.signal(ctx, s.run.id, protocol.SignalClose, protocol.Close{By: "faults"}); err != nil {
		return err
	}
	d, err := s.until(ctx, s.run.id, "to be closed", func(d protocol.SessionDetail) bool { return d.View.State == protocol.Closed })
	if err != nil {
		return err
	}
	if c := d.View.Close; c == nil || !c.Wiped || !c.Removed || c.Archive == "" {
		s.res.Find(wrong, "it closed with %+v, error %+v", c, d.View.Error)
	}
	return nil
}
