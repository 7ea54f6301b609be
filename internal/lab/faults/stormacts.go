package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// What sessions do before, during and after a storm.

func doNothingYet(context.Context, *stormRun) error { return nil }

func starts(on func(*stormWave) *host) func(context.Context, *stormRun) error {
	return func(ctx context.Context, r *stormRun) error {
		r.host = on(r.stormWave)
		return r.start(ctx, session.Options{Host: r.host.name}, r.runs("first"))
	}
}

func turnEnds(n int) func(context.Context, *stormRun) error {
	return func(ctx context.Context, r *stormRun) error { return r.completes(ctx, r.id, n) }
}

func hasTurn(ctx context.Context, r *stormRun) error {
	r.host = r.a
	opt := session.Options{Host: r.a.name, Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotTurn}}
	if err := r.start(ctx, opt, r.runs("first")); err != nil {
		return err
	}
	if err := r.completes(ctx, r.id, 1); err != nil {
		return err
	}
	return r.becomes(ctx, r.id, protocol.Idle)
}

// slotTaken starts another session that takes the only slot of a host.
func slotTaken(ctx context.Context, r *stormRun) error {
	r.host = r.one
	holder := r.holder()
	if err := holder.start(ctx, session.Options{Host: r.one.name}, holder.runs("held")); err != nil {
		return err
	}
	return holder.completes(ctx, holder.id, 1)
}

func (r *stormRun) holder() *stormRun {
	return &stormRun{stormWave: r.stormWave, phase: r.phase, id: r.id + "-holder", host: r.one, res: r.res}
}

func slotFreed(ctx context.Context, r *stormRun) error {
	if err := r.closes(ctx, r.id+"-holder"); err != nil {
		return err
	}
	return r.completes(ctx, r.id, 1)
}

func (r *stormRun) goFile() string { return r.effects() + ".go" }

func runsLong(ctx context.Context, r *stormRun) error {
	r.turns++
	return r.say1(ctx, r.id, r.turns, fmt.Sprintf("run %s; while [ ! -e %s ]; do sleep 0.5; done; %s", r.leaves("began"), r.goFile(), r.leaves("ended")))
}

func longEnds(ctx context.Context, r *stormRun) error {
	if err := os.WriteFile(r.goFile(), nil, 0o644); err != nil {
		return err
	}
	return r.completes(ctx, r.id, r.turns)
}

func asksPerson(ctx context.Context, r *stormRun) error {
	r.turns++
	return r.say1(ctx, r.id, r.turns, "ask "+r.leaves("allowed"))
}

func personDecides(ctx context.Context, r *stormRun) error {
	var open protocol.Approval
	_, err := r.await(ctx, r.id, "to ask", func(d protocol.SessionDetail) bool {
		for _, a := range d.Approvals {
			if a.State == protocol.ApprovalOpen {
				open = a
				return true
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	err = r.signal(ctx, r.id, protocol.SignalDecide, protocol.Decide{Approval: open.ID, Digest: open.Digest, Outcome: "accept", By: "faults", Reason: "the storm is over"})
	if err != nil {
		return err
	}
	return r.completes(ctx, r.id, r.turns)
}

func isToPark(ctx context.Context, r *stormRun) error {
	return r.signal(ctx, r.id, protocol.SignalPark, protocol.Park{By: "faults"})
}

func parkedAndBack(ctx context.Context, r *stormRun) error {
	if err := r.becomes(ctx, r.id, protocol.Parked); err != nil {
		return err
	}
	return r.says(ctx, r.runs("again"))
}

func isParked(ctx context.Context, r *stormRun) error {
	if err := hasTurn(ctx, r); err != nil {
		return err
	}
	if err := isToPark(ctx, r); err != nil {
		return err
	}
	return r.becomes(ctx, r.id, protocol.Parked)
}

func isToResume(ctx context.Context, r *stormRun) error {
	r.turns++
	return r.say1(ctx, r.id, r.turns, r.runs("again"))
}

func isToMove(ctx context.Context, r *stormRun) error {
	return r.signal(ctx, r.id, protocol.SignalResume, protocol.Resume{Host: r.b.name, By: "faults"})
}

func movedThere(ctx context.Context, r *stormRun) error {
	// If the other host was unavailable, the session may be on a third one.
	_, err := r.await(ctx, r.id, "to be on another host", func(d protocol.SessionDetail) bool {
		return d.View.Host != r.a.name && d.View.State == protocol.Idle
	})
	if err != nil {
		return err
	}
	return r.says(ctx, r.runs("there"))
}

// insists repeats ctl until it succeeds, because ctl may be struck, too.
func (r *stormRun) insists(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, calmWithin)
	defer cancel()
	for {
		got := r.Ctl(ctx, nil, args...)
		if got.Code == 0 || got.Code == 6 { // 6: it exists from an earlier try
			return got.Stdout, nil
		}
		if ctx.Err() != nil {
			return "", got
		}
		scenario.Sleep(ctx, time.Second)
	}
}

func forks(ctx context.Context, r *stormRun) error {
	other := r.id + "-fork"
	_, err := r.insists(ctx, "session", "fork", r.id, "--id", other, "--host", r.b.name)
	if err == nil {
		r.began(other)
	}
	return err
}

func restores(ctx context.Context, r *stormRun) error {
	d, err := r.detail(ctx, r.id)
	if err != nil {
		return err
	}
	if d.View.Snapshot == nil || d.View.Snapshot.ID == "" {
		return errors.New("it parked without a snapshot")
	}
	other := r.id + "-copy"
	if _, err = r.insists(ctx, "snapshot", "restore", d.View.Snapshot.ID, "--id", other, "--host", r.b.name); err == nil {
		r.began(other)
	}
	return err
}

// otherGoesOn runs a turn in the session that was begun, and then one in the
// first.
func otherGoesOn(ctx context.Context, r *stormRun) error {
	if err := r.say1(ctx, r.other, 1, r.runs("there")); err != nil {
		return err
	}
	if _, err := r.await(ctx, r.other, "to go on", func(d protocol.SessionDetail) bool {
		return slices.ContainsFunc(d.Turns, func(t protocol.TurnView) bool { return t.MessageID == r.other+"-m1" && t.Status == "completed" })
	}); err != nil {
		return err
	}
	return r.says(ctx, r.runs("again"))
}

func isToClose(ctx context.Context, r *stormRun) error {
	return r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults"})
}

func startsBatch(ctx context.Context, r *stormRun) error {
	if err := os.MkdirAll(filepath.Dir(r.effects()), 0o777); err != nil {
		return err
	}
	r.host = r.a
	var b strings.Builder
	fmt.Fprintf(&b, "prompt: run {{.do}}\ndefaults: {seed: team, host: %s, sandbox: danger-full-access, approval-policy: never}\nitems:\n", r.a.name)
	for n := range 3 {
		fmt.Fprintf(&b, "- {id: i%d, vars: {do: %q}}\n", n, r.leaves(fmt.Sprint("item", n)))
	}
	file := r.effects() + ".yaml"
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return err
	}
	if _, err := r.insists(ctx, "batch", "run", file, "--id", r.id, "--detach"); err != nil {
		return err
	}
	r.began(batches.ItemSession(r.id, "i0", 1))
	return nil
}

func batchEnds(ctx context.Context, r *stormRun) error {
	var v protocol.BatchView
	err := waitFor(ctx, "the batch to end", func(ctx context.Context) error {
		if err := r.JSON(ctx, &v, "batch", "show", r.id); err != nil {
			return err
		}
		if v.EndedAt == nil {
			text, _ := json.Marshal(v)
			return fmt.Errorf("it is %s", text)
		}
		return nil
	})
	if err != nil {
		return ill{notCompleted, err}
	}
	if len(v.Failures) > 0 {
		return ill{notCompleted, fmt.Errorf("its items failed: %+v", v.Failures)}
	}
	return nil
}

func hasSchedule(ctx context.Context, r *stormRun) error {
	if err := os.MkdirAll(filepath.Dir(r.effects()), 0o777); err != nil {
		return err
	}
	r.host = r.a
	_, err := r.insists(ctx, "schedule", "create", r.id, "--every", "24h", "--", "--host", r.a.name, "--seed", "team",
		"--sandbox", "danger-full-access", "--approval-policy", "never", r.runs("fired"))
	return err
}

// firesSchedule triggers a schedule as a person would: if ctl cannot say
// whether it fired, it looks before it triggers again.
func firesSchedule(ctx context.Context, r *stormRun) error {
	ctx, cancel := context.WithTimeout(ctx, calmWithin)
	defer cancel()
	for {
		var fired struct {
			ID string `json:"id"`
		}
		err := r.JSON(ctx, &fired, "schedule", "trigger", r.id)
		if err != nil {
			r.logf("trigger: %v", err)
			if fired.ID = r.lookForFiring(ctx); fired.ID == "" && ctx.Err() != nil {
				return err
			}
		}
		if fired.ID != "" {
			r.began(fired.ID)
			return nil
		}
	}
}

// lookForFiring returns the id of the session that the schedule began; empty if
// none.
func (r *stormRun) lookForFiring(ctx context.Context) string {
	for ctx.Err() == nil {
		scenario.Sleep(ctx, 5*time.Second) // visibility may lag behind the trigger
		var shown struct {
			Recent []struct {
				ID string `json:"id"`
			} `json:"recent"`
		}
		if err := r.JSON(ctx, &shown, "schedule", "show", r.id); err != nil {
			continue
		}
		if len(shown.Recent) > 0 {
			return shown.Recent[0].ID
		}
		break
	}
	return ""
}

func firedEnds(ctx context.Context, r *stormRun) error {
	if err := r.completes(ctx, r.other, 1); err != nil {
		return err
	}
	if err := r.becomes(ctx, r.other, protocol.Closed); err != nil {
		return err
	}
	_, err := r.insists(ctx, "schedule", "delete", r.id)
	return err
}
