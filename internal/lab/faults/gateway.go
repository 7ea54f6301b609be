package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// Moments of sessions whose codex reaches the model through their worker: the fault strikes
// before the model's first word, or in mid-stream.
const (
	gatedWait   = "gateway, model asked"
	gatedStream = "gateway, mid-stream"
	gatedSecond = "gateway, second answer"
)

var gated = []string{gatedWait, gatedStream, gatedSecond}

var gatedMoments = []*moment{
	{name: gatedWait, spread: 300 * time.Millisecond, before: keyless(thinking), act: openGate, after: outlasts, let: openGate},
	{name: gatedStream, spread: 300 * time.Millisecond, before: keyless(streaming), act: openGate, after: outlasts, let: openGate},
	{name: gatedSecond, spread: 300 * time.Millisecond, before: keyless(reporting), act: openGate, after: outlasts, let: openGate},
}

// outlasts waits for the end of the struck turn, also while a fault lasts that is longer than
// the patience of the rig.
func outlasts(ctx context.Context, r *run) error {
	for {
		over := false
		select {
		case <-r.over:
			over = true
		default:
		}
		if err := completes(1)(ctx, r); err == nil || over || ctx.Err() != nil {
			return err
		}
	}
}

// keyless starts the session without a credential on the host.
func keyless(before func(context.Context, *run) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		r.flags = append(r.flags, "--credentials", "gateway")
		return before(ctx, r)
	}
}

// thinking brings a turn to the model, which says nothing yet.
func thinking(ctx context.Context, r *run) error {
	return r.heldAt(ctx, "please think first for "+r.id, "Thought of "+r.id+".\n\nThen it ran.")
}

// reporting brings a turn to its second answer, behind a command.
func reporting(ctx context.Context, r *run) error {
	return r.heldAt(ctx, "please report at length for "+r.id, words+"\n\nFor "+r.id+".")
}

// heldAt starts a session whose first turn is held at its gate, and which ends with a text
// after a command.
func (r *run) heldAt(ctx context.Context, prompt, text string) error {
	r.effects = map[string]effect{"streamed": {1, 1}}
	r.want, r.text = "completed", text
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.send(ctx, prompt); err != nil {
		return err
	}
	return r.waitsAtGate(ctx)
}

func (r *run) waitsAtGate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scenario.Patience)
	defer cancel()
	_, err := r.Model.AwaitWaiting(ctx, r.id)
	return err
}

// gatedAnswers is how many answers of the model the turn of a gated moment has.
const gatedAnswers = 2

// judgeAsked checks that a fault costs a session of the gateway no more than one repeated
// request.
func (r *run) judgeAsked(res *scenario.Result, thread string) {
	if !strings.HasPrefix(r.moment.name, "gateway, ") || thread == "" {
		return
	}
	asked := 0
	for _, q := range r.Model.RequestsOf(thread) {
		if q.Answer == "stream" {
			asked++
		}
	}
	if asked < gatedAnswers {
		res.Find(wrong, "the model was asked %d times for %d answers", asked, gatedAnswers)
	}
	if asked > gatedAnswers+1 {
		res.Find(answerRepeated, "the model was asked %d times for %d answers and one fault", asked, gatedAnswers)
	}
}

// restartModel cuts the model's connections, and starts it again a while later.
func restartModel(ctx context.Context, w *struckWave) error {
	return w.Model.Restart(func() {
		w.struck()
		scenario.Sleep(ctx, time.Duration(w.rng.Int64N(int64(3*time.Second))))
	})
}

// workersAway kills all workers and starts none for a while.
func workersAway(d time.Duration) func(context.Context, *struckWave) error {
	return func(ctx context.Context, w *struckWave) error {
		pids, err := w.workerPIDs(ctx)
		if err != nil {
			return err
		}
		return w.Unsupervised(func() error {
			w.struck()
			err := killAll(pids, syscall.SIGKILL)
			scenario.Sleep(ctx, d)
			return err
		})
	}
}

var gatewayScript = fmt.Sprintf(`- name: think first
  when: {contains: think first, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - wait: '{{ index .Match 1 }}'
    - say: 'Thought of {{ index .Match 1 }}.'
    - shell: {cmd: 'echo streamed >>effects.txt; echo it ran', yield: 20s}
  - say: 'Then {{ trim .LastToolOutput }}.'
- name: report at length
  when: {contains: report at length, matches: 'for (r[0-9a-f]+-\S+)'}
  steps:
  - - shell: {cmd: 'echo streamed >>effects.txt; echo it ran', yield: 20s}
  - - say: '%[1]s'
    - wait: {gate: '{{ index .Match 1 }}', after: 12}
    - say: 'For {{ index .Match 1 }}.'
`, words)
