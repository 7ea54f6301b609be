package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

// A fault returns once it is over.
type fault struct {
	name string
	do   func(*soak, context.Context, *rand.Rand) error
}

var faults = []fault{
	{"worker killed", (*soak).killWorker},
	{"worker stopped in good order", (*soak).stopWorker},
	{"worker paused for 20 s", (*soak).pauseWorker},
	{"TCP reset", (*soak).resetHost},
	{"TCP silent for 20 s", (*soak).silenceHost},
	{"sshd's children killed", (*soak).killChildren},
	{"sshd away for 5 s", (*soak).restartSSHD},
	{"Temporal killed", (*soak).killTemporal},
	{"Temporal unreachable for 10 s", (*soak).cutTemporal},
	{"database stopped for 10 s", (*soak).stopDatabase},
	{"codex killed", (*soak).killCodex},
}

// strike strikes until the end, and puts the newer programs in at half of the time. It returns
// what it did, in words. The last fault leaves time for sessions to go on.
func (s *soak) strike(ctx context.Context, began, end time.Time) (string, error) {
	rng := scenario.Random(s.seed, "faults")
	times, upgraded := map[string]int{}, false
	var round []fault
	for ctx.Err() == nil {
		scenario.Sleep(ctx, s.every/2+time.Duration(rng.Int64N(int64(s.every))))
		if time.Until(end) < s.every || ctx.Err() != nil {
			break
		}
		if !upgraded && time.Since(began) > s.lasts/2 {
			upgraded = true
			if err := s.upgrade(ctx); err != nil {
				return "", fmt.Errorf("upgrade: %w", err)
			}
			continue
		}
		if len(round) == 0 {
			round = append(round, faults...)
			rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		f := round[0]
		round = round[1:]
		s.say("%s %s", time.Now().UTC().Format("15:04:05"), f.name)
		if err := f.do(s, ctx, rng); err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
		times[f.name]++
	}
	if ctx.Err() == nil && !upgraded {
		return "", errors.New("the time was too short for an upgrade")
	}
	var words []string
	n := 0
	for _, f := range faults {
		if times[f.name] > 0 {
			words = append(words, fmt.Sprintf("%d × %s", times[f.name], f.name))
			n += times[f.name]
		}
	}
	return fmt.Sprintf("an upgrade in the middle and %d faults: %s", n, strings.Join(words, ", ")), nil
}

// upgrade replaces the workers one by one, as an operator does, and then ctl.
func (s *soak) upgrade(ctx context.Context) error {
	s.say("%s the workers are replaced by newer ones", time.Now().UTC().Format("15:04:05"))
	to := filepath.Join(s.repo, "bin")
	if err := s.place(to, "worker"); err != nil {
		return err
	}
	st, err := s.status(ctx)
	if err != nil {
		return err
	}
	for _, w := range st.Workers {
		if err := syscall.Kill(w.PID, syscall.SIGTERM); err != nil {
			return fmt.Errorf("stop worker %d: %w", w.PID, err)
		}
		if err := s.lab.AwaitSuccessor(ctx, workers, w.PID); err != nil {
			return err
		}
	}
	s.say("%s all workers are newer ones", time.Now().UTC().Format("15:04:05"))
	return s.place(to, "ctl")
}

// status waits until all workers answer: an earlier fault may have ended one.
func (s *soak) status(ctx context.Context) (st lab.Status, err error) {
	err = scenario.Again(ctx, "all workers", func(ctx context.Context) error {
		if err := s.lab.JSON(ctx, &st, "status"); err != nil {
			return err
		}
		if len(st.Workers) != workers || st.Temporal.PID == 0 {
			return fmt.Errorf("%d workers answer, and Temporal has process %d", len(st.Workers), st.Temporal.PID)
		}
		return nil
	})
	return st, err
}

// signalWorker signals one of the workers, but not the first.
func (s *soak) signalWorker(ctx context.Context, rng *rand.Rand, sig syscall.Signal) (pid int, err error) {
	st, err := s.status(ctx)
	if err != nil {
		return 0, err
	}
	pid = st.Workers[1+rng.IntN(workers-1)].PID
	return pid, syscall.Kill(pid, sig)
}

func (s *soak) killWorker(ctx context.Context, rng *rand.Rand) error {
	_, err := s.signalWorker(ctx, rng, syscall.SIGKILL)
	return err
}

func (s *soak) stopWorker(ctx context.Context, rng *rand.Rand) error {
	_, err := s.signalWorker(ctx, rng, syscall.SIGTERM)
	return err
}

func (s *soak) pauseWorker(ctx context.Context, rng *rand.Rand) error {
	pid, err := s.signalWorker(ctx, rng, syscall.SIGSTOP)
	if err != nil {
		return err
	}
	scenario.Sleep(ctx, 20*time.Second)
	return syscall.Kill(pid, syscall.SIGCONT)
}

func (s *soak) resetHost(ctx context.Context, _ *rand.Rand) error {
	_, err := s.sshd.Reset(ctx)
	return err
}

func (s *soak) silenceHost(ctx context.Context, _ *rand.Rand) error {
	restore, err := s.sshd.Drop(ctx)
	if err != nil {
		return err
	}
	scenario.Sleep(ctx, 20*time.Second)
	return restore()
}

func (s *soak) killChildren(context.Context, *rand.Rand) error {
	s.sshd.KillSessions()
	return nil
}

func (s *soak) restartSSHD(ctx context.Context, _ *rand.Rand) error {
	if err := s.sshd.Stop(); err != nil {
		return err
	}
	scenario.Sleep(ctx, 5*time.Second)
	return s.sshd.Start(context.WithoutCancel(ctx))
}

func (s *soak) killTemporal(ctx context.Context, _ *rand.Rand) error {
	st, err := s.status(ctx)
	if err != nil {
		return err
	}
	return syscall.Kill(st.Temporal.PID, syscall.SIGKILL)
}

func (s *soak) cutTemporal(ctx context.Context, _ *rand.Rand) error {
	st, err := s.status(ctx)
	if err != nil {
		return err
	}
	_, text, err := net.SplitHostPort(st.Temporal.Address)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	restore, err := hosttest.DropPort(ctx, port)
	if err != nil {
		return err
	}
	scenario.Sleep(ctx, 10*time.Second)
	return restore()
}

func (s *soak) stopDatabase(ctx context.Context, _ *rand.Rand) error {
	return s.cluster.Outage(ctx, 10*time.Second)
}

// killCodex kills a codex that may die: see worked.frail. There may be none.
func (s *soak) killCodex(_ context.Context, rng *rand.Rand) error {
	for _, i := range rng.Perm(len(s.all)) {
		w := s.all[i]
		if !w.frail {
			continue
		}
		if pids := s.lab.CodexOf(w.id); len(pids) > 0 {
			if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
			return nil
		}
	}
	return nil
}
