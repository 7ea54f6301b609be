package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

// A snapRun is one row, once: a session with a work folder, and two hosts.
type snapRun struct {
	*stage
	hosts   []*host
	run     *run
	options workflows.SessionOptions
	rng     *rand.Rand
	res     *snapResult

	version int
	states  map[string]int // digests of the work folder that there were, and their versions
	now     string         // the work folder as it must be
	lines   map[string][]string
	moves   int
	// atLeast, where a host was lost with its disk, is the version that the
	// work folder must have; it may be a later one, and is known afterwards.
	atLeast int
	mayLack int // likewise the turn that the thread may know nothing of
}

// begun is a session that had a turn, worked, and was kept.
func (s *snapRun) begun(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.says(ctx, "hello from "+s.run.id); err != nil {
		return err
	}
	if s.options.Host == "" { // it was given one
		d, err := s.detail(ctx, s.run.id)
		if err != nil {
			return err
		}
		s.run.host = s.hostNamed(d.View.Host)
	}
	if err := s.works(); err != nil {
		return err
	}
	if err := s.says(ctx, "hello, that is my work"); err != nil {
		return err
	}
	return s.isKept(ctx)
}

func (s *snapRun) hostNamed(name string) *host {
	for _, h := range s.hosts {
		if h.name == name {
			return h
		}
	}
	return s.hosts[0]
}

// other is the host that the session is not on.
func (s *snapRun) other() *host {
	if s.run.host == s.hosts[0] {
		return s.hosts[1]
	}
	return s.hosts[0]
}

func (s *snapRun) open(ctx context.Context) error {
	s.run.logf("start")
	return again(ctx, "start "+s.run.id, func(ctx context.Context) error {
		_, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: workflows.SessionID(s.run.id), TaskQueue: workflows.TaskQueueOf("")},
			workflows.TypeSession, workflows.SessionInput{ID: s.run.id, Options: s.options})
		return err
	})
}

// says has a plain turn completed.
func (s *snapRun) says(ctx context.Context, text string) error {
	if err := s.run.send(ctx, text); err != nil {
		return err
	}
	t, err := s.run.turn(ctx, len(s.run.said))
	if err == nil && t.Status != "completed" {
		err = fmt.Errorf("a plain turn is %s (%+v)", t.Status, t.Error)
	}
	return err
}

// works changes the work folder, as codex would: files are made, changed and
// removed, large and small, with a link, a program and an empty folder.
func (s *snapRun) works() error {
	s.version++
	work := s.run.work()
	rng := rand.New(rand.NewPCG(uint64(s.version), 7))
	put := func(name string, data []byte, mode os.FileMode) error {
		path := filepath.Join(work, name)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, mode), os.Chmod(path, mode))
	}
	errs := []error{put("version", fmt.Appendf(nil, "%d\n", s.version), 0o644), put("bin/run", fmt.Appendf(nil, "#!/bin/sh\necho %d\n", s.version), 0o755)}
	for i := range 500 {
		name := fmt.Sprintf("src/%02d/file %d", i%25, i)
		switch {
		case s.version > 1 && i%3 > 0: // as it was
		case s.version > 1 && i%50 == 0:
			errs = append(errs, os.RemoveAll(filepath.Join(work, name)))
		default:
			data := make([]byte, 1000+i*100)
			for j := range data[:len(data)/2] {
				data[j] = byte(rng.Uint32())
			}
			errs = append(errs, put(name, data, 0o644))
		}
	}
	errs = append(errs, os.MkdirAll(filepath.Join(work, "empty"), 0o750))
	if s.version == 1 {
		errs = append(errs, os.Symlink("src/00/nothing", filepath.Join(work, "dangling")))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	now, err := treeDigest(work)
	if err != nil {
		return err
	}
	s.now = now
	s.states[now] = s.version
	if s.lines == nil {
		s.lines = map[string][]string{}
	}
	if s.lines[now], err = treeLines(work); err != nil {
		return err
	}
	s.run.logf("the work folder is of version %d", s.version)
	return err
}

// treeDigest is of names, kinds, modes and content.
func treeDigest(dir string) (string, error) {
	lines, err := treeLines(dir)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:]), err
}

// placeholders are empty folders that codex's own sandbox makes, now and then,
// where a command could plant what is read later.
var placeholders = []string{".agents", ".aws", ".codex", ".git"}

func treeLines(dir string) (lines []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		switch {
		case i.Mode().IsRegular():
			content, err = os.ReadFile(path)
		case i.Mode()&fs.ModeSymlink != 0:
			var to string
			to, err = os.Readlink(path)
			content = []byte(to)
		}
		name, _ := filepath.Rel(dir, path) // it is below
		if i.IsDir() && slices.Contains(placeholders, name) {
			return err
		}
		lines = append(lines, fmt.Sprintf("%q %v %x\n", name, i.Mode(), sha256.Sum256(content)))
		return err
	})
	return lines, err
}

// differences are at most a few of those of two folders.
func differences(was, is []string) string {
	var out []string
	for i, side := range [][]string{was, is} {
		for _, line := range side {
			if !slices.Contains([][]string{is, was}[i], line) && len(out) < 6 {
				out = append(out, []string{"was ", "is "}[i]+strings.TrimSuffix(line, "\n"))
			}
		}
	}
	return strings.Join(out, "; ")
}

// kept says whether the newest good snapshot is of that turn or a later one.
func (s *snapRun) kept(turn int) bool {
	d, err := s.detail(context.Background(), s.run.id)
	v := d.View.Snapshot
	return err == nil && v != nil && v.ID != "" && v.Turn >= turn && v.Taking == 0
}

func (s *snapRun) isKept(ctx context.Context) error {
	turn := len(s.run.said)
	_, err := s.until(ctx, s.run.id, fmt.Sprintf("to be kept as of turn %d", turn), func(d workflows.SessionDetail) bool {
		v := d.View.Snapshot
		return v != nil && v.ID != "" && v.Turn >= turn && v.Taking == 0
	})
	return err
}

// promptly waits for something that may last a moment only.
func (s *snapRun) promptly(ctx context.Context, what string, there func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !there() {
		if ctx.Err() != nil {
			return fmt.Errorf("waited in vain for %s", what)
		}
		sleep(ctx, 3*time.Millisecond)
	}
	return nil
}

// storeFiles are the blobs of snapshots that there are.
func (s *snapRun) storeFiles() map[string]bool {
	all := map[string]bool{}
	for _, name := range s.blobs() {
		all[name] = true
	}
	return all
}

func (s *snapRun) blobs() (all []string) {
	root := filepath.Join(s.State, "store", "snapshots")
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // what goes meanwhile was there
		if err == nil && d.Type().IsRegular() {
			all = append(all, strings.TrimPrefix(path, root+"/"))
		}
		return nil
	})
	return all
}

func (s *snapRun) isNew(kind string, seen map[string]bool) bool {
	return slices.ContainsFunc(s.blobs(), func(name string) bool { return strings.HasPrefix(name, kind+"/") && !seen[name] })
}

func (s *snapRun) strikes(ctx context.Context, strike trouble) error {
	s.run.logf("the fault strikes: %s", s.res.fault)
	err := errors.Join(strike(s, ctx), s.healthy(ctx))
	s.run.logf("it is over")
	return err
}

// parks waits until the session has given back its host.
func (s *snapRun) parks(ctx context.Context) error {
	if err := s.signal(ctx, s.run.id, workflows.SignalPark, workflows.Park{By: "faults"}); err != nil {
		return err
	}
	_, err := s.until(ctx, s.run.id, "to be parked", func(d workflows.SessionDetail) bool { return d.View.State == workflows.Parked })
	return err
}

// movesTo parks the session and has it come back on another host.
func (s *snapRun) movesTo(ctx context.Context, h *host) error {
	if err := s.parks(ctx); err != nil {
		return err
	}
	s.run.logf("to %s", h.name)
	s.moves++
	if err := s.signal(ctx, s.run.id, workflows.SignalResume, workflows.Resume{Host: h.name, By: "faults"}); err != nil {
		return err
	}
	return s.goesOnAt(ctx, h)
}

// goesOn has a turn completed wherever the session is, and looks whether all of
// its history and of its work is there. Where it is honestly said that nobody
// knows what became of a turn, or that it was cut off, a person says it again.
func (s *snapRun) goesOn(ctx context.Context) error {
	if n := len(s.run.said); n > 0 {
		if _, err := s.run.turn(ctx, n); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		if err := s.run.send(ctx, fmt.Sprintf("what was first? (%s, %d)", s.run.id, len(s.run.said)+1)); err != nil {
			return err
		}
		t, err := s.run.turn(ctx, len(s.run.said))
		if err != nil {
			return err
		}
		if t.Status == "completed" {
			if want := "The first was: " + s.run.said[0].text; t.FinalText != want {
				s.res.history = append(s.res.history, fmt.Sprintf("turn %d says %q, not %q", t.N, t.FinalText, want))
			}
			break
		}
		if t.Status != "unknown" && t.Status != "interrupted" || try == 3 {
			return fmt.Errorf("turn %d of %s is %s (%+v)", t.N, s.run.id, t.Status, t.Error)
		}
	}
	d, err := s.detail(ctx, s.run.id)
	if err != nil {
		return err
	}
	s.run.host = s.hostNamed(d.View.Host)
	s.sameWork("turn " + fmt.Sprint(len(s.run.said)) + " on " + d.View.Host)
	return s.isKept(ctx)
}

func (s *snapRun) goesOnAt(ctx context.Context, h *host) error {
	if err := s.goesOn(ctx); err != nil {
		return err
	}
	if s.run.host != h {
		return fmt.Errorf("the session is on %s, not on %s", s.run.host.name, h.name)
	}
	return nil
}

// sameWork judges that the work folder is as it was.
func (s *snapRun) sameWork(when string) {
	got, err := treeDigest(s.run.work())
	if v := s.states[got]; s.atLeast > 0 && v >= s.atLeast {
		s.now, s.version, s.atLeast = got, v, 0
	}
	if err != nil || got != s.now {
		s.res.lost = append(s.res.lost, fmt.Sprintf("at %s the work folder is of version %d, not %d (%v): %s", when, s.states[got], s.version, err, s.differs()))
		s.now = got // said once
	}
}

func (s *snapRun) differs() string {
	is, err := treeLines(s.run.work())
	if err != nil {
		return err.Error()
	}
	return differences(s.lines[s.now], is)
}

// watch looks all along how many codexes of the session run.
func (s *snapRun) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	seen := ""
	all.Go(func() {
		for ctx.Err() == nil {
			if homes := homesOf(s.run.id); len(homes) > 1 {
				seen = strings.Join(homes, " and ")
			}
			sleep(ctx, 100*time.Millisecond)
		}
	})
	return func() {
		cancel()
		all.Wait()
		if seen != "" {
			s.res.two = append(s.res.two, "codex ran in "+seen)
		}
	}
}

// homesOf are the folders in which a codex of the session runs, one for each.
func homesOf(session string) (homes []string) {
	pids := lab.CodexOf(session)
	for _, pid := range pids {
		proc := fmt.Sprintf("/proc/%d", pid)
		if parent, _, ok := stat(proc); !ok || slices.Contains(pids, parent) {
			continue // a child of codex's that has not become another program yet
		}
		cmd, _ := os.ReadFile(proc + "/cmdline") // what has just ended has none
		env, _ := os.ReadFile(proc + "/environ")
		for _, kv := range strings.Split(string(env), "\x00") {
			if home, ok := strings.CutPrefix(kv, "CODEX_HOME="); ok && strings.Contains(string(cmd), "app-server") {
				homes = append(homes, home)
			}
		}
	}
	return homes
}

// judge: when the session is closed, nothing of it is left on any host, and
// what the store says is whole is whole.
func (s *snapRun) judge(ctx context.Context) error {
	var d workflows.SessionDetail
	var err error
	if d, err = s.detail(ctx, s.run.id); err != nil {
		return err
	}
	seen := map[string]int{}
	for _, m := range s.Model.UserMessages(d.View.ThreadID) {
		seen[m]++
	}
	for _, t := range d.Turns {
		n := seen[s.run.messageOf(t.N)]
		if text := s.run.messageOf(t.N); t.Status == "completed" && n != 1 && (t.N != s.mayLack || n > 1) {
			s.res.history = append(s.res.history, fmt.Sprintf("the model saw %q %d times", text, n))
		}
	}
	if err := s.judgeHosts(ctx); err != nil {
		return err
	}
	return s.judgeStore(ctx)
}

func (s *snapRun) judgeHosts(ctx context.Context) error {
	for _, h := range s.hosts {
		folder := filepath.Join(h.root, "sessions", s.run.id)
		err := again(ctx, "what is left on "+h.name+" to go", func(context.Context) error {
			if exists(folder) {
				return errors.New(folder + " is there")
			}
			return nil
		})
		if err != nil {
			s.res.wrong = append(s.res.wrong, err.Error())
		}
		for _, p := range processesOf(s.run.id, folder) {
			s.res.wrong = append(s.res.wrong, fmt.Sprintf("process %d is left: %.200s", p.pid, p.command))
		}
	}
	return nil
}

// A keptOne is a snapshot, as ctl lists it.
type keptOne struct {
	ID       string `json:"id"`
	Turn     int    `json:"turn"`
	Complete bool   `json:"complete"`
}

// judgeStore takes each snapshot that says it is whole at its word.
func (s *snapRun) judgeStore(ctx context.Context) error {
	list, err := lab.Lines[keptOne](ctx, s.Lab, "snapshot", "list", s.run.id)
	if err != nil {
		return err
	}
	newest := ""
	for _, one := range list {
		if !one.Complete {
			continue
		}
		dir := filepath.Join(s.Dir, "export-"+one.ID)
		got, err := s.export(ctx, one.ID, dir)
		if err != nil {
			s.res.half = append(s.res.half, fmt.Sprintf("%s says that it is complete: %v", one.ID, err))
			continue
		}
		// Before the first work there was an empty folder.
		if _, ok := s.states[got]; !ok && one.Turn > 1 {
			s.res.half = append(s.res.half, fmt.Sprintf("%s, of turn %d, holds what the work folder never was", one.ID, one.Turn))
		}
		newest = got
	}
	if newest != s.now {
		s.res.lost = append(s.res.lost, fmt.Sprintf("the newest snapshot is of version %d, not %d, and the folder is gone", s.states[newest], s.version))
	}
	if r := s.Ctl(ctx, nil, "snapshot", "check", "--read-data"); r.Code != 0 {
		s.res.half = append(s.res.half, "snapshot check: "+r.Error())
	}
	return nil
}

// export unpacks a snapshot, and is its work folder's digest.
func (s *snapRun) export(ctx context.Context, id, dir string) (string, error) {
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	tar := filepath.Join(dir, "all.tar")
	if _, err := s.Out(ctx, "snapshot", "export", id, tar); err != nil {
		return "", err
	}
	if err := untar(ctx, tar, dir); err != nil {
		return "", err
	}
	rollouts, err := filepath.Glob(filepath.Join(dir, "rollouts", "sessions", "*", "*", "*", "rollout-*"))
	if err != nil || len(rollouts) == 0 {
		return "", fmt.Errorf("it holds no rollout (%v)", err)
	}
	if exists(filepath.Join(dir, "rollouts", "auth.json")) {
		s.res.wrong = append(s.res.wrong, "a credential is in "+id)
	}
	return treeDigest(filepath.Join(dir, "work"))
}

// close ends the session, and waits until it is.
func (s *snapRun) close(ctx context.Context) error {
	if err := s.signal(ctx, s.run.id, workflows.SignalClose, workflows.Close{By: "faults"}); err != nil {
		return err
	}
	d, err := s.until(ctx, s.run.id, "to be closed", func(d workflows.SessionDetail) bool { return d.View.State == workflows.Closed })
	if err != nil {
		return err
	}
	if c := d.View.Close; c == nil || !c.Wiped || !c.Removed || c.Archive == "" {
		s.res.wrong = append(s.res.wrong, fmt.Sprintf("it closed with %+v, error %+v", c, d.View.Error))
	}
	return nil
}

var snapOptions = workflows.SessionOptions{Seed: "team", By: "faults", OnInterrupt: "ask",
	Snapshot: workflows.SnapshotOptions{Work: activities.WorkFull, When: workflows.SnapshotTurn}}
