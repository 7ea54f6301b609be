package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// A point is a moment inside the worker that passes too quickly to be hit by
// chance, so it is held. The workers are stopped while codex gets to what they
// will act upon. Then codex is stopped, its input full if nothing may reach it,
// and the workers continue until they are at the point. From then on nothing
// changes until the fault strikes.
type point struct {
	// ready brings codex there while the workers are stopped; nil: it is there.
	ready func(context.Context, *run) error
	full  bool
	// there waits until a worker is at the point.
	there func(context.Context, *run) error
	// behind judges what is specific to this point.
	behind func(r *run, res *scenario.Result, journals []byte, entries []protocol.Entry, d protocol.SessionDetail)
}

// points are such moments; only the death of a worker matters there.
var points = []*moment{
	{name: "verdict not on record", before: atGate("ask a policy", "--policy"), after: wokenUp, point: &point{
		ready: asked(`/requestApproval"`, 1), there: inputHas(`"decision"`), behind: judgedOnce}},
	{name: "files planted", before: withFile, after: wokenUp, point: &point{full: true, there: plantedFile, behind: nothingMore}},
	{name: "budget reached", before: atGate("use up the commands", "--budget", "commands=1"), after: overBudget, point: &point{
		ready: asked(`"method":"item/started","params":{"item":{"type":"commandExecution"`, 2), full: true, there: doNothing, behind: interruptedOnce}},
	{name: "file delivered", before: atGate("hand over a file", "--tools", "deliver"), after: wokenUp, point: &point{
		ready: asked(`"method":"item/tool/call"`, 1), full: true, there: deliveredFile, behind: deliveredOnce}},
	{name: "compacting", before: acts(protocol.ActCompact), after: actEnds, point: &point{behind: begunOnce("contextCompaction")}},
	{name: "reviewing", before: acts(protocol.ActReview), after: actEnds, point: &point{behind: begunOnce("enteredReviewMode")}},
}

func pointNames() (names []string) {
	for _, p := range points {
		names = append(names, p.name)
	}
	return names
}

func (s *stage) hold(ctx context.Context, runs []*run, results []*scenario.Result) error {
	var held []*run
	for _, r := range runs {
		if r.moment.point != nil && r.moment.point.there != nil {
			held = append(held, r)
		}
	}
	if len(held) == 0 {
		return nil
	}
	pids, err := s.workerPIDs(ctx)
	if err != nil {
		return err
	}
	if err := killAll(pids, syscall.SIGSTOP); err != nil {
		return errors.Join(err, killAll(pids, syscall.SIGCONT))
	}
	failed := func(r *run, err error) {
		if err != nil {
			r.failed(results, "before the fault: "+err.Error())
		}
	}
	_ = each(held, func(r *run) error { failed(r, r.standsStill(ctx)); return nil })
	if err := killAll(pids, syscall.SIGCONT); err != nil {
		return err
	}
	return each(held, func(r *run) error { failed(r, r.moment.point.there(ctx, r)); return nil })
}

// standsStill brings codex to the point and stops it there.
func (r *run) standsStill(ctx context.Context) error {
	p := r.moment.point
	if p.ready != nil {
		if err := openGate(ctx, r); err != nil {
			return err
		}
		if err := p.ready(ctx, r); err != nil {
			return err
		}
	}
	if n := r.signalCodex(syscall.SIGSTOP); n == 0 {
		return fmt.Errorf("no codex of %s was found to stop", r.id)
	}
	// A read in progress may still return something before codex stops.
	if err := again(ctx, "codex of "+r.id+" to stand still", func(context.Context) error { return allStopped(r.CodexOf(r.id)) }); err != nil {
		return err
	}
	if p.full {
		return fillInput(r.proc(1) + "/in")
	}
	return nil
}

// wokenUp resumes codex after the fault and waits for the turn's end.
func wokenUp(ctx context.Context, r *run) error {
	if err := r.wakes(ctx); err != nil {
		return err
	}
	return completes(len(r.said))(ctx, r)
}

func (r *run) wakes(ctx context.Context) error {
	<-r.struck
	if text, err := peek(r.proc(1) + "/in"); err != nil {
		return err
	} else if r.moment.point.full && trimBlank(text) != "" {
		return fmt.Errorf("the worker died behind the point, not at it: codex was told %q", text)
	}
	r.pause(ctx, 2*time.Second)
	r.logf("codex goes on")
	r.signalCodex(syscall.SIGCONT)
	return nil
}

// atGate brings a session, started with extra flags, to the gate before the
// point.
func atGate(asks string, flags ...string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		r.flags = flags
		r.want = "completed"
		switch asks {
		case "ask a policy":
			file := filepath.Join(r.Dir, "accepts.yaml")
			if err := os.WriteFile(file, []byte("rules: [{name: let it, when: \"true\", outcome: accept}]\n"), 0o600); err != nil {
				return err
			}
			r.flags = append(r.flags, file)
			r.effects = map[string]effect{"one": {1, 1}}
			r.text = fmt.Sprintf("I shall ask.\n\nIt said one ran for %s.", r.id)
		case "use up the commands":
			r.want, r.effects = "interrupted", map[string]effect{"first": {1, 1}, "over": {0, 1}}
		case "hand over a file":
			r.text = fmt.Sprintf("I was told: Delivered report.md: 12 bytes, SHA-256 %s. for %s.", sumOf("all is well\n"), r.id)
		}
		if err := r.start(ctx); err != nil {
			return err
		}
		if err := r.send(ctx, "please "+asks+" for "+r.id); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, scenario.Patience)
		defer cancel()
		_, err := r.Model.AwaitWaiting(ctx, r.id)
		return err
	}
}

// asked waits until codex has written what so many times.
func asked(what string, times int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		return again(ctx, fmt.Sprintf("%s to say %s", r.id, what), func(context.Context) error {
			data, err := os.ReadFile(r.proc(1) + "/out.log")
			if n := bytes.Count(data, []byte(what)); err == nil && n < times {
				err = fmt.Errorf("it did so %d times", n)
			}
			return err
		})
	}
}

func inputHas(what string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		return again(ctx, "codex of "+r.id+" to be written to", func(context.Context) error {
			text, err := peek(r.proc(1) + "/in")
			if err == nil && !strings.Contains(text, what) {
				err = fmt.Errorf("in the input there is %q", text)
			}
			return err
		})
	}
}

// withFile prepares a session that waits for its second message, and the file
// for it.
func withFile(ctx context.Context, r *run) error {
	r.effects, r.want = map[string]effect{"blue": {1, 1}}, "completed"
	r.text = fmt.Sprintf("The file says blue for %s.", r.id)
	return quietly(ctx, r)
}

// plantedFile sends a message with a file, and waits until the file is on the
// host.
func plantedFile(ctx context.Context, r *run) error {
	file := filepath.Join(r.Dir, r.id+".txt")
	if err := os.WriteFile(file, []byte("blue"), 0o600); err != nil {
		return err
	}
	text := "please look into the file for " + r.id
	var sent protocol.MessageAccepted
	err := again(ctx, "send a file to "+r.id, func(ctx context.Context) error {
		return r.JSON(ctx, &sent, "session", "send", r.id, "--no-wait", "--file", file, text)
	})
	if err != nil {
		return err
	}
	r.said = append(r.said, said{id: sent.MessageID, text: text, more: true})
	return again(ctx, "the file of "+r.id+" to be planted", func(context.Context) error {
		there, err := filepath.Glob(filepath.Join(r.dir(), "inputs", "*", filepath.Base(file)))
		if err == nil && len(there) != 1 {
			err = fmt.Errorf("there is %v", there)
		}
		return err
	})
}

func deliveredFile(ctx context.Context, r *run) error {
	return again(ctx, "what "+r.id+" hands over to be kept", func(context.Context) error {
		n, err := r.delivered()
		if err == nil && n == 0 {
			err = errors.New("there is nothing yet")
		}
		return err
	})
}

func (r *run) delivered() (n int, err error) {
	all, err := filepath.Glob(filepath.Join(r.storeDir(), "deliverables", r.id, "*"))
	return len(all), err
}

func (r *run) deliverables() ([]protocol.Deliverable, error) {
	return lab.Lines[protocol.Deliverable](context.Background(), r.Lab, "session", "deliverables", r.id)
}

// overBudget expects the turn to be interrupted; the session continues when its
// budget is raised.
func overBudget(ctx context.Context, r *run) error {
	if err := wokenUp(ctx, r); err != nil {
		return err
	}
	none := int64(0)
	if err := r.signal(ctx, r.id, protocol.SignalBudget, protocol.Budget{Commands: &none, By: "faults"}); err != nil {
		return err
	}
	return r.remember(ctx)
}

// acts brings a session to the middle of a turn that has no text.
func acts(do protocol.Act) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if err := quietly(ctx, r); err != nil {
			return err
		}
		m := protocol.Message{ID: fmt.Sprintf("%s-m%d", r.id, len(r.said)+1), Do: do, By: "faults"}
		if do == protocol.ActReview {
			m.Review = &protocol.Review{Instructions: "please look at the patch for " + r.id}
		}
		r.said = append(r.said, said{id: m.ID, act: true})
		r.logf("message %s: %s", m.ID, do)
		if err := r.signal(ctx, r.id, protocol.SignalMessage, m); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, scenario.Patience)
		defer cancel()
		_, err := r.Model.AwaitWaiting(ctx, r.id)
		return err
	}
}

// actEnds lets the act end after the fault, and then runs another turn.
func actEnds(ctx context.Context, r *run) error {
	<-r.struck
	r.pause(ctx, 2*time.Second)
	if err := openGate(ctx, r); err != nil {
		return err
	}
	n := len(r.said)
	t, err := r.turn(ctx, n)
	if err != nil {
		return err
	}
	r.flowed()
	if t.Status != "completed" {
		return fmt.Errorf("turn %d is %s (%+v)", n, t.Status, t.Error)
	}
	again := "hello again from " + r.id
	if err := r.send(ctx, again); err != nil {
		return err
	}
	if t, err = r.turn(ctx, n+1); err == nil && (t.Status != "completed" || t.FinalText != "You said: "+again) {
		err = fmt.Errorf("the turn after it is %s with %q", t.Status, t.FinalText)
	}
	return err
}
