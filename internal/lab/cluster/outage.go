package main

import (
	"context"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// The kinds of sessions that the outage finds.
const (
	runs = "runs" // a turn, with a message behind it
	asks = "asks" // for an approval
)

// outageUnderWork stops the database while sessions work. Nothing may be lost or repeated.
func (t *trial) outageUnderWork(ctx context.Context) error {
	if t.sessions == 0 {
		return nil
	}
	if err := each(runs, t.sessions, func(id string) error {
		if err := t.start(ctx, id); err != nil {
			return err
		}
		if err := t.gate(ctx, id, id); err != nil {
			return err
		}
		return t.send(ctx, id, "hello from the queue of "+id)
	}); err != nil {
		return err
	}
	if err := each(asks, t.sessions, func(id string) error {
		if err := t.start(ctx, id); err != nil {
			return err
		}
		if err := t.send(ctx, id, "you need a command, "+id); err != nil {
			return err
		}
		return t.asks(ctx, id)
	}); err != nil {
		return err
	}
	// Half of the turns end while the database is away, the others after it is back.
	half := t.sessions / 2
	if err := t.cluster.StopDatabase(); err != nil {
		return err
	}
	began := time.Now()
	scenario.Sleep(ctx, t.outage/2)
	if err := each(runs, half, func(id string) error { t.lab.Model.Release(id); return nil }); err != nil {
		return err
	}
	scenario.Sleep(ctx, t.outage-time.Since(began))
	if err := t.cluster.StartDatabase(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	back := time.Now()
	t.say("cluster: the database was stopped for %s", back.Sub(began).Round(time.Second))
	if err := each(runs, t.sessions, func(id string) error {
		t.lab.Model.Release(id)
		return t.ended(ctx, id, "completed")
	}); err != nil {
		return err
	}
	if err := each(asks, t.sessions, func(id string) error {
		if err := t.ctl(ctx, "approval", "accept", id+".1"); err != nil {
			return err
		}
		if err := t.ended(ctx, id, "completed"); err != nil {
			return err
		}
		return t.ran(id, 1)
	}); err != nil {
		return err
	}
	t.say("cluster: all turns had ended %s after the database was back", time.Since(back).Round(time.Second))
	for _, kind := range []string{runs, asks} {
		if err := each(kind, t.sessions, func(id string) error {
			if err := t.lab.Heard(ctx, id, t.said[id]); err != nil {
				return err
			}
			return t.ctl(ctx, "session", "close", id)
		}); err != nil {
			return err
		}
	}
	t.say("cluster: %d sessions went on: 0 messages lost, 0 repeated; each approved command ran once", 2*t.sessions)
	return nil
}
