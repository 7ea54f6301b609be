package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

const (
	host     = "web-1"
	seedName = "team"
	by       = "soak"
)

// A worked is a session at work.
type worked struct {
	id       string
	frail    bool // its codex is killed now and then
	gateway  bool // it asks the model through its worker
	rng      *rand.Rand
	said     []string // its messages, each of which is one turn
	answers  []string // to them, of a session that is not frail
	approved int
}

func (s *soak) planWork() (out []*worked) {
	for i := range s.sessions {
		w := &worked{id: fmt.Sprintf("soak-%02d", i+1), frail: i%10 == 9, gateway: i%3 == 2}
		w.rng = scenario.Random(s.seed, "work", w.id)
		out = append(out, w)
	}
	return out
}

// work lets all sessions work until the time is over, and strikes meanwhile. Turns that run then
// are waited for. It returns what struck, in words.
func (s *soak) work(ctx context.Context, began time.Time) (string, error) {
	s.all = s.planWork()
	end := began.Add(s.lasts)
	striking, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	for i, w := range s.all {
		g.Go(func() error {
			// Sessions begin one after another: codex takes seconds of processor time to start.
			scenario.Sleep(ctx, time.Duration(i)*s.lasts/6/time.Duration(s.sessions))
			if err := s.workOne(ctx, w, end); err != nil {
				stop()
				return fmt.Errorf("session %s: %w", w.id, err)
			}
			return nil
		})
	}
	struck, err := s.strike(striking, began, end)
	if err != nil {
		stop()
	}
	if worked := g.Wait(); worked != nil {
		return struck, worked
	}
	return struck, err
}

// turnKinds are what a session does, each as often as it is here.
var turnKinds = []func(*soak, context.Context, *worked) error{
	(*soak).short, (*soak).short, (*soak).long, (*soak).long, (*soak).command, (*soak).afterPark,
}

func (s *soak) workOne(ctx context.Context, w *worked, end time.Time) error {
	for time.Now().Before(end) && ctx.Err() == nil {
		kinds := turnKinds
		if len(w.said) == 0 || w.frail {
			kinds = turnKinds[:4] // a request dies with its codex
		}
		if err := kinds[w.rng.IntN(len(kinds))](s, ctx, w); err != nil {
			return err
		}
		scenario.Sleep(ctx, min(time.Until(end), 10*time.Second+time.Duration(w.rng.Int64N(int64(40*time.Second)))))
	}
	return ctx.Err()
}

func (s *soak) short(ctx context.Context, w *worked) error {
	text := fmt.Sprintf("hello, number %d", len(w.said)+1)
	return s.turn(ctx, w, text, "You said: "+text)
}

const counted = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty one two three four five six seven eight nine thirty one two three four five six seven eight nine forty"

func (s *soak) long(ctx context.Context, w *worked) error {
	text := fmt.Sprintf("take your time, number %d", len(w.said)+1)
	return s.turn(ctx, w, text, text+": "+counted)
}

func (s *soak) command(ctx context.Context, w *worked) error {
	if err := s.send(ctx, w, fmt.Sprintf("you need a command, number %d", len(w.said)+1)); err != nil {
		return err
	}
	var asked protocol.Approval
	if err := s.see(ctx, w, "it asks", func(d protocol.SessionDetail) bool {
		for _, a := range d.Approvals {
			if a.State == protocol.ApprovalOpen {
				asked = a
				return true
			}
		}
		return false
	}); err != nil {
		return err
	}
	w.approved++
	if err := patient.For(ctx, "a decision on "+asked.ID, func(ctx context.Context) error {
		_, err := s.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: protocol.SessionID(w.id), UpdateID: "decide-" + asked.ID, UpdateName: protocol.SignalDecide, WaitForStage: client.WorkflowUpdateStageAccepted,
			Args: []any{protocol.Decide{Approval: asked.ID, Digest: asked.Digest, Outcome: string(protocol.Accept), By: by}},
		})
		if err == nil {
			return nil
		}
		// An earlier attempt may have come through.
		d, again := s.detail(ctx, w.id)
		for _, a := range d.Approvals {
			if a.ID == asked.ID && a.State == protocol.ApprovalOpen {
				return err
			}
		}
		return again
	}); err != nil {
		return err
	}
	return s.answered(ctx, w, fmt.Sprintf("%s%d", ranTimes, w.approved))
}

// afterPark parks the session. A message brings it back.
func (s *soak) afterPark(ctx context.Context, w *worked) error {
	request := fmt.Sprintf("park-%s-%d", w.id, len(w.said))
	if err := patient.For(ctx, "session "+w.id+" to take a request to park", func(ctx context.Context) error {
		_, err := s.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: protocol.SessionID(w.id), UpdateID: request, UpdateName: protocol.SignalPark, WaitForStage: client.WorkflowUpdateStageAccepted,
			Args: []any{protocol.Park{By: by, Request: request}},
		})
		if err == nil {
			return nil
		}
		if d, again := s.detail(ctx, w.id); again == nil && d.View.State == protocol.Parked {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	if err := s.see(ctx, w, "it is parked", func(d protocol.SessionDetail) bool { return d.View.State == protocol.Parked }); err != nil {
		return err
	}
	return s.short(ctx, w)
}

func (s *soak) turn(ctx context.Context, w *worked, text, answer string) error {
	if err := s.send(ctx, w, text); err != nil {
		return err
	}
	return s.answered(ctx, w, answer)
}

// patient is how long a session may take for anything, under all faults.
var patient = scenario.Wait{Most: 15 * time.Minute, Try: 30 * time.Second, Gap: 3 * time.Second}

// send sends a message, again until it is known that the server has it.
func (s *soak) send(ctx context.Context, w *worked, text string) error {
	w.said = append(w.said, text)
	m := protocol.Message{ID: s.message(w), Text: text, By: by}
	id := protocol.SessionID(w.id)
	return patient.For(ctx, "session "+w.id+" to take a message", func(ctx context.Context) error {
		if len(w.said) > 1 {
			return s.c.SignalWorkflow(ctx, id, "", protocol.SignalMessage, m)
		}
		opt := session.Options{Host: host, Seed: seedName}
		if w.gateway {
			opt.Credentials = protocol.CredentialsGateway
		}
		if w.frail {
			opt.OnInterrupt = protocol.InterruptContinue
		}
		_, err := s.c.SignalWithStartWorkflow(ctx, id, protocol.SignalMessage, m,
			client.StartWorkflowOptions{TaskQueue: protocol.TaskQueueOf("")}, protocol.TypeSession, session.Input{ID: w.id, Options: opt})
		return err
	})
}

// message is the id of the newest message.
func (s *soak) message(w *worked) string { return fmt.Sprintf("m-%s-%d", w.id, len(w.said)) }

// answered waits until the turn of the newest message has ended, and that of what follows it.
func (s *soak) answered(ctx context.Context, w *worked, answer string) error {
	w.answers = append(w.answers, answer)
	id := s.message(w)
	var status string
	if err := s.see(ctx, w, fmt.Sprintf("turn %d ends", len(w.said)), func(d protocol.SessionDetail) bool {
		for _, t := range d.Turns {
			if t.MessageID == id {
				status = t.Status
			}
		}
		return d.View.State == protocol.Idle && d.View.Queue == 0 && status != "" && status != "queued" && status != "inProgress"
	}); err != nil {
		return err
	}
	if !w.frail && status != "completed" {
		return fmt.Errorf("turn %d is %s", len(w.said), status)
	}
	return nil
}

// see waits until a session is as it should be. A session that has ended never will be.
func (s *soak) see(ctx context.Context, w *worked, what string, is func(protocol.SessionDetail) bool) error {
	return patient.For(ctx, "session "+w.id+": "+what, func(ctx context.Context) error {
		d, err := s.detail(ctx, w.id)
		if err != nil {
			return err
		}
		if d.View.State == protocol.Failed || d.View.State == protocol.Closed {
			return scenario.Hopeless(fmt.Errorf("it is %s: %+v", d.View.State, d.View.Error))
		}
		if !is(d) {
			return fmt.Errorf("it is %s and waits for %q, its turn is %+v, it asks %d times", d.View.State, d.View.Waits, d.View.Turn, len(d.Approvals))
		}
		return nil
	})
}

func (s *soak) detail(ctx context.Context, id string) (d protocol.SessionDetail, err error) {
	v, err := s.c.QueryWorkflow(ctx, protocol.SessionID(id), "", protocol.QueryDetail)
	if err == nil {
		err = v.Get(&d)
	}
	return d, err
}
