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
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// The steps: a snapshot is taken after a turn, its content is uploaded, its
// manifest is due; the session parks, resumes on the same host, and is restored
// on another.
var snapSteps = []string{"capture", "upload", "manifest", "park", "resume", "restore"}

var snapRows = func() []row {
	var out []row
	short := map[string]bool{"worker killed, upload": true, "TCP reset, restore": true}
	for _, f := range []struct {
		name string
		by   trouble
	}{{"worker killed", workerDies}, {"host rebooted", struckBy(faultOf("host rebooted"))}, {"TCP reset", connectionsDie}} {
		for _, step := range snapSteps {
			out = append(out, row{f.name, step, short[f.name+", "+step], ofSnapshots(keptThrough(step, f.by))})
		}
	}
	for _, step := range []string{"capture", "park", "restore"} {
		slow := row{"the store is slow to write", step, false, ofSnapshots(keptThrough(step, storeIsSlow("")))}
		if step == "restore" {
			slow = row{"the store is slow to read", step, false, ofSnapshots(keptThrough(step, storeIsSlow("snapshots/packs")))}
		}
		out = append(out, slow,
			row{"the store is away for 10 s", step, false, ofSnapshots(keptThrough(step, storeIsAway))},
			row{"the store is read-only for 10 s", step, false, ofSnapshots(keptThrough(step, storeIsReadOnly))})
	}
	return append(out,
		row{"the store is read-only for long", "capture", false, ofSnapshots(notKept)},
		row{"the store returns torn objects", "restore", false, ofSnapshots(restoredFromTornPacks)},
		row{"disk full", "restore", false, ofSnapshots(restoredOntoAFullDisk)},
		row{"host lost", "capture", true, ofSnapshots(lostWhileCaptured)},
		row{"host lost", "restore", false, ofSnapshots(lostWhileRestored)},
		row{"two resumes race", "resume", true, ofSnapshots(resumesRace)},
	)
}()

// keptThrough brings a session with work to a step, lets trouble strike there,
// and lets it continue: on its host, on the other one, and on the first again.
func keptThrough(name string, by trouble) func(context.Context, *snapRun) error {
	return func(ctx context.Context, s *snapRun) error {
		if err := s.begun(ctx); err != nil {
			return err
		}
		to := map[string]func(context.Context, trouble) (bool, error){
			"park": s.whileParked, "resume": s.whileResumed, "restore": s.whileRestored,
		}[name]
		if to == nil {
			to = func(ctx context.Context, by trouble) (bool, error) { return s.whileTaken(ctx, name, by) }
		}
		if err := s.untilStruck(ctx, func(ctx context.Context) (bool, error) { return to(ctx, by) }); err != nil {
			return err
		}
		if err := s.movesTo(ctx, s.other()); err != nil {
			return err
		}
		return s.movesTo(ctx, s.other())
	}
}

// lingering delays each write of a step that would otherwise be over at once.
const lingering = 250 * time.Millisecond

// whileTaken strikes after a turn has ended, while its snapshot is taken.
func (s *snapRun) whileTaken(ctx context.Context, name string, by trouble) (hit bool, err error) {
	if err := s.works(); err != nil {
		return false, err
	}
	seen := s.blobs()
	strike, err := by(ctx, s)
	if err != nil {
		return false, err
	}
	if name != "capture" {
		slow, err := slowDown(s.storeDir(), writing, lingering)
		if err != nil {
			return false, err
		}
		defer func() { _, _ = slow.end() }() // if nothing was written, others report it
	}
	if err := s.says(ctx, s.numbered("hello, I have worked")); err != nil {
		return false, err
	}
	at := step{strike: strike, within: func() bool { return !s.manifestSince(seen) }, last: lingering}
	switch name {
	case "capture":
		at.last = 500 * time.Millisecond
		err = s.promptly(ctx, "a capture", func() bool { return s.beingTaken() || s.manifestSince(seen) })
	case "upload": // part of it is being written
		err = s.promptly(ctx, "a pack", func() bool { return s.isNew("packs/", seen) || s.manifestSince(seen) })
		at.within = func() bool { return !s.isNew("index/", seen) && !s.manifestSince(seen) }
	case "manifest": // only its manifest is missing
		err = s.promptly(ctx, "an index", func() bool { return s.isNew("index/", seen) || s.manifestSince(seen) })
	}
	if err != nil {
		return false, err
	}
	return s.struck(ctx, at)
}

func (s *snapRun) whileParked(ctx context.Context, by trouble) (hit bool, err error) {
	if err := s.works(); err != nil {
		return false, err
	}
	strike, err := by(ctx, s)
	if err != nil {
		return false, err
	}
	s.unparked = s.blobs()
	defer func() { s.unparked = nil }()
	if err := s.signal(ctx, s.run.id, protocol.SignalPark, protocol.Park{By: "faults"}); err != nil {
		return false, err
	}
	return s.struck(ctx, step{strike: strike, last: time.Second, within: func() bool { return s.state() != string(protocol.Parked) }})
}

func (s *snapRun) whileResumed(ctx context.Context, by trouble) (hit bool, err error) {
	if err := s.parks(ctx); err != nil {
		return false, err
	}
	strike, err := by(ctx, s)
	if err != nil {
		return false, err
	}
	if err := s.run.send(ctx, s.numbered("hello, are you awake?")); err != nil {
		return false, err
	}
	n := len(s.run.said)
	return s.struck(ctx, step{strike: strike, last: 1500 * time.Millisecond, within: func() bool { return !s.ended(n) }})
}

func (s *snapRun) whileRestored(ctx context.Context, by trouble) (hit bool, err error) {
	if err := s.parks(ctx); err != nil {
		return false, err
	}
	to := s.other()
	s.run.host = to
	strike, err := by(ctx, s)
	if err != nil {
		return false, err
	}
	if err := s.signal(ctx, s.run.id, protocol.SignalResume, protocol.Resume{Host: to.name, By: "faults"}); err != nil {
		return false, err
	}
	if err := s.promptly(ctx, "the folder of "+s.run.id+" on "+to.name, func() bool { return exists(s.run.dir()) }); err != nil {
		return false, err
	}
	within := func() bool { return !exists(filepath.Join(s.run.work(), "version")) }
	return s.struck(ctx, step{strike: strike, last: 600 * time.Millisecond, within: within})
}

// notKept checks that a failed snapshot is reported, that the last good
// snapshot remains the one to continue from, and that the next snapshot
// contains everything.
func notKept(ctx context.Context, s *snapRun) error {
	if err := s.begun(ctx); err != nil {
		return err
	}
	return s.untilStruck(ctx, func(ctx context.Context) (bool, error) {
		if err := s.works(); err != nil {
			return false, err
		}
		seen := s.blobs()
		before, err := s.detail(ctx, s.run.id)
		if err != nil {
			return false, err
		}
		if err := s.says(ctx, s.numbered("hello, I have worked")); err != nil {
			return false, err
		}
		if err := s.promptly(ctx, "a capture", func() bool { return s.beingTaken() || s.manifestSince(seen) }); err != nil {
			return false, err
		}
		restore, err := hosttest.ReadOnly(ctx, s.storeDir())
		if err != nil {
			return false, err
		}
		if s.manifestSince(seen) {
			return false, restore()
		}
		return true, errors.Join(s.saysThatItIsNotKept(ctx, *before.View.Snapshot), restore())
	})
}

func (s *snapRun) saysThatItIsNotKept(ctx context.Context, good protocol.SnapshotView) error {
	d, err := s.until(ctx, s.run.id, "to say that it could not be kept", func(d protocol.SessionDetail) bool {
		return d.View.Snapshot != nil && d.View.Snapshot.Error != nil
	})
	if err != nil {
		return err
	}
	if v := d.View.Snapshot; v.ID != good.ID || v.Turn != good.Turn || v.Tried <= good.N {
		s.res.Find(hidden, "after one that failed (%s) the newest good one is %s of turn %d, tried %d; it was %s of turn %d",
			v.Error.Message, v.ID, v.Turn, v.Tried, good.ID, good.Turn)
	}
	s.sameWork("a snapshot that failed")
	return nil
}

// room is how much an almost full disk has left, at most: less than the work.
const room = 8 << 20

// restoredOntoAFullDisk checks that a failed restore leaves nothing partial,
// that the session reports why, and that it continues on a host with room.
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
	s.mu.Lock()
	s.hosts = append(s.hosts, small)
	s.mu.Unlock()
	left := s.rng.IntN(room)
	free, err := fill(filepath.Join(small.root, "sessions"), left)
	if err != nil {
		return err
	}
	s.run.logf("%d bytes are free there", left)
	if err := s.signal(ctx, s.run.id, protocol.SignalResume, protocol.Resume{Host: small.name, By: "faults"}); err != nil {
		return errors.Join(err, free())
	}
	_, err = s.until(ctx, s.run.id, "to say that the disk is full", func(d protocol.SessionDetail) bool {
		return d.View.Error != nil && strings.Contains(d.View.Error.Message, "space")
	})
	s.nothingHalf(small)
	if err := errors.Join(err, free()); err != nil {
		return err
	}
	if err := s.movesTo(ctx, small); err != nil {
		return err
	}
	return s.movesTo(ctx, s.hosts[0])
}

func (s *snapRun) nothingHalf(h *host) {
	for _, half := range []string{"work", "codex-home/sessions"} {
		if dir := filepath.Join(h.root, "sessions", s.run.id, half); exists(dir) {
			s.res.Find(halfWhole, "%s stands where a restore failed", dir)
		}
	}
}

// restoredFromTornPacks checks that a session does not continue from damaged
// blobs as long as they are damaged, and that the check finds the damage.
func restoredFromTornPacks(ctx context.Context, s *snapRun) error {
	seen := s.blobs()
	if err := s.begun(ctx); err != nil {
		return err
	}
	if err := s.parks(ctx); err != nil {
		return err
	}
	mend, err := s.tear("packs/", seen)
	if err != nil {
		return err
	}
	if r := s.Ctl(ctx, nil, "snapshot", "check", "--read-data"); r.Code == 0 {
		s.res.Find(halfWhole, "the check does not see that objects are torn")
	}
	to := s.other()
	if err := s.signal(ctx, s.run.id, protocol.SignalResume, protocol.Resume{Host: to.name, By: "faults"}); err != nil {
		return errors.Join(err, mend())
	}
	d, err := s.until(ctx, s.run.id, "to say that it cannot go on from that", func(d protocol.SessionDetail) bool { return d.View.Error != nil })
	if err := errors.Join(err, mend()); err != nil {
		return err
	}
	s.run.logf("torn: %s is %s, %+v", s.run.id, d.View.State, d.View.Error)
	s.nothingHalf(to)
	if err := s.movesTo(ctx, to); err != nil {
		return err
	}
	return s.movesTo(ctx, s.other())
}

// tear truncates each blob that is not in seen.
func (s *snapRun) tear(prefix string, seen map[string]bool) (mend func() error, err error) {
	whole := map[string][]byte{}
	for name := range s.blobs() {
		if !strings.HasPrefix(name, prefix) || seen[name] {
			continue
		}
		path := filepath.Join(s.storeDir(), "snapshots", name)
		data, rerr := os.ReadFile(path)
		whole[path] = data
		err = errors.Join(err, rerr, os.WriteFile(path, data[:len(data)-len(data)/3], 0o600))
	}
	if err == nil && len(whole) == 0 {
		err = fmt.Errorf("there is no new blob of %s to tear", prefix)
	}
	return func() (err error) {
		for path, data := range whole {
			err = errors.Join(err, os.WriteFile(path, data, 0o600))
		}
		return err
	}, err
}

// lose takes a host down with all its processes; back starts it again, as it
// was.
func (s *snapRun) lose(ctx context.Context, h *host) (back func() error, err error) {
	err = h.sshd.Stop()
	folder := filepath.Join(h.root, "sessions", s.run.id)
	for ctx.Err() == nil {
		// Processes of the session on another host do not belong to this one.
		left := slices.DeleteFunc(processesOf(s.run.id, folder), func(p process) bool { return !s.runsOn(p, h) })
		if len(left) == 0 {
			break
		}
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have exited
		}
		scenario.Sleep(ctx, 20*time.Millisecond)
	}
	s.run.logf("%s is lost", h.name)
	return func() error { return errors.Join(lab.NewBoot(h.boot), h.sshd.Start(ctx)) }, errors.Join(err, ctx.Err())
}

func (s *snapRun) runsOn(p process, h *host) bool {
	proc := fmt.Sprintf("/proc/%d", p.pid)
	env, _ := os.ReadFile(proc + "/environ") // a process that has just exited has none
	cwd, _ := os.Readlink(proc + "/cwd")
	return within(cwd, h.root) || strings.Contains(p.command, h.root+"/") || strings.Contains(string(env), h.root+"/")
}

func (s *snapRun) mayBeLost() {
	s.options.OnHostLost, s.options.LostAfter = protocol.HostLostMove, 5*time.Second
	s.options.Host, s.options.Labels = "", map[string]string{"pair": "p"}
}

// lostWhileCaptured checks that the session continues elsewhere from its newest
// complete snapshot, and that nothing of it stays on the first host.
func lostWhileCaptured(ctx context.Context, s *snapRun) error {
	s.mayBeLost()
	if err := s.begun(ctx); err != nil {
		return err
	}
	return s.untilStruck(ctx, func(ctx context.Context) (bool, error) {
		if err := s.works(); err != nil {
			return false, err
		}
		seen := s.blobs()
		if err := s.says(ctx, s.numbered("hello, I have worked")); err != nil {
			return false, err
		}
		if err := s.promptly(ctx, "a capture", func() bool { return s.beingTaken() || s.manifestSince(seen) }); err != nil {
			return false, err
		}
		s.run.pause(ctx, 400*time.Millisecond)
		hit := !s.manifestSince(seen)
		return hit, s.lostAndBack(ctx, seen)
	})
}

func lostWhileRestored(ctx context.Context, s *snapRun) error {
	s.mayBeLost()
	return keptThrough("restore", func(ctx context.Context, s *snapRun) (func() error, error) {
		to := s.run.host
		return func() error {
			back, err := s.lose(ctx, to)
			if err != nil {
				return err
			}
			scenario.Sleep(ctx, 10*time.Second)
			return back()
		}, nil
	})(ctx, s)
}

func (s *snapRun) lostAndBack(ctx context.Context, seen map[string]bool) error {
	was := s.run.host
	back, err := s.lose(ctx, was)
	if err != nil {
		return err
	}
	// What was in a complete snapshot when the host was lost must be there;
	// later work that did not reach the store is lost with the host.
	s.atLeast, s.mayLack = s.version-1, len(s.run.said)
	if s.manifestSince(seen) {
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

// resumesRace asks a parked session to resume on two hosts at once and sends it
// a message: it must come up on one of them.
func resumesRace(ctx context.Context, s *snapRun) error {
	if err := s.begun(ctx); err != nil {
		return err
	}
	for range 2 {
		if err := s.parks(ctx); err != nil {
			return err
		}
		ask := func(name string, arg any) error { return s.signal(ctx, s.run.id, name, arg) }
		var all errgroup.Group
		all.Go(func() error { return ask(protocol.SignalResume, protocol.Resume{Host: s.hosts[0].name, By: "ann"}) })
		all.Go(func() error { return ask(protocol.SignalResume, protocol.Resume{Host: s.hosts[1].name, By: "bob"}) })
		all.Go(func() error { return s.run.send(ctx, s.numbered("hello, and now?")) })
		if err := all.Wait(); err != nil {
			return err
		}
		if err := s.goesOn(ctx); err != nil {
			return err
		}
	}
	return nil
}
