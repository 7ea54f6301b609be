package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

const (
	rollingWorkers = 3
	// rollingWords are as many as stream for four minutes, which is longer than three workers
	// take to be replaced.
	rollingWords = 960
	rollingPace  = 250 * time.Millisecond
	rollingGate  = "roll"
)

// rollingText has no word twice, so a word that is lost or repeated is seen.
func rollingText() string {
	words := make([]string, rollingWords)
	for i := range words {
		words[i] = fmt.Sprintf("w%03d", i+1)
	}
	return strings.Join(words, " ")
}

// A rolling is a set of sessions of the real codex that all stream while each worker is replaced.
type rolling struct {
	*fleet
	ids     []string
	viewers []*viewer
}

// measureRolling replaces three workers one after another, as a deployment does, while turns run.
// A worker is stopped as soon as the one before it has been replaced.
func measureRolling(ctx context.Context, o *options) (err error) {
	script := fmt.Sprintf("rules:\n- name: talk\n  steps:\n  - - say: {text: 'w000 '}\n    - wait: {gate: %s}\n    - say: {text: '%s', pace: %s}\n", rollingGate, rollingText(), rollingPace)
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Script: []byte(script), Workers: rollingWorkers, Keep: o.keep}, 1)
	if err != nil {
		return err
	}
	r := &rolling{fleet: f}
	defer func() { err = errors.Join(err, r.Close(context.WithoutCancel(ctx))) }()
	if err := r.begin(ctx, o.rolling); err != nil {
		return err
	}
	r.lab.Model.Release(rollingGate)
	if err := r.flowing(ctx, time.Now()); err != nil {
		return err
	}
	old, err := r.workers()
	if err != nil {
		return err
	}
	began := time.Now()
	for _, w := range old {
		if err := syscall.Kill(w.PID, syscall.SIGTERM); err != nil {
			return fmt.Errorf("stop worker %d: %w", w.PID, err)
		}
		if err := r.lab.AwaitSuccessor(ctx, rollingWorkers, w.PID); err != nil {
			return err
		}
	}
	replaced := time.Now()
	if err := r.flowing(ctx, replaced); err != nil {
		return err
	}
	gaps, over := r.gaps(began)
	fmt.Printf("  %d workers replaced one after another under %d turns, within %v\n", rollingWorkers, len(r.ids), replaced.Sub(began).Round(time.Second))
	if over > 0 {
		fmt.Printf("  %d turns ended before all workers were replaced, so their gaps are shorter than they might be\n", over)
	}
	gaps.against("longest gap of a turn's text", 5*time.Second)
	return r.judge(ctx)
}

// begin starts n turns, which wait for the gate. Only some start at a time, so that the machine
// is not asked to start all codexes at once.
func (r *rolling) begin(ctx context.Context, n int) error {
	ws, err := r.workers()
	if err != nil {
		return err
	}
	var apis []string
	for _, w := range ws {
		apis = append(apis, w.API)
	}
	if err := r.lab.ImportSeed(ctx, "bench"); err != nil {
		return err
	}
	for i := range n {
		r.ids = append(r.ids, fmt.Sprintf("roll-%03d", i+1))
	}
	if err := each(r.ids, 6, func(id string) error {
		if err := r.start(ctx, id, session.Options{Host: r.hosts[0], Seed: "bench"}, "talk about "+id); err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		return lab.Until(within, "the turn of "+id, func() (bool, error) {
			d, err := r.detail(within, id)
			return err == nil && d.View.State == protocol.Running, err
		})
	}); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := lab.Until(within, "all turns to ask the model", func() (bool, error) { return len(r.lab.Model.Waiting()) == n, nil }); err != nil {
		return err
	}
	for _, id := range r.ids {
		v, err := r.watch(ctx, id, apis)
		if err != nil {
			return err
		}
		r.viewers = append(r.viewers, v)
	}
	return nil
}

// flowing waits until each turn has text that came after t, or has all of its text.
func (r *rolling) flowing(ctx context.Context, t time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for i, v := range r.viewers {
		if err := v.await(ctx, "text of "+r.ids[i], func() bool { return !v.after(t).IsZero() || v.ended() }); err != nil {
			return err
		}
	}
	return nil
}

// ended reports whether all text has come. The caller holds v.mu.
func (v *viewer) ended() bool {
	for _, at := range v.pos {
		if at >= int64(len(rollingText())) {
			return true
		}
	}
	return false
}

// gaps returns the longest gap between two arrivals of text in each session since a time, and how
// many sessions have all of their text.
func (r *rolling) gaps(since time.Time) (s series, over int) {
	for _, v := range r.viewers {
		v.mu.Lock()
		last, longest := since, time.Duration(0)
		for _, at := range v.at {
			if at.After(since) {
				longest = max(longest, at.Sub(last))
				last = at
			}
		}
		if v.ended() {
			over++
		}
		v.mu.Unlock()
		s = append(s, longest)
	}
	return s, over
}

// judge fails unless each turn completed with its whole text, and the model was asked once for it.
func (r *rolling) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	asked := map[string]int{}
	err := each(r.ids, 2, func(id string) error {
		if err := lab.Until(ctx, "the turn of "+id+" to end", func() (bool, error) {
			d, err := r.detail(ctx, id)
			return err == nil && d.View.State == protocol.Idle, err
		}); err != nil {
			return err
		}
		if err := r.lab.Heard(ctx, id, []string{"talk about " + id}); err != nil {
			return err
		}
		entries, err := lab.Lines[protocol.Entry](ctx, r.lab, "transcript", id)
		if err != nil {
			return err
		}
		var said []string
		for _, e := range entries {
			if e.Type == protocol.EntryAssistant {
				said = append(said, e.Text)
			}
		}
		if got := strings.Join(said, ""); got != "w000 "+rollingText() {
			return fmt.Errorf("session %s: the transcript has other text of the model than it said: %.60q…, %d bytes of %d", id, got, len(got), len(rollingText())+5)
		}
		return nil
	})
	for _, q := range r.lab.Model.Requests() {
		if n := len(q.UserMessages); n > 0 {
			asked[q.UserMessages[n-1]]++
		}
	}
	for _, id := range r.ids {
		if n := asked["talk about "+id]; n != 1 {
			err = errors.Join(err, fmt.Errorf("session %s: the model was asked %d times", id, n))
		}
	}
	if err == nil {
		fmt.Printf("  lost or repeated, in %d turns of %d words: 0; the model was asked once for each\n", len(r.ids), rollingWords+1)
	}
	return err
}

func (r *rolling) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	err := r.close(ctx, r.ids)
	for _, v := range r.viewers {
		v.Close()
	}
	return errors.Join(err, r.fleet.Close())
}
