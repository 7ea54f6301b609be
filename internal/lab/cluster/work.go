package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// useAll uses one session in every way, a batch, and a schedule.
func (t *trial) useAll(ctx context.Context) error {
	const id = "all"
	if err := t.start(ctx, id); err != nil {
		return err
	}
	if err := t.turn(ctx, id, "hello at first"); err != nil {
		return err
	}
	if err := t.send(ctx, id, "you need a command"); err != nil {
		return err
	}
	if err := t.asks(ctx, id); err != nil {
		return err
	}
	if err := t.ctl(ctx, "approval", "accept", id+".1"); err != nil {
		return err
	}
	if err := t.ended(ctx, id, "completed"); err != nil {
		return err
	}
	if err := t.ran(id, 1); err != nil {
		return err
	}
	if err := t.gate(ctx, id, "steered"); err != nil {
		return err
	}
	if err := t.steer(ctx, id, "hello in between"); err != nil {
		return err
	}
	t.lab.Model.Release("steered")
	if err := t.ended(ctx, id, "completed"); err != nil {
		return err
	}
	if err := t.gate(ctx, id, "interrupted"); err != nil {
		return err
	}
	if err := t.ctl(ctx, "session", "interrupt", id); err != nil {
		return err
	}
	if err := t.ended(ctx, id, "interrupted"); err != nil {
		return err
	}
	if err := t.park(ctx, id); err != nil {
		return err
	}
	if err := t.ctl(ctx, "session", "close", id); err != nil {
		return err
	}
	if err := t.batch(ctx); err != nil {
		return err
	}
	if err := t.schedule(ctx); err != nil {
		return err
	}
	t.say("cluster: a session had messages, an approval, a steer, an interrupt, and a snapshot with which it was parked and came back; a batch and a schedule ran")
	return nil
}

// ran fails unless the approved command has run so often.
func (t *trial) ran(id string, times int) error {
	text, err := os.ReadFile(filepath.Join(t.work(id), "ran.txt"))
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), "\n"); n != times {
		return fmt.Errorf("session %s: its command ran %d times, and was approved %d times", id, n, times)
	}
	return nil
}

func (t *trial) steer(ctx context.Context, id, text string) error {
	var v struct {
		State string `json:"state"`
	}
	if err := t.lab.JSON(ctx, &v, "--timeout", "3m", "session", "steer", id, text); err != nil {
		return err
	}
	if v.State != "acknowledged" {
		return fmt.Errorf("codex waits, and a message into its turn is %s", v.State)
	}
	return nil
}

// park parks a session, with a whole snapshot, and brings it back with its work folder.
func (t *trial) park(ctx context.Context, id string) error {
	if err := t.ctl(ctx, "session", "park", id); err != nil {
		return err
	}
	if err := t.see(ctx, id, "it is parked", func(v protocol.SessionView) bool { return v.State == protocol.Parked }); err != nil {
		return err
	}
	kept, err := lab.Lines[struct {
		Complete bool `json:"complete"`
	}](ctx, t.lab, "snapshot", "list", id)
	if err != nil {
		return err
	}
	if len(kept) == 0 || !kept[len(kept)-1].Complete {
		return fmt.Errorf("session %s is parked, and its snapshots are %+v", id, kept)
	}
	if err := t.turn(ctx, id, "hello again"); err != nil {
		return err
	}
	return t.ran(id, 1)
}

func (t *trial) batch(ctx context.Context) error {
	file := filepath.Join(t.lab.Dir, "batch.yaml")
	text := "window: 2\nprompt: hello from {{.item}}\ndefaults: {seed: team, host: web-1}\nitems: [one, two, three]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if err := t.ctl(ctx, "batch", "run", file, "--id", "some", "--detach"); err != nil {
		return err
	}
	return scenario.Again(ctx, "the batch ends", func(ctx context.Context) error {
		var v protocol.BatchView
		if err := t.lab.JSON(ctx, &v, "batch", "show", "some"); err != nil {
			return err
		}
		if v.Done != 3 || v.Failed != 0 {
			return fmt.Errorf("%d of %d items are done, %d failed", v.Done, v.Total, v.Failed)
		}
		return nil
	})
}

func (t *trial) schedule(ctx context.Context) error {
	if err := t.ctl(ctx, "schedule", "create", "daily", "--every", "240h", "--", "--host", "web-1", "--seed", "team", "hello from the schedule"); err != nil {
		return err
	}
	if err := t.ctl(ctx, "schedule", "trigger", "daily"); err != nil {
		return err
	}
	return scenario.Again(ctx, "the session of the schedule ends", func(ctx context.Context) error {
		var v struct {
			Recent []struct{ State string } `json:"recent"`
		}
		if err := t.lab.JSON(ctx, &v, "schedule", "show", "daily"); err != nil {
			return err
		}
		if !slices.ContainsFunc(v.Recent, func(r struct{ State string }) bool { return r.State == "completed" }) {
			return fmt.Errorf("it is %+v", v.Recent)
		}
		return nil
	})
}
