package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

// A strike is a trouble as it was carried out.
type strike struct {
	trouble
	struck, over time.Time
	late         bool  // the batch was over before
	err          error // it could not be done, or undone
}

var kinds = []kind{
	{name: "host cordoned", on: onHost, shortest: 5 * time.Second, longest: 30 * time.Second, do: cordon},
	{name: "host drained", on: onHost, shortest: 5 * time.Second, longest: 20 * time.Second, do: drainHost},
	{name: "host killed", on: onHost, shortest: time.Second, longest: 25 * time.Second, ends: true, do: killHost},
	{name: "link cut", on: onHost, shortest: 3 * time.Second, longest: 40 * time.Second, do: cutLink},
	{name: "sshd killed", on: onHost, shortest: time.Second, longest: 15 * time.Second, do: killSSHD},
	{name: "worker killed", on: onZone, shortest: 0, longest: 15 * time.Second, do: killWorker},
	{name: "worker drained", on: onZone, do: drainWorker},
	{name: "worker added", on: onZone, do: addWorker},
	{name: "pool paused", on: onZone, shortest: 3 * time.Second, longest: 15 * time.Second, do: pausePool},
	{name: "Temporal killed", on: onServer, shortest: 0, longest: 10 * time.Second, do: killTemporal},
}

// perform carries out all troubles, each at its time, and returns when they are
// over.
func (f *fleet) perform(ctx context.Context, plan []trouble) []strike {
	out := make([]strike, len(plan))
	strikes := make([]scenario.Strike, len(plan))
	for i, t := range plan {
		out[i].trouble = t
		strikes[i] = scenario.Strike{
			Target: t.target,
			Due:    func(ctx context.Context) { f.await(ctx, t) },
			Do:     func(ctx context.Context) { f.strike(ctx, &out[i]) },
		}
	}
	scenario.CarryOut(ctx, strikes)
	return out
}

// await returns when a trouble is due.
func (f *fleet) await(ctx context.Context, t trouble) {
	for int(f.ended.Load()) < t.after && !f.over.Load() && ctx.Err() == nil {
		scenario.Sleep(ctx, 100*time.Millisecond)
	}
	scenario.Sleep(ctx, t.lead)
}

func (f *fleet) strike(ctx context.Context, s *strike) {
	if s.err = ctx.Err(); s.err != nil {
		return
	}
	s.late = f.over.Load()
	s.struck = time.Now()
	f.say("%s %s: %s (%d items have ended)", s.struck.UTC().Format("15:04:05"), s.target, s.kind.name, f.ended.Load())
	s.err = s.kind.do(f)(s)
	s.over = time.Now()
	f.say("%s %s: %s is over", s.over.UTC().Format("15:04:05"), s.target, s.kind.name)
}

// tell retries ctl until it succeeds, because Temporal may be unavailable.
func (f *fleet) tell(words ...string) error {
	return scenario.Again(context.Background(), "ctl to be heard", func(ctx context.Context) error {
		_, err := f.Out(ctx, words...)
		return err
	})
}

// Every trouble undoes what it did even if the run is cancelled.

func cordon(f *fleet) func(*strike) error {
	return func(s *strike) error {
		err := f.tell("host", "cordon", s.target, "--zone", zoneOf(s.target))
		scenario.Sleep(context.Background(), s.lasts)
		return errors.Join(err, f.tell("host", "uncordon", s.target, "--zone", zoneOf(s.target)))
	}
}

func drainHost(f *fleet) func(*strike) error {
	return func(s *strike) error {
		err := f.tell("host", "drain", s.target, "--no-wait", "--zone", zoneOf(s.target))
		scenario.Sleep(context.Background(), s.lasts)
		return errors.Join(err, f.tell("host", "uncordon", s.target, "--zone", zoneOf(s.target)))
	}
}

func pausePool(f *fleet) func(*strike) error {
	return func(s *strike) error {
		err := f.tell("pool", "pause", s.target, "--reason", "trouble is to come")
		scenario.Sleep(context.Background(), s.lasts)
		return errors.Join(err, f.tell("pool", "resume", s.target))
	}
}

// killHost kills all processes on a host, as a loss of power does. Files stay.
func killHost(f *fleet) func(*strike) error {
	return func(s *strike) error {
		h := f.hosts[s.target]
		var err error
		if s.silent {
			err = h.zone.link(h.name, false)
		}
		err = errors.Join(err, h.off(context.Background()))
		scenario.Sleep(context.Background(), s.lasts)
		if s.silent {
			err = errors.Join(err, h.zone.link(h.name, true))
		}
		return errors.Join(err, h.on(context.Background()))
	}
}

func cutLink(f *fleet) func(*strike) error {
	return func(s *strike) error {
		h := f.hosts[s.target]
		err := h.zone.link(h.name, false)
		scenario.Sleep(context.Background(), s.lasts)
		return errors.Join(err, h.zone.link(h.name, true))
	}
}

func killSSHD(f *fleet) func(*strike) error {
	return func(s *strike) error {
		var back func() error
		err := scenario.Again(context.Background(), "somebody to be served by "+s.target, func(context.Context) (err error) {
			if f.over.Load() {
				return nil
			}
			back, err = f.hosts[s.target].killSSHDs()
			return err
		})
		if back == nil {
			return err
		}
		scenario.Sleep(context.Background(), s.lasts)
		return errors.Join(err, back())
	}
}

// killWorker kills the zone's oldest worker and starts another one.
func killWorker(f *fleet) func(*strike) error {
	return func(s *strike) error {
		w, err := f.takeWorker(s.target)
		if err != nil {
			return err
		}
		if w.Ended() {
			return fmt.Errorf("worker %s had ended by itself:\n%s", w.Name, w.Log())
		}
		err = w.End(syscall.SIGKILL)
		scenario.Sleep(context.Background(), s.lasts)
		_, another := f.startWorker(s.target)
		return errors.Join(err, another)
	}
}

// drainWorker replaces the zone's oldest worker, as a deployment does.
func drainWorker(f *fleet) func(*strike) error {
	return func(s *strike) error {
		w, err := f.takeWorker(s.target)
		if err != nil {
			return err
		}
		_, err = f.startWorker(s.target)
		f.drain(w)
		return err
	}
}

func addWorker(f *fleet) func(*strike) error {
	return func(s *strike) error {
		_, err := f.startWorker(s.target)
		return err
	}
}

// killTemporal kills the server for a while; the supervisor, which would
// restart it at once, is stopped.
func killTemporal(f *fleet) func(*strike) error {
	return func(s *strike) error {
		pid, err := f.server()
		if err != nil {
			return err
		}
		err = f.Unsupervised(func() error {
			err := syscall.Kill(pid, syscall.SIGKILL)
			scenario.Sleep(context.Background(), s.lasts)
			return err
		})
		return errors.Join(err, scenario.Again(context.Background(), "the server to be back", func(context.Context) error {
			now, err := f.server()
			if err == nil && now == pid {
				err = fmt.Errorf("its pid is still %d", pid)
			}
			return err
		}))
	}
}

func (f *fleet) server() (pid int, err error) {
	err = scenario.Again(context.Background(), "the server's pid", func(ctx context.Context) error {
		var st lab.Status
		if err := f.JSON(ctx, &st, "status"); err != nil {
			return err
		}
		if pid = st.Temporal.PID; pid == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	return pid, err
}
