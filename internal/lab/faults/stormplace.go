package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// A place is an unusual host on which a session runs.
type place struct {
	name, moment string
	strikes      int
	// host starts the session's host, and live is what the session does there.
	host func(context.Context, *stage) (*host, error)
	live func(context.Context, *stormRun) error
}

// Of the slow line: its rate in bytes per second, the number of cuts, how many
// bytes arrive between two cuts, and the padding added to the stand-in, which
// itself packs to about 1 MiB.
const (
	slowRate    = 60_000
	cuts        = 3
	betweenCuts = 1 << 20
	slowPadding = 3 << 20
)

// overlayLooks is how often an attachment is checked on an overlay. An
// attachment that is not found is ended at the third check.
const overlayLooks = 4

var places = []*place{
	{name: fmt.Sprintf("line of %d KB/s, cut %d times", slowRate/1000, cuts), moment: "provisioned, a turn, moved", strikes: cuts, host: slowHost, live: livesOverSlowLine},
	{name: "host on an overlay", moment: fmt.Sprintf("turn without a word for %d looks", overlayLooks), strikes: overlayLooks, host: overlayHost, live: livesOnOverlay},
	{name: "tree that is too deep", moment: "snapshot, restore, close", strikes: 3, host: plainHost, live: livesWithDeepTree},
}

// tryPlaces runs a session at each selected place, all at once.
func tryPlaces(ctx context.Context, o options, say func(string, ...any)) (results []stormResult, err error) {
	var wanted []*place
	for _, p := range places {
		if o.wantsStorm(p.name, p.moment) {
			wanted = append(wanted, p)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	o.script = stormScript
	o.codex, err = packStandin(ctx, o, slowPadding)
	defer os.RemoveAll(o.codex)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	s, err := newStage(ctx, o, 1, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	w := &stormWave{stage: s, rng: scenario.Random(o.seed, "places")}
	if w.b, err = s.bareHost(ctx, "b", hostWants{slots: 8}); err != nil {
		return nil, err
	}
	hosts := []*host{w.b}
	results = make([]stormResult, len(wanted))
	at := map[*stormRun]*place{}
	for i, p := range wanted {
		results[i] = stormResult{Result: scenario.Result{Subject: p.name, Moment: p.moment}, sessions: 1, planned: p.strikes}
		h, err := p.host(ctx, s)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
		r := &stormRun{stormWave: w, id: fmt.Sprintf("s%08x-%d", w.rng.Uint32(), i), host: h, res: &results[i]}
		w.runs, at[r] = append(w.runs, r), p
	}
	w.each(func(r *stormRun) error {
		began := time.Now()
		if err := at[r].live(ctx, r); err != nil {
			return err
		}
		resMu.Lock()
		defer resMu.Unlock()
		r.res.Took, r.res.Recovered, r.res.within = true, time.Since(began), r.res.struck
		return nil
	})
	w.conclude(ctx, hosts)
	for _, r := range w.runs {
		traces := r.told()
		if !r.res.clean() {
			traces = append(traces, "kept in "+s.keepLogs(ctx))
		}
		sayStorm(o, say, r.res, time.Since(began), traces)
	}
	return results, ctx.Err()
}

func (r *stormRun) strike(format string, args ...any) {
	r.logf(format, args...)
	resMu.Lock()
	defer resMu.Unlock()
	r.res.struck++
}

func (r *stormRun) work(h *host, id string) string {
	return workOn(h, id)
}

func plainHost(ctx context.Context, s *stage) (*host, error) {
	return s.bareHost(ctx, "deep", hostWants{slots: 8})
}

func slowHost(ctx context.Context, s *stage) (*host, error) {
	line, err := hosttest.NewDelayLine(ctx, 20*time.Millisecond)
	if err != nil {
		return nil, err
	}
	s.lines = append(s.lines, line)
	h, err := s.bareHost(ctx, "slow", hostWants{slots: 8, behind: line})
	line.SetRate(slowRate)
	return h, err
}

func overlayHost(ctx context.Context, s *stage) (*host, error) {
	return s.bareHost(ctx, "overlay", hostWants{slots: 8, overlay: true})
}

// livesOverSlowLine brings codex to a host while its connections are cut
// repeatedly, completes a turn, takes a snapshot, and moves to another host.
func livesOverSlowLine(ctx context.Context, r *stormRun) error {
	opt := session.Options{Host: r.host.name, Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotTurn}}
	if err := r.start(ctx, opt, "run head -c 400000 /dev/urandom >blob; "+r.leaves("first")); err != nil {
		return err
	}
	for n := range cuts {
		if err := r.cutUpload(ctx, int64(n+1)*betweenCuts); err != nil {
			return err
		}
	}
	if err := r.completes(ctx, r.id, 1); err != nil {
		return err
	}
	if err := r.keptAsOf(ctx, 1); err != nil {
		return err
	}
	blob, err := os.ReadFile(filepath.Join(r.work(r.host, r.id), "blob"))
	if err != nil {
		return err
	}
	if err := r.signal(ctx, r.id, protocol.SignalResume, protocol.Resume{Host: r.b.name, By: "faults"}); err != nil {
		return err
	}
	if _, err := r.await(ctx, r.id, "to be on the other host", func(d protocol.SessionDetail) bool {
		return d.View.Host == r.b.name && d.View.State == protocol.Idle
	}); err != nil {
		return err
	}
	if there, err := os.ReadFile(filepath.Join(r.work(r.b, r.id), "blob")); err != nil || !bytes.Equal(there, blob) {
		r.find(wrong, "its file is another one on the other host: %d bytes of %d, %v", len(there), len(blob), err)
	}
	return r.says(ctx, r.runs("there"))
}

// cutUpload ends all connections of a host when `when` bytes of codex have
// arrived, and waits for the upload to resume, which must be after those bytes.
func (r *stormRun) cutUpload(ctx context.Context, when int64) error {
	had := map[string]bool{}
	arrived := int64(0)
	parts := func() (next int64, began bool) {
		names, _ := filepath.Glob(filepath.Join(r.host.root, "codex", ".parts-*", "part-*"))
		next = -1
		for _, name := range names {
			words := strings.Split(filepath.Base(name), "-") // part-HOW-OFFSET-RANDOM
			if len(words) != 4 {
				continue
			}
			offset, err := strconv.ParseInt(words[2], 10, 64)
			info, statErr := os.Stat(name)
			if err != nil || statErr != nil {
				continue
			}
			arrived = max(arrived, offset+info.Size())
			if !had[name] {
				next, began = offset, true
			}
		}
		return next, began
	}
	err := waitUntil(ctx, fmt.Sprintf("%d bytes of codex to arrive", when), func() bool {
		parts()
		return arrived >= when
	})
	if err != nil {
		return err
	}
	names, _ := filepath.Glob(filepath.Join(r.host.root, "codex", ".parts-*", "part-*"))
	for _, name := range names {
		had[name] = true
	}
	there := arrived
	n, err := r.host.sshd.Reset(ctx)
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("there was no connection to cut while codex was brought")
	}
	r.strike("cut %d connections when %d bytes had arrived", n, there)
	var next int64
	err = waitUntil(ctx, "the upload to go on", func() (began bool) {
		next, began = parts()
		return began
	})
	if err == nil && next < there {
		r.find(wrong, "%d bytes of codex were there when it was cut, and the upload went on at %d", there, next)
	}
	return err
}

// waitUntil polls ok often; ok must not ask another process.
func waitUntil(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, calmWithin)
	defer cancel()
	for !ok() {
		if ctx.Err() != nil {
			return fmt.Errorf("waited for %s: %w", what, ctx.Err())
		}
		scenario.Sleep(ctx, 50*time.Millisecond)
	}
	return nil
}

// keptAsOf waits until the session's newest good snapshot is of that turn.
func (r *stormRun) keptAsOf(ctx context.Context, turn int) error {
	_, err := r.await(ctx, r.id, fmt.Sprintf("to be kept as of turn %d", turn), func(d protocol.SessionDetail) bool {
		v := d.View.Snapshot
		return v != nil && v.ID != "" && v.Turn == turn && d.View.State == protocol.Idle
	})
	return err
}

// livesOnOverlay runs a turn without output on a host whose root is an overlay:
// one attachment must last through it.
func livesOnOverlay(ctx context.Context, r *stormRun) error {
	if err := r.start(ctx, session.Options{Host: r.host.name}, r.runs("first")); err != nil {
		return err
	}
	if err := r.completes(ctx, r.id, 1); err != nil {
		return err
	}
	if err := runsLong(ctx, r); err != nil {
		return err
	}
	if err := waitUntil(ctx, "the command to run", func() bool {
		data, _ := os.ReadFile(r.effects()) // the file exists since the first turn
		return strings.Contains(string(data), "began")
	}); err != nil {
		return err
	}
	attached := func() (name string, looked time.Time) {
		ticks, _ := filepath.Glob(filepath.Join(r.host.root, "sessions", r.id, "proc", "app-server", "tie.*-t"))
		if len(ticks) != 1 {
			return "", looked
		}
		if info, err := os.Stat(ticks[0]); err == nil {
			looked = info.ModTime()
		}
		return ticks[0], looked
	}
	var first string
	var last time.Time
	if err := waitUntil(ctx, "an attachment", func() bool { first, last = attached(); return first != "" }); err != nil {
		return err
	}
	for range overlayLooks {
		var name string
		if err := waitUntil(ctx, "the attachment to be looked at", func() bool {
			var looked time.Time
			if name, looked = attached(); looked.After(last) {
				last = looked
				return true
			}
			return name != first
		}); err != nil {
			return err
		}
		if name != first {
			return ill{wrong, fmt.Errorf("the attachment %s ended after %d looks, and now there is %q", filepath.Base(first), r.res.struck, filepath.Base(name))}
		}
		r.strike("the attachment was looked at")
	}
	return longEnds(ctx, r)
}

// livesWithDeepTree takes a snapshot, restores and closes with folders in the
// work folder that are deeper than PATH_MAX.
func livesWithDeepTree(ctx context.Context, r *stormRun) error {
	opt := session.Options{Host: r.host.name, Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotTurn}}
	if err := r.start(ctx, opt, "run echo whole >plain; "+r.leaves("first")); err != nil {
		return err
	}
	if err := r.completes(ctx, r.id, 1); err != nil {
		return err
	}
	work := r.work(r.host, r.id)
	if err := makeDeep(work); err != nil {
		return err
	}
	if err := r.says(ctx, r.runs("deep")); err != nil {
		return err
	}
	if err := r.keptAsOf(ctx, 2); err != nil {
		return err
	}
	d, err := r.detail(ctx, r.id)
	if err != nil {
		return err
	}
	if !strings.Contains(d.View.Snapshot.Lacks, deepName) {
		return ill{wrong, fmt.Errorf("of what is too deep the snapshot says %q", d.View.Snapshot.Lacks)}
	}
	r.strike("the snapshot lacks %.100s", d.View.Snapshot.Lacks)

	other := r.id + "-copy"
	if _, err := r.insists(ctx, "snapshot", "restore", d.View.Snapshot.ID, "--id", other, "--host", r.b.name); err != nil {
		return err
	}
	r.began(other)
	if err := otherGoesOn(ctx, r); err != nil {
		return err
	}
	if data, err := os.ReadFile(filepath.Join(r.work(r.b, other), "plain")); err != nil || string(data) != "whole\n" {
		return ill{wrong, fmt.Errorf("what was restored holds %q, %w", data, err)}
	}
	r.strike("it was restored")

	// Closing reports what it would lose and waits for a person to confirm.
	if err := r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults"}); err != nil {
		return err
	}
	held, err := r.await(ctx, r.id, "to say what closing would lose", func(d protocol.SessionDetail) bool { return d.View.Error != nil })
	if err != nil {
		return err
	}
	if e := held.View.Error; e.Kind != protocol.ErrTypeUnreadable || !strings.Contains(e.Message, deepName) {
		return ill{wrong, fmt.Errorf("of what is too deep closing says %+v", e)}
	}
	if _, err := os.Stat(filepath.Join(work, "plain")); err != nil {
		return ill{wrong, fmt.Errorf("closing waits, and yet: %w", err)}
	}
	if err := r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults", Discard: true}); err != nil {
		return err
	}
	if err := r.becomes(ctx, r.id, protocol.Closed); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Dir(work)); !errors.Is(err, os.ErrNotExist) {
		return ill{leftOver, fmt.Errorf("its folder is left: %v", err)}
	}
	r.strike("it was closed")
	return nil
}

var deepName = strings.Repeat("d", 200)

// makeDeep makes 25 nested folders with a file in the last one, whose path is
// too long for the kernel.
func makeDeep(dir string) error {
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range 25 {
		if err == nil {
			err = unix.Mkdirat(at, deepName, 0o755)
		}
		if err != nil {
			break
		}
		var below int
		if below, err = unix.Openat(at, deepName, unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			err = unix.Close(at)
			at = below
		}
	}
	if err != nil {
		return fmt.Errorf("make deep folders in %s: %w", dir, err)
	}
	fd, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(unix.Close(fd), unix.Close(at))
}
