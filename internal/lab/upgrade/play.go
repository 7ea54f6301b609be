package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// phases are those in which sessions are used: N, N beside N+1, N+1, back to N, and N+1 again.
const phases = 5

// A play is the work that goes on while workers are replaced.
type play struct {
	lab   *lab.Lab
	root  string // of the host
	n     int    // sessions of each kind
	phase int

	mu   sync.Mutex
	said map[string][]string // by session: its messages, each of which is one turn
}

// kinds of sessions, by what they do when workers are replaced.
const (
	waits = "waits" // for a message
	runs  = "runs"  // a turn, with a message behind it
	asks  = "asks"  // for an approval
	parks = "parks"
)

var kinds = []string{waits, runs, asks, parks}

func newPlay(l *lab.Lab, root string, n int) *play {
	return &play{lab: l, root: root, n: n, said: map[string][]string{}}
}

// each calls do for every session of a kind, some of them at a time.
func (p *play) each(kind string, do func(id string) error) error {
	var g errgroup.Group
	g.SetLimit(3)
	for i := range p.n {
		g.Go(func() error { return do(fmt.Sprintf("%s-%d", kind, i+1)) })
	}
	return g.Wait()
}

// ctl runs a command. Workers may be slow to answer on a busy machine.
func (p *play) ctl(ctx context.Context, args ...string) error {
	_, err := p.lab.Out(ctx, append([]string{"--timeout", "3m"}, args...)...)
	return err
}

// say notes a message to a session, and returns how many it has had.
func (p *play) say(id, text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said[id] = append(p.said[id], text)
	return len(p.said[id])
}

func (p *play) turns(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.said[id])
}

func (p *play) start(ctx context.Context, id string, more ...string) error {
	return p.ctl(ctx, append([]string{"session", "start", "--id", id}, more...)...)
}

// send sends a message and does not wait for its turn.
func (p *play) send(ctx context.Context, id, text string) error {
	p.say(id, text)
	return p.ctl(ctx, "session", "send", id, "--no-wait", text)
}

// begin starts everything that goes on over all phases. Half of the sessions have their seed
// from a pool of seeds.
func (p *play) begin(ctx context.Context) error {
	if err := p.ctl(ctx, "seed", "set", "team", "--pool", "teams"); err != nil {
		return err
	}
	for i, kind := range kinds {
		seed := []string{"--host", "web-1", "--seed", "team"}
		if i%2 == 1 {
			seed = []string{"--label", "size=large", "--seed-pool", "teams"}
		}
		if err := p.each(kind, func(id string) error { return p.start(ctx, id, seed...) }); err != nil {
			return err
		}
	}
	var items strings.Builder
	for i := range 2 * phases {
		fmt.Fprintf(&items, "  - {id: i%d, vars: {phase: \"%d\", item: \"%d\"}}\n", i+1, i/2+1, i+1)
	}
	batch := "window: 4\nprompt: wait at gate batch-{{.phase}} please, item {{.item}}\ndefaults: {seed: team, host: web-1, approval-policy: never}\nitems:\n" + items.String()
	file := filepath.Join(p.lab.Dir, "batch.yaml")
	if err := os.WriteFile(file, []byte(batch), 0o600); err != nil {
		return err
	}
	if err := p.ctl(ctx, "batch", "run", file, "--id", "many", "--detach"); err != nil {
		return err
	}
	if err := p.ctl(ctx, "schedule", "create", "hourly", "--every", "240h", "--", "--host", "web-1", "--seed", "team", scheduled); err != nil {
		return err
	}
	return p.line(ctx, 1)
}

const scheduled = "hello from the schedule"

// line starts a session that wants the only slot of the host small.
func (p *play) line(ctx context.Context, n int) error {
	id := fmt.Sprintf("line-%d", n)
	if err := p.start(ctx, id, "--host", "small", "--seed", "team"); err != nil {
		return err
	}
	return p.send(ctx, id, "wait at gate "+id+" please")
}

// use uses every session under the workers that are up, and leaves each as the next change of
// workers is to find it.
func (p *play) use(ctx context.Context) error {
	p.phase++
	if p.phase > 1 {
		if err := p.settle(ctx); err != nil {
			return err
		}
	}
	if err := p.each(waits, func(id string) error { return p.turn(ctx, id, p.words(id, "hello")) }); err != nil {
		return err
	}
	if err := p.ctl(ctx, "schedule", "trigger", "hourly"); err != nil {
		return err
	}
	p.lab.Model.Release(fmt.Sprintf("batch-%d", p.phase))
	if _, err := p.lab.Model.AwaitWaiting(ctx, fmt.Sprintf("line-%d", p.phase)); err != nil {
		return err
	}
	if p.phase == phases {
		return nil // no change of workers follows
	}
	if err := p.line(ctx, p.phase+1); err != nil {
		return err
	}
	if err := p.each(runs, func(id string) error {
		gate := fmt.Sprintf("%s-%d", id, p.phase)
		if err := p.send(ctx, id, "wait at gate "+gate+" please"); err != nil {
			return err
		}
		if _, err := p.lab.Model.AwaitWaiting(ctx, gate); err != nil {
			return err
		}
		return p.send(ctx, id, p.words(id, "hello from the queue"))
	}); err != nil {
		return err
	}
	if err := p.each(asks, func(id string) error {
		if err := p.send(ctx, id, p.words(id, "you need a command")); err != nil {
			return err
		}
		return p.see(ctx, id, "it asks", func(v protocol.SessionView) bool { return len(v.Requests) == 1 })
	}); err != nil {
		return err
	}
	if err := p.each(parks, func(id string) error {
		if err := p.turn(ctx, id, p.words(id, "hello before I am parked")); err != nil {
			return err
		}
		return p.ctl(ctx, "session", "park", id)
	}); err != nil {
		return err
	}
	return p.rest(ctx)
}

// rest waits until nothing goes on but what waits for the play: then states change only by what
// is done to them. The items of the batch wait at their gates, and the sessions of the schedule
// have closed.
func (p *play) rest(ctx context.Context) error {
	return scenario.Again(ctx, "the batch and the schedule rest", func(ctx context.Context) error {
		var v protocol.BatchView
		if err := p.lab.JSON(ctx, &v, "batch", "show", "many"); err != nil {
			return err
		}
		waiting := 0
		for _, w := range p.lab.Model.Waiting() {
			if strings.HasPrefix(w.Gate, "batch-") {
				waiting++
			}
		}
		if open := min(4, 2*(phases-p.phase)); v.Done != 2*p.phase || waiting != open {
			return fmt.Errorf("%d items are done and %d wait, not %d and %d", v.Done, waiting, 2*p.phase, open)
		}
		sessions, err := lab.Lines[protocol.SessionView](ctx, p.lab, "session", "list")
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if strings.HasPrefix(s.ID, "hourly-") && s.State != protocol.Closed {
				return fmt.Errorf("%s is %s", s.ID, s.State)
			}
		}
		return nil
	})
}

// words are a message like no other of the session.
func (p *play) words(id, text string) string {
	return fmt.Sprintf("%s, %s in phase %d", text, id, p.phase)
}

// settle ends what went on while workers were replaced.
func (p *play) settle(ctx context.Context) error {
	before := p.phase - 1
	if err := p.each(runs, func(id string) error {
		p.lab.Model.Release(fmt.Sprintf("%s-%d", id, before))
		return p.ended(ctx, id)
	}); err != nil {
		return err
	}
	if err := p.each(asks, func(id string) error {
		if err := p.ctl(ctx, "approval", "accept", fmt.Sprintf("%s.%d", id, before)); err != nil {
			return err
		}
		return p.ended(ctx, id)
	}); err != nil {
		return err
	}
	if err := p.each(parks, func(id string) error { return p.turn(ctx, id, p.words(id, "hello after I was parked")) }); err != nil {
		return err
	}
	return p.leaveLine(ctx, before)
}

// leaveLine ends a session, so that the next one of the line gets its slot.
func (p *play) leaveLine(ctx context.Context, n int) error {
	id := fmt.Sprintf("line-%d", n)
	p.lab.Model.Release(id)
	if err := p.ended(ctx, id); err != nil {
		return err
	}
	return p.ctl(ctx, "session", "close", id)
}

// turn runs a turn to its end.
func (p *play) turn(ctx context.Context, id, text string) error {
	n := p.say(id, text)
	var v protocol.TurnView
	if err := p.lab.JSON(ctx, &v, "session", "send", id, text); err != nil {
		return err
	}
	if v.N != n || v.Status != "completed" {
		return fmt.Errorf("session %s: turn %d is %s, not turn %d completed", id, v.N, v.Status, n)
	}
	return nil
}

// ended waits until each message of a session has had its turn.
func (p *play) ended(ctx context.Context, id string) error {
	n := p.turns(id)
	return p.see(ctx, id, fmt.Sprintf("turn %d has ended", n), func(v protocol.SessionView) bool {
		return v.State == protocol.Idle && v.Turn != nil && v.Turn.N == n && v.Turn.Status == "completed"
	})
}

// see waits until a session is as it should be. A workflow that an older worker left to a newer
// one may wait for ten minutes.
func (p *play) see(ctx context.Context, id, what string, is func(protocol.SessionView) bool) error {
	return scenario.Wait{Most: 15 * time.Minute, Try: 2 * time.Minute, Gap: time.Second}.For(ctx, "session "+id+": "+what, func(ctx context.Context) error {
		var v protocol.SessionView
		if err := p.lab.JSON(ctx, &v, "session", "show", id); err != nil {
			return err
		}
		if !is(v) {
			return fmt.Errorf("it is %s and waits for %q, its turn is %+v, it asks %d times", v.State, v.Waits, v.Turn, len(v.Requests))
		}
		return nil
	})
}

// end looks whether everything came out, and closes all sessions.
func (p *play) end(ctx context.Context) error {
	if err := p.leaveLine(ctx, phases); err != nil {
		return err
	}
	if err := p.each(asks, func(id string) error {
		// The command of each approval adds a line.
		text, err := os.ReadFile(filepath.Join(p.root, "sessions", id, "room", "work", "ran.txt"))
		if err != nil {
			return err
		}
		if n := strings.Count(string(text), "\n"); n != phases-1 {
			return fmt.Errorf("session %s: its command ran %d times, and was approved %d times", id, n, phases-1)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := scenario.Again(ctx, "the batch ends", func(ctx context.Context) error {
		var v protocol.BatchView
		if err := p.lab.JSON(ctx, &v, "batch", "show", "many"); err != nil {
			return err
		}
		if v.Done != 2*phases || v.Failed != 0 {
			return fmt.Errorf("%d of %d items are done, %d failed", v.Done, v.Total, v.Failed)
		}
		return nil
	}); err != nil {
		return err
	}
	turns := 0
	for _, id := range slices.Sorted(maps.Keys(p.said)) {
		turns += len(p.said[id])
		if err := p.lab.Heard(ctx, id, p.said[id]); err != nil {
			return err
		}
	}
	if err := p.once(ctx); err != nil {
		return err
	}
	fmt.Printf("upgrade: %d sessions had %d messages, each was one turn for the model and in the transcript; %d commands ran, each once; %d items of a batch are done, each once; a schedule began %d sessions\n",
		len(p.said), turns, (phases-1)*p.n, 2*phases, phases)
	for id := range p.said {
		if !strings.HasPrefix(id, "line-") {
			if err := p.ctl(ctx, "session", "close", id); err != nil {
				return err
			}
		}
	}
	return nil
}
