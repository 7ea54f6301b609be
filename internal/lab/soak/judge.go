package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

func (s *soak) judge(ctx context.Context, before weight, samples []weight) []*scenario.Result {
	var out []*scenario.Result
	for _, subject := range []struct {
		name  string
		judge func(context.Context, *scenario.Result)
	}{
		{"work", s.judgeWork},
		{"left over", s.judgeLeft},
		{"tasks", s.judgeTasks},
		{"worker", func(ctx context.Context, r *scenario.Result) { s.judgeWorker(ctx, r, before, samples) }},
	} {
		r := &scenario.Result{Subject: subject.name, Took: true}
		subject.judge(ctx, r)
		s.say("%s judged: %s", time.Now().UTC().Format("15:04:05"), r.Subject)
		out = append(out, r)
	}
	return out
}

func (s *soak) judgeWork(ctx context.Context, r *scenario.Result) {
	messages, commands := 0, 0
	for _, w := range s.all {
		messages, commands = messages+len(w.said), commands+w.approved
		judge := s.judgeSteady
		if w.frail {
			judge = s.judgeFrail
		}
		if err := judge(ctx, w); err != nil {
			r.Find(scenario.Wrong, "session %s: %v", w.id, err)
		}
	}
	r.Note = fmt.Sprintf("%d sessions, %d messages, %d approved commands", len(s.all), messages, commands)
}

// ranTimes begins what is expected of an answer to a command: how often it has run.
const ranTimes = "ran, times: "

func (s *soak) judgeSteady(ctx context.Context, w *worked) error {
	if err := s.lab.Heard(ctx, w.id, w.said); err != nil {
		return err
	}
	_, answers, err := s.transcript(ctx, w)
	if err != nil {
		return err
	}
	if len(answers) != len(w.answers) {
		return fmt.Errorf("the transcript has %d answers to %d messages: %.2000q", len(answers), len(w.answers), answers)
	}
	for i, want := range w.answers {
		got := answers[i]
		if times, ok := strings.CutPrefix(want, ranTimes); ok {
			got, want = fmt.Sprint(strings.Count(got, "it ran")), times
		}
		if got != want {
			return fmt.Errorf("answer %d is %.200q, not %.200q", i+1, got, want)
		}
	}
	if w.approved == 0 {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(s.root, "sessions", w.id, "room", "work", "ran.txt"))
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), "\n"); n != w.approved {
		return fmt.Errorf("its command ran %d times, and was approved %d times", n, w.approved)
	}
	return nil
}

func (s *soak) judgeFrail(ctx context.Context, w *worked) error {
	said, _, err := s.transcript(ctx, w)
	if err != nil {
		return err
	}
	said = slices.DeleteFunc(said, func(text string) bool { return !slices.Contains(w.said, text) }) // what the engine says to go on
	if !slices.Equal(said, w.said) {
		return fmt.Errorf("the transcript has the messages %q, and it was told %q", said, w.said)
	}
	return nil
}

// transcript returns what was said to a session, and what it answered to each message.
func (s *soak) transcript(ctx context.Context, w *worked) (said, answers []string, err error) {
	entries, err := lab.Lines[protocol.Entry](ctx, s.lab, "transcript", w.id)
	for _, e := range entries {
		switch e.Type {
		case protocol.EntryUser:
			said = append(said, e.Text)
		case protocol.EntryAssistant:
			// The beginning of an answer whose stream was cut stays; the model was asked again.
			if e.Status == "interrupted" {
				continue
			}
			answers = append(answers, e.Text)
		}
	}
	return said, answers, err
}

// judgeLeft closes all sessions, and looks for what they leave.
func (s *soak) judgeLeft(ctx context.Context, r *scenario.Result) {
	var g errgroup.Group
	g.SetLimit(8)
	for _, w := range s.all {
		g.Go(func() error {
			return patient.For(ctx, "session "+w.id+" to close", func(ctx context.Context) error {
				// The signal comes to nothing once the session has closed.
				_ = s.c.SignalWorkflow(ctx, protocol.SessionID(w.id), "", protocol.SignalClose, protocol.Close{By: by, Discard: true})
				return s.c.GetWorkflow(ctx, protocol.SessionID(w.id), "").Get(ctx, nil)
			})
		})
	}
	if err := g.Wait(); err != nil {
		r.Find(scenario.Wrong, "%v", err)
	}
	var left []string
	err := scenario.Again(ctx, "the host to be empty", func(context.Context) error {
		left = nil
		for _, w := range s.all {
			for _, pid := range s.lab.CodexOf(w.id) {
				left = append(left, fmt.Sprintf("codex of %s, %d", w.id, pid))
			}
		}
		folders, err := os.ReadDir(filepath.Join(s.root, "sessions"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, f := range folders {
			// A file with a dot says that a session has gone; hosts remove it later.
			if f.IsDir() {
				left = append(left, "folder "+f.Name())
			}
		}
		if len(left) > 0 {
			return errors.New(left[0])
		}
		return nil
	})
	if err != nil {
		r.Find(scenario.Wrong, "%v: %q", err, left)
	}
	r.Note = fmt.Sprintf("%d processes and folders", len(left))
}

// judgeTasks reads the histories of all workflows that are there.
func (s *soak) judgeTasks(ctx context.Context, r *scenario.Result) {
	histories, failed := 0, map[string]int{}
	var page []byte
	for {
		list, err := s.c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 100, NextPageToken: page})
		if err != nil {
			r.Find(scenario.Wrong, "list workflows: %v", err)
			return
		}
		for _, w := range list.Executions {
			histories++
			history := s.c.GetWorkflowHistory(ctx, w.Execution.WorkflowId, w.Execution.RunId, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for history.HasNext() {
				e, err := history.Next()
				if err != nil {
					r.Find(scenario.Wrong, "read the history of %s: %v", w.Execution.WorkflowId, err)
					break
				}
				if f := e.GetWorkflowTaskFailedEventAttributes(); f != nil {
					failed[f.Cause.String()]++
					if f.Cause == enums.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR {
						r.Find(scenario.Wrong, "%s: %s", w.Execution.WorkflowId, f.GetFailure().GetMessage())
					}
				}
			}
		}
		if page = list.NextPageToken; len(page) == 0 {
			break
		}
	}
	r.Note = fmt.Sprintf("%d histories; failed tasks by cause: %v", histories, failed)
}

const (
	moreFiles      = 12
	moreGoroutines = 60
	// leastWarm is how long memory is watched before its growth means something.
	leastWarm = 10 * time.Minute
	// mostConnections are those that all workers may keep to a host at rest: the pool of each keeps
	// what it has used last.
	mostConnections = 2 * workers
)

func (s *soak) judgeWorker(ctx context.Context, r *scenario.Result, before weight, samples []weight) {
	var after weight
	err := scenario.Wait{Most: 15 * time.Minute, Try: time.Minute, Gap: 5 * time.Second}.For(ctx, "the first worker to use what it used before", func(ctx context.Context) (err error) {
		if after, err = s.weigh(ctx); err != nil {
			return err
		}
		if after.files > before.files+moreFiles || after.goroutines > before.goroutines+moreGoroutines || after.connections > mostConnections {
			return fmt.Errorf("it uses %s, and used %s", after, before)
		}
		return nil
	})
	if err != nil {
		r.Find(scenario.Wrong, "%v", err)
	}
	words := []string{fmt.Sprintf("before: %s; after: %s", before, after)}
	for _, half := range warm(samples) {
		g := growth(half)
		words = append(words, fmt.Sprintf("memory grew by %.1f %% in 10 minutes over %s, to %d MiB", 100*g, half[len(half)-1].at.Sub(half[0].at).Round(time.Second), half[len(half)-1].memory>>20))
		if g > 0.01 && half[len(half)-1].at.Sub(half[0].at) >= leastWarm {
			r.Find(scenario.Wrong, "memory grew by %.1f %% in 10 minutes", 100*g)
		}
	}
	r.Note = strings.Join(words, "; ")
}
