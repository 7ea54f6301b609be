package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/workflows"
)

// A snapRow is a fault that strikes while a session's work is brought to the
// store or back from it.
type snapRow struct {
	fault, step string
	short       bool // also in the short form
	go_         func(context.Context, *snapRun) error
}

// The steps: a snapshot is taken behind a turn's back, its content is uploaded,
// its manifest is due; the session parks, comes back where it was, and is
// brought to another host.
var snapSteps = []string{"capture", "upload", "manifest", "park", "resume", "restore"}

var snapRows = func() []snapRow {
	var out []snapRow
	short := map[string]bool{"worker killed, upload": true, "TCP reset, restore": true}
	for _, f := range []*fault{faultOf("worker killed"), faultOf("host rebooted"), faultOf("TCP reset")} {
		for _, step := range snapSteps {
			out = append(out, snapRow{f.name, step, short[f.name+", "+step], keptThrough(step, struckBy(f))})
		}
	}
	for _, step := range []string{"capture", "park", "restore"} {
		out = append(out,
			snapRow{"the store is away for 10 s", step, false, keptThrough(step, (*snapRun).storeAway)},
			snapRow{"the store is slow to write", step, false, keptThrough(step, (*snapRun).storeSlow)},
			snapRow{"the store is read-only for 10 s", step, false, keptThrough(step, (*snapRun).storeReadOnly)})
	}
	return append(out,
		snapRow{"disk full", "restore", false, restoredOntoAFullDisk},
		snapRow{"host lost", "capture", true, lostWhileCaptured},
		snapRow{"host lost", "restore", false, lostWhileRestored},
		snapRow{"two resumes race", "resume", true, resumesRace},
	)
}()

// trouble is what strikes; it returns when it is over.
type trouble func(s *snapRun, ctx context.Context) error

func struckBy(f *fault) trouble {
	return func(s *snapRun, ctx context.Context) error {
		w := &struckWave{stage: s.stage, host: s.run.host, runs: []*run{s.run}, rng: s.rng, struck: func() {}}
		err := f.strike(ctx, w)
		if f.name == "TCP reset" && err != nil && strings.Contains(err.Error(), "no connection") {
			err = nil // what it was to disturb is over already
		}
		return err
	}
}

// keptThrough brings a session with work to a step, lets trouble strike there,
// and has it go on: on its host, on the other one, and on the first again.
func keptThrough(step string, strike trouble) func(context.Context, *snapRun) error {
	return func(ctx context.Context, s *snapRun) error {
		if err := s.begun(ctx); err != nil {
			return err
		}
		var err error
		switch step {
		case "capture", "upload", "manifest":
			err = s.whileTaken(ctx, step, strike)
		case "park":
			err = s.whileParked(ctx, strike)
		case "resume":
			err = s.whileResumed(ctx, strike)
		case "restore":
			err = s.whileRestored(ctx, strike)
		}
		if err != nil {
			return err
		}
		if err := s.movesTo(ctx, s.other()); err != nil {
			return err
		}
		return s.movesTo(ctx, s.other())
	}
}

// whileTaken strikes behind the back of a turn that has ended.
func (s *snapRun) whileTaken(ctx context.Context, step string, strike trouble) error {
	if err := s.works(); err != nil {
		return err
	}
	seen := s.storeFiles()
	if err := s.says(ctx, "hello, I have worked"); err != nil {
		return err
	}
	what, there := s.sign(step, seen)
	if err := s.promptly(ctx, what, there); err != nil {
		return err
	}
	if step == "capture" {
		s.run.pause(ctx, 500*time.Millisecond)
	}
	if err := s.strikes(ctx, strike); err != nil {
		return err
	}
	return s.goesOn(ctx)
}

// sign is what shows that a snapshot has come to a step. One that was quicker
// than we has come past it.
func (s *snapRun) sign(step string, seen map[string]bool) (string, func() bool) {
	turn := len(s.run.said)
	switch step {
	case "upload": // something of it is being written
		return "a pack", func() bool { return s.isNew("packs", seen) || s.kept(turn) }
	case "manifest": // all but its manifest is there
		return "an index", func() bool { return s.isNew("index", seen) || s.kept(turn) }
	}
	return "a capture", func() bool {
		d, err := s.detail(context.Background(), s.run.id)
		v := d.View.Snapshot
		return err == nil && v != nil && (v.Taking > 0 || v.Turn >= turn)
	}
}

func (s *snapRun) whileParked(ctx context.Context, strike trouble) error {
	if err := s.works(); err != nil {
		return err
	}
	if err := s.signal(ctx, s.run.id, workflows.SignalPark, workflows.Park{By: "faults"}); err != nil {
		return err
	}
	s.run.pause(ctx, time.Second)
	if err := s.strikes(ctx, strike); err != nil {
		return err
	}
	return s.goesOn(ctx)
}

func (s *snapRun) whileResumed(ctx context.Context, strike trouble) error {
	if err := s.parks(ctx); err != nil {
		return err
	}
	if err := s.run.send(ctx, "hello, are you awake?"); err != nil {
		return err
	}
	s.run.pause(ctx, 1500*time.Millisecond)
	if err := s.strikes(ctx, strike); err != nil {
		return err
	}
	return s.goesOn(ctx)
}

// whileRestored strikes the host that the session is being brought to.
func (s *snapRun) whileRestored(ctx context.Context, strike trouble) error {
	if err := s.parks(ctx); err != nil {
		return err
	}
	to := s.other()
	if err := s.signal(ctx, s.run.id, workflows.SignalResume, workflows.Resume{Host: to.name, By: "faults"}); err != nil {
		return err
	}
	s.run.host = to
	err := again(ctx, "the folder of "+s.run.id+" on "+to.name, func(context.Context) error { _, err := os.Stat(s.run.dir()); return err })
	if err != nil {
		return err
	}
	s.run.pause(ctx, 800*time.Millisecond)
	if err := s.strikes(ctx, strike); err != nil {
		return err
	}
	return s.goesOn(ctx)
}

func (s *snapRun) storeAway(ctx context.Context) error {
	dir := filepath.Join(s.State, "store")
	if err := errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)); err != nil {
		return err
	}
	sleep(ctx, 10*time.Second)
	return errors.Join(os.Remove(dir), os.Rename(dir+".away", dir))
}

func (s *snapRun) storeReadOnly(ctx context.Context) error {
	restore, err := hosttest.ReadOnly(ctx, filepath.Join(s.State, "store"))
	if err != nil {
		return err
	}
	sleep(ctx, 10*time.Second)
	return restore()
}

// storeSlow has each write take a second or two for a while.
func (s *snapRun) storeSlow(ctx context.Context) error {
	slow, err := slowDown(filepath.Join(s.State, "store"), time.Second+time.Duration(s.rng.Int64N(int64(time.Second))))
	if err != nil {
		return err
	}
	sleep(ctx, 10*time.Second)
	n, err := slow.end()
	s.run.logf("%d writes were slow", n)
	if n == 0 {
		return nil // what it was to disturb is over already
	}
	return err
}

// restoredOntoAFullDisk: nothing half stands where a session was to go, it says
// why, and goes on where there is room.
func restoredOntoAFullDisk(ctx context.Context, s *snapRun) error {
	if err := s.begun(ctx); err != nil {
		return err
	}
	if err := s.parks(ctx); err != nil {
		return err
	}
	small, err := s.stage.host(ctx, "p2-small")
	if err != nil {
		return err
	}
	s.hosts = append(s.hosts, small)
	free, err := fill(filepath.Join(small.root, "sessions"))
	if err != nil {
		return err
	}
	if err := s.signal(ctx, s.run.id, workflows.SignalResume, workflows.Resume{Host: small.name, By: "faults"}); err != nil {
		return errors.Join(err, free())
	}
	_, err = s.until(ctx, s.run.id, "to say that the disk is full", func(d workflows.SessionDetail) bool {
		return d.View.Error != nil && strings.Contains(d.View.Error.Message, "space")
	})
	if exists(filepath.Join(small.root, "sessions", s.run.id, "work", "version")) {
		s.res.half = append(s.res.half, "a work folder stands on a disk that was full")
	}
	if err := errors.Join(err, free()); err != nil {
		return err
	}
	if err := s.movesTo(ctx, small); err != nil {
		return err
	}
	return s.movesTo(ctx, s.hosts[0])
}

// lose has a host be gone with all that ran on it: back starts it again, as it was.
func (s *snapRun) lose(ctx context.Context, h *host) (back func() error, err error) {
	err = h.sshd.Stop()
	folder := filepath.Join(h.root, "sessions", s.run.id)
	for ctx.Err() == nil {
		// What runs for the session on another host is not of this one.
		left := slices.DeleteFunc(processesOf(s.run.id, folder), func(p process) bool { return !s.runsOn(p, h) })
		if len(left) == 0 {
			break
		}
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may be gone
		}
		sleep(ctx, 20*time.Millisecond)
	}
	s.run.logf("%s is lost", h.name)
	return func() error { return errors.Join(h.newBoot(), h.sshd.Start(ctx)) }, errors.Join(err, ctx.Err())
}

// runsOn says whether a process is one of a host's.
func (s *snapRun) runsOn(p process, h *host) bool {
	proc := fmt.Sprintf("/proc/%d", p.pid)
	env, _ := os.ReadFile(proc + "/environ") // what has just ended has none
	cwd, _ := os.Readlink(proc + "/cwd")
	return within(cwd, h.root) || strings.Contains(p.command, h.root+"/") || strings.Contains(string(env), h.root+"/")
}

// lostWhileCaptured: the session goes on elsewhere from its newest whole
// snapshot, and back on the first host nothing of it stays.
func lostWhileCaptured(ctx context.Context, s *snapRun) error {
	s.options.OnHostLost, s.options.LostAfter = workflows.HostLostMove, 5*time.Second
	s.options.Host, s.options.Labels = "", map[string]string{"pair": "p"}
	if err := s.begun(ctx); err != nil {
		return err
	}
	if err := s.works(); err != nil {
		return err
	}
	if err := s.says(ctx, "hello, I have worked"); err != nil {
		return err
	}
	what, there := s.sign("capture", nil)
	if err := s.promptly(ctx, what, there); err != nil {
		return err
	}
	s.run.pause(ctx, 400*time.Millisecond)
	return s.lostAndBack(ctx)
}

// lostWhileRestored: the host that a session is being brought to is lost.
func lostWhileRestored(ctx context.Context, s *snapRun) error {
	s.options.OnHostLost, s.options.LostAfter = workflows.HostLostMove, 5*time.Second
	s.options.Host, s.options.Labels = "", map[string]string{"pair": "p"}
	if err := s.begun(ctx); err != nil {
		return err
	}
	return s.whileRestored(ctx, func(s *snapRun, ctx context.Context) error {
		back, err := s.lose(ctx, s.run.host)
		if err != nil {
			return err
		}
		sleep(ctx, 10*time.Second)
		return back()
	})
}

func (s *snapRun) lostAndBack(ctx context.Context) error {
	was := s.run.host
	back, err := s.lose(ctx, was)
	if err != nil {
		return err
	}
	// What was whole when the host was lost must be there; what was done
	// since, and came to the store no more, is lost with the host.
	s.atLeast, s.mayLack = s.version-1, len(s.run.said)
	if s.kept(len(s.run.said)) {
		s.atLeast, s.mayLack = s.version, 0
	}
	err = s.goesOnAt(ctx, s.other())
	if err := errors.Join(err, back()); err != nil {
		return err
	}
	err = again(ctx, "what was left on "+was.name+" to go", func(context.Context) error {
		if dir := filepath.Join(was.root, "sessions", s.run.id); exists(dir) {
			return fmt.Errorf("%s is still there", dir)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.movesTo(ctx, was)
}

// resumesRace has a parked session be asked back on two hosts at once, and be
// said something: it comes up on one of them.
func resumesRace(ctx context.Context, s *snapRun) error {
	if err := s.begun(ctx); err != nil {
		return err
	}
	for n := range 2 {
		if err := s.parks(ctx); err != nil {
			return err
		}
		ask := func(name string, arg any) error { return s.signal(ctx, s.run.id, name, arg) }
		var all errgroup.Group
		all.Go(func() error { return ask(workflows.SignalResume, workflows.Resume{Host: s.hosts[0].name, By: "ann"}) })
		all.Go(func() error { return ask(workflows.SignalResume, workflows.Resume{Host: s.hosts[1].name, By: "bob"}) })
		all.Go(func() error { return s.run.send(ctx, fmt.Sprintf("hello, and now? (%d)", n)) })
		if err := all.Wait(); err != nil {
			return err
		}
		if err := s.goesOn(ctx); err != nil {
			return err
		}
	}
	return nil
}
