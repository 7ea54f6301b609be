package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

func TestASizeIsForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 20 << 30: "20.0 GiB", 1 << 60: "1024.0 PiB"} {
		if got := size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// `session show` says where a session is and what is kept of it.
func TestASessionShowsWhereItIsAndWhatIsKept(t *testing.T) {
	at := time.Now().Add(-3 * time.Minute)
	failure := &workflows.Failure{Kind: "quota", Message: "it holds 30 GiB, 20 GiB at most", Hint: "--snapshot-exclude"}
	for _, c := range []struct {
		name string
		v    workflows.SessionView
		want []string
		not  []string
	}{
		{"nothing to say", workflows.SessionView{ID: "s1", Attempt: 1}, nil, []string{"snapshot", "attempt", "warm", "lost"}},
		{"kept", workflows.SessionView{ID: "s1", Snapshot: &workflows.SnapshotView{ID: "s1.snap-x", N: 2, Turn: 4, At: at}},
			[]string{"snapshot  s1.snap-x, of turn 4, 3m ago\n"}, []string{"failed", "taken"}},
		{"a bad one hides no good one", workflows.SessionView{ID: "s1", Snapshot: &workflows.SnapshotView{ID: "s1.snap-x", N: 2, Turn: 4, At: at, Tried: 3, Error: failure}},
			[]string{"s1.snap-x, of turn 4", "snapshot failed  quota: it holds 30 GiB, 20 GiB at most (--snapshot-exclude)"}, nil},
		{"the first is being taken", workflows.SessionView{ID: "s1", Snapshot: &workflows.SnapshotView{Taking: 1}}, []string{"none yet; the first one is being taken"}, nil},
		{"parked", workflows.SessionView{ID: "s1", State: workflows.Parked, Warm: &workflows.WarmView{Host: "web-1", Since: at}},
			[]string{"warm   on web-1, where it comes back at once; since 3m ago"}, nil},
		{"lost", workflows.SessionView{ID: "s1", Attempt: 2, Lost: &workflows.LostView{Host: "web-1", Since: time.Unix(1e9, 0), Why: "dial: refused", Stays: "it has no snapshot"}},
			[]string{"web-1 cannot be reached since 2001-09-09T01:46:40Z: dial: refused; it waits for it: it has no snapshot", "attempt  2"}, nil},
	} {
		var b bytes.Buffer
		showSession(newPrinter(&b, false), c.v)
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: it does not say %q:\n%s", c.name, want, b.String())
			}
		}
		for _, not := range c.not {
			if strings.Contains(b.String(), not) {
				t.Errorf("%s: it speaks of %q:\n%s", c.name, not, b.String())
			}
		}
	}
}

func TestAListSaysWhatIsUnusual(t *testing.T) {
	v := workflows.SessionView{Attempt: 3, Warm: &workflows.WarmView{Host: "web-1"}, Lost: &workflows.LostView{Host: "web-2"},
		Snapshot: &workflows.SnapshotView{Error: &workflows.Failure{Kind: "store"}}}
	if got, want := whereabouts(v), "attempt 3, web-2 is lost, warm on web-1, newest snapshot failed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := whereabouts(workflows.SessionView{Attempt: 1, Snapshot: &workflows.SnapshotView{ID: "x"}}); got != "" {
		t.Errorf("nothing is unusual, and it says %q", got)
	}
}

func TestWhatIsChosenReachesTheSession(t *testing.T) {
	f := goOnFlags{work: activities.WorkGit, exclude: []string{"node_modules/", "!keep"}, when: workflows.SnapshotClose, every: 2 * time.Minute,
		parkAfter: time.Hour, hostLost: workflows.HostLostMove, lostAfter: time.Minute}
	var opt workflows.SessionOptions
	if err := f.set(&opt); err != nil {
		t.Fatal(err)
	}
	s := opt.Snapshot
	if s.Work != "git" || !slices.Equal(s.Exclude, f.exclude) || s.When != "close" || s.Every != 2*time.Minute ||
		opt.ParkAfter != time.Hour || opt.OnHostLost != "move" || opt.LostAfter != time.Minute {
		t.Errorf("%+v", opt)
	}
	for name, bad := range map[string]goOnFlags{
		"many patterns": {exclude: []string{strings.Repeat("x", 4<<10+1)}},
		"two lines":     {exclude: []string{"a\nb"}},
		"no text":       {exclude: []string{"a\xff"}},
	} {
		if err := bad.check(); exitOf(err) != exitUsage || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file appears under its name only when it is complete. Until then the old one stays.
func TestAnExportIsThereWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.tar")
	if err := os.WriteFile(path, []byte("the old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	is := func(want string) {
		t.Helper()
		names, err := os.ReadDir(dir)
		data, rerr := os.ReadFile(path)
		if err != nil || rerr != nil || string(data) != want || len(names) != 1 {
			t.Errorf("%q in %v (%v, %v), want %q alone", data, names, err, rerr, want)
		}
	}
	torn := errors.New("the worker went away")
	err := writeWhole(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "half of it")
		is2, lerr := os.ReadFile(path)
		if string(is2) != "the old one" || lerr != nil {
			t.Errorf("meanwhile there is %q, %v", is2, lerr)
		}
		return errors.Join(err, torn)
	})
	if !errors.Is(err, torn) {
		t.Errorf("it ended with %v", err)
	}
	is("the old one")
	if err := writeWhole(path, func(w io.Writer) error { _, err := io.WriteString(w, "all of it"); return err }); err != nil {
		t.Fatal(err)
	}
	is("all of it")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// If the name is a link, the file that it points to is written.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if got, err := plainFile("export", link); err != nil || got != path {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := plainFile("export", "/dev/null"); exitOf(err) != exitUsage || err == nil {
		t.Errorf("a device: %v", err)
	}
}

// What ctl says of a closed session agrees with its last snapshot.
func TestWhatIsKeptIsSaidAsItIs(t *testing.T) {
	rollouts, work := snapshots.Tree{Name: snapshots.Rollouts}, snapshots.Tree{Name: snapshots.Work}
	for want, m := range map[string]snapshots.Manifest{
		"conversation and work are":                              {Complete: true, Trees: []snapshots.Tree{rollouts, work}},
		"the conversation alone, nothing of the work folder, is": {Complete: true, Trees: []snapshots.Tree{rollouts}},
		"what there was to keep is":                              {},
	} {
		if got := heldBy(m); got != want {
			t.Errorf("%+v: %q, want %q", m.Trees, got, want)
		}
	}
}

// The connection and the context have the same deadline, and either can report it first. In
// both cases it is a timeout, not a silent worker.
func TestAWaitThatIsOverIsNoWorkerThatIsAway(t *testing.T) {
	wire := serviceerror.NewDeadlineExceeded("context deadline exceeded")
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if !outOfTime(soon, wire) {
		t.Error("the wire was first, and it is not over")
	}
	later, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if outOfTime(later, wire) || outOfTime(soon, nil) {
		t.Error("what failed long before, or did not, is over")
	}
}

func TestASessionShowsWhatItKeepsAndWhen(t *testing.T) {
	for _, c := range []struct {
		opt             map[string]string
		keeps, hostLost string
	}{
		{map[string]string{"on_interrupt": "ask"}, "", ""}, // an older worker does not report it
		{map[string]string{"snapshot": "full", "snapshot_when": "turn", "park_after": "30m0s", "on_host_lost": "wait", "lost_after": "5m0s"},
			"all of the work folder, after each turn; parks after 30m", "wait, after 5m"},
		{map[string]string{"snapshot": "git", "snapshot_when": "turn", "snapshot_every": "10m0s", "snapshot_exclude": "a b/\n*.log", "on_host_lost": "move", "lost_after": "10s"},
			"git: what upstream does not have, after each turn, and every 10m within one; without a b/  *.log", "move, after 10s"},
		{map[string]string{"snapshot": "none", "snapshot_when": "close"}, "the conversation alone, when it parks or closes", ""},
		{map[string]string{"snapshot": "full", "snapshot_when": "off"}, "none: it cannot park or move, and a lost host takes its work along", ""},
	} {
		if got := policyText(c.opt); got != c.keeps {
			t.Errorf("%v keeps %q, want %q", c.opt, got, c.keeps)
		}
		if got := hostLostText(c.opt); got != c.hostLost {
			t.Errorf("%v: %q, want %q", c.opt, got, c.hostLost)
		}
	}
}

// A fork keeps the work folder as the user asked, not as the fallback that was used in one
// snapshot.
func TestAForkOfAGitSessionIsOne(t *testing.T) {
	m := snapshots.Manifest{Facts: snapshots.Facts{Work: "full"}, WorkWhy: "it has no remote"}
	if got := askedFor(m); got != "git" {
		t.Errorf("it keeps %q", got)
	}
	if got := workText(m); got != "full, though git was asked for: it has no remote" {
		t.Errorf("it is shown as %q", got)
	}
}

func TestAFileInNoFolderIsBadInput(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "x.tar")
	if _, err := plainFile("export", missing); exitOf(err) != exitUsage || !strings.Contains(err.Error(), "there is no folder "+filepath.Dir(missing)) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsPrunedIsSaidInWords(t *testing.T) {
	for want, c := range map[string]struct {
		in  activities.PruneSnapshotsInput
		out activities.PruneSnapshotsResult
	}{
		"a\n1 snapshot dropped, 1.0 KiB of 2 packs freed, no packs condemned for a later prune\n":                      {out: activities.PruneSnapshotsResult{Snapshots: []string{"a"}, Freed: 1024, Packs: 2}},
		"no snapshots would be dropped, 0 B of no packs would be freed, 1 pack would be condemned for a later prune\n": {in: activities.PruneSnapshotsInput{DryRun: true}, out: activities.PruneSnapshotsResult{Condemned: 1}},
	} {
		var b bytes.Buffer
		if printPruned(newPrinter(&b, false), c.in, c.out); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}
