package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// A run is one session at one moment under one fault.
type run struct {
	*stage
	host   *host
	fault  *fault
	moment *moment
	nth    int
	id     string // of the session, and the name of its gate
	rng    *rand.Rand
	lead   time.Duration // from the act to the strike
	struck <-chan struct{}
	over   <-chan struct{} // closed when the fault is over

	flags    []string // extra flags of its start
	said     []said
	effects  map[string]effect // by the word that the command leaves
	want     string            // status that the struck turn must have, if no process ends
	text     string            // its final text, if it completes
	thread   string            // before the strike, if there was one
	process  int               // incarnation before the strike
	approved []protocol.Approval
	journals map[int][]byte         // saved before the session closes
	lost     func() ([]byte, error) // reads the first journal, if the host loses it

	mu    sync.Mutex
	trace []string
	began time.Time // of the strike
	flow  time.Duration
	seen  []process // of the session, before the close
	anew  bool      // a turn after the fault was correctly reported as unknown, too
	late  []string  // what reached codex and must not have
	kept  string    // folder with what a failed run left
}

type said struct {
	id, text string
	more     bool // the model is told more than the text
	act      bool // it has no text: a compaction, a review
}

type effect struct{ min, max int }

func (r *run) logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = append(r.trace, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (r *run) dir() string  { return filepath.Join(r.host.root, "sessions", r.id) }
func (r *run) work() string { return workOn(r.host, r.id) }

// foldersOn returns the folders of sessions on a host, and the rooms that are held.
func foldersOn(h *host) []string {
	dirs, _ := filepath.Glob(filepath.Join(h.root, "sessions", "[^.]*"))
	for _, name := range []string{"holder", "room"} {
		rooms, _ := filepath.Glob(filepath.Join(h.root, "rooms", "?", "?", "?", "?", name))
		dirs = append(dirs, rooms...)
	}
	return dirs
}

// workOn returns the work folder of a session on a host, without links if it is there.
func workOn(h *host, id string) string {
	work := filepath.Join(h.root, "sessions", id, "work")
	if real, err := filepath.EvalSymlinks(work); err == nil {
		return real
	}
	return work
}

// proc returns the folder of the n-th incarnation of codex.
func (r *run) proc(n int) string {
	name := "app-server"
	if n > 1 {
		name += fmt.Sprintf(".%d", n)
	}
	return filepath.Join(r.dir(), "proc", name)
}

// start starts the session. Starting the same id twice is one session.
func (r *run) start(ctx context.Context) error {
	r.logf("start")
	return again(ctx, "start "+r.id, func(ctx context.Context) error {
		got := r.Ctl(ctx, nil, append([]string{"session", "start", "--host", r.host.name, "--seed", "team", "--id", r.id}, r.flags...)...)
		if got.Code == 0 || got.Code == 6 {
			return nil
		}
		return got
	})
}

// send sends codex a message with its own id.
func (r *run) send(ctx context.Context, text string) error {
	m := said{id: fmt.Sprintf("%s-m%d", r.id, len(r.said)+1), text: text}
	r.said = append(r.said, m)
	r.logf("message %s: %s", m.id, m.text)
	return r.signal(ctx, r.id, protocol.SignalMessage, protocol.Message{ID: m.id, Text: m.text, By: "faults"})
}

func (r *run) turn(ctx context.Context, n int) (protocol.TurnView, error) {
	var t protocol.TurnView
	_, err := r.until(ctx, r.id, fmt.Sprintf("to end turn %d", n), func(d protocol.SessionDetail) bool {
		for _, v := range d.Turns {
			if v.N == n && v.Done() {
				t = v
				return true
			}
		}
		return false
	})
	r.logf("turn %d is %s", n, t.Status)
	return t, err
}

func (r *run) hello(ctx context.Context) error {
	text := "hello from " + r.id
	if err := r.send(ctx, text); err != nil {
		return err
	}
	t, err := r.turn(ctx, len(r.said))
	if err == nil && (t.Status != "completed" || t.FinalText != "You said: "+text) {
		err = fmt.Errorf("a plain turn is %s with %q", t.Status, t.FinalText)
	}
	return err
}

func (r *run) idle(ctx context.Context) error {
	_, err := r.until(ctx, r.id, "to be idle", func(d protocol.SessionDetail) bool { return d.View.State == protocol.Idle })
	return err
}

// asked waits until n approvals are open and nobody is attached any more.
func (r *run) asked(ctx context.Context, n int) error {
	d, err := r.until(ctx, r.id, fmt.Sprintf("to ask %d times", n), func(d protocol.SessionDetail) bool {
		return len(d.View.Requests) == n && d.View.State == protocol.Waiting
	})
	r.approved = d.Approvals
	return err
}

// accept decides an approval as a person would.
func (r *run) accept(ctx context.Context, a protocol.Approval) error {
	r.logf("accept %s", a.ID)
	return r.signal(ctx, r.id, protocol.SignalDecide, protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "faults", Reason: "the run says so"})
}

// remember runs a turn that shows whether the thread is the same.
func (r *run) remember(ctx context.Context) error {
	if err := r.send(ctx, fmt.Sprintf("what was first? (%s, %d)", r.id, len(r.said)+1)); err != nil {
		return err
	}
	n := len(r.said)
	t, err := r.turn(ctx, n)
	if err != nil {
		return err
	}
	if t.Status != "completed" || !strings.HasPrefix(t.FinalText, "The first was: ") {
		return fmt.Errorf("the turn after the fault is %s with %q (%+v)", t.Status, t.FinalText, t.Error)
	}
	if first := strings.TrimPrefix(t.FinalText, "The first was: "); first != r.said[0].text {
		r.mu.Lock()
		defer r.mu.Unlock()
		// A first message that is reported as not delivered is not lost.
		if st := r.statusOf(ctx, 1); st != "interrupted" && st != "unknown" || n < 2 || first != r.said[1].text {
			return fmt.Errorf("the thread does not remember %q, but %q", r.said[0].text, first)
		}
	}
	return nil
}

func (r *run) statusOf(ctx context.Context, n int) string {
	d, err := r.detail(ctx, r.id)
	if err != nil {
		return err.Error()
	}
	for _, t := range d.Turns {
		if t.N == n {
			return t.Status
		}
	}
	return ""
}

// letGo lets the long command end.
func (r *run) letGo() error {
	err := os.WriteFile(filepath.Join(r.work(), "go"), nil, 0o644)
	if errors.Is(err, os.ErrNotExist) {
		return nil // no work folder yet: no command
	}
	return err
}

func (r *run) lines() (map[string]int, error) {
	data, err := os.ReadFile(filepath.Join(r.work(), "effects.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		out[strings.TrimSuffix(line, "\n")]++
	}
	return out, nil
}

// flowed records that the struck turn has ended. A turn that ended before the
// fault counts for nothing.
func (r *run) flowed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.began.IsZero() {
		r.flow = time.Since(r.began)
	}
}

// told returns the trace, each line with the run's id.
func (r *run) told() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.trace {
		out = append(out, r.id+" "+line)
	}
	return out
}

func (r *run) pause(ctx context.Context, max time.Duration) {
	scenario.Sleep(ctx, time.Duration(r.rng.Int64N(int64(max))))
}
