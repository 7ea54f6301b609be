package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// A losable is a host that can disappear at any moment with all its processes,
// and come back with its disk unchanged.
type losable struct {
	t          *testing.T
	name, root string
	sshd       *hosttest.SSHD
}

// newLosable adds a host with a label that no other test's host has.
func newLosable(t *testing.T, name, label string) *losable {
	t.Helper()
	h := &losable{t: t, name: name, root: filepath.Join(e2e.Lab.Dir, "host-"+name)}
	var err error
	if h.sshd, err = e2e.Lab.AddHost(context.Background(), name, hosttest.Options{Root: h.root}, "--label", label); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "host", "provision", name)
	return h
}

func (h *losable) folder(session string) string { return filepath.Join(h.root, "sessions", session) }

// lose silently cuts the host off and kills all its processes.
func (h *losable) lose() (back func()) {
	h.t.Helper()
	restore, err := h.sshd.Drop(e2e.Within(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.sshd.Stop(); err != nil {
		h.t.Fatal(err)
	}
	e2e.Until(h.t, "the end of all that ran on "+h.name, func() (bool, error) {
		left := lab.Below(h.root)
		for _, p := range left {
			word, _, _ := strings.Cut(p, " ")
			pid, err := strconv.Atoi(word)
			if err != nil {
				return false, err
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, err
			}
		}
		return len(left) == 0, nil
	})
	return func() {
		h.t.Helper()
		if err := errors.Join(restore(), h.sshd.Start(e2e.Within(h.t))); err != nil {
			h.t.Fatal(err)
		}
	}
}

// files returns the content of a work folder. It ignores the empty folders that
// codex's sandbox makes while a command runs and removes some time later.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".agents", ".aws", ".codex", ".git"}, d.Name()) {
			if in, err := os.ReadDir(path); len(in) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
				return fs.SkipDir
			}
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		what := i.Mode().String()
		switch {
		case i.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %s %q", i.ModTime().UTC().Format(time.RFC3339), data)
		case i.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " to " + to
		}
		name, err := filepath.Rel(dir, path)
		all[name] = what
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := files(t, dir)
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s is %q, was %q", name, got[name], w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s was not there", name)
		}
	}
}

// keptAsOf waits until the newest good snapshot of a session is of that turn.
func keptAsOf(t *testing.T, id string, turn int) {
	t.Helper()
	e2e.Until(t, fmt.Sprintf("%s to be kept as of turn %d", id, turn), func() (bool, error) {
		v := e2e.Show(t, id).Snapshot
		if v != nil && v.Error != nil {
			return false, fmt.Errorf("the snapshot failed: %+v", v.Error)
		}
		return v != nil && v.ID != "" && v.Turn >= turn && v.Taking == 0, nil
	})
}

// A session's host is lost in the middle of a turn. The session continues on
// another one by itself, with its history and its files. When the first host
// comes back, the leftovers are deleted there; the session can also move back.
func TestASessionOutlivesItsHost(t *testing.T) {
	const id = "moves"
	a := newLosable(t, "lost-a", "pair=moves")
	e2e.OK(t, "session", "start", "--label", "pair=moves", "--seed", "team", "--id", id,
		"--snapshot", "full", "--on-host-lost", "move", "--lost-after", "10s")
	b := newLosable(t, "lost-b", "pair=moves")
	if v := e2e.Turn(t, id, "write a note"); v.FinalText != "It says from where I began" {
		t.Fatalf("the first turn is %+v", v)
	}
	keptAsOf(t, id, 1)
	before := e2e.Show(t, id)
	if before.Host != a.name {
		t.Fatalf("the session is on %s", before.Host)
	}
	work := files(t, filepath.Join(a.folder(id), "work"))
	e2e.Send(t, id, "take your time at gate moved")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "moved"); err != nil {
		t.Fatal(err)
	}
	e2e.Until(t, "the turn to be known", func() (bool, error) {
		v := e2e.Show(t, id)
		return v.Turn != nil && v.Turn.N == 2 && v.Turn.ID != "", nil
	})
	t.Cleanup(func() {
		if t.Failed() {
			out, err := e2e.Lab.Out(context.Background(), "session", "show", id)
			t.Logf("the session at the end (%v):\n%s", err, out)
			out, err = e2e.Lab.Out(context.Background(), "transcript", id)
			t.Logf("its transcript (%v):\n%s", err, out)
		}
	})
	back := a.lose()
	e2e.Lab.Model.Release("moved")
	// What the host did not send is unknown; that codex had the message, and
	// what it had said, was received.
	v := e2e.Ended(t, id, 2)
	if v.Turn.Status != "interrupted" {
		t.Errorf("the turn that was cut off is %+v", v.Turn)
	}
	if v := e2e.Turn(t, id, "what was first?"); v.FinalText != "The first was: write a note" {
		t.Errorf("the turn elsewhere is %+v", v)
	}
	v = e2e.Show(t, id)
	if v.Host != b.name || v.ThreadID != before.ThreadID {
		t.Errorf("the session is on %s with thread %s, was on %s with %s", v.Host, v.ThreadID, before.Host, before.ThreadID)
	}
	sameFiles(t, filepath.Join(b.folder(id), "work"), work)
	if v := e2e.Turn(t, id, "read the note"); !slices.Equal(strings.Fields(v.FinalText), strings.Fields("It says from where I began it runs src/note.txt")) {
		t.Errorf("the turn with the files is %+v", v)
	}

	if _, err := os.Stat(a.folder(id)); err != nil {
		t.Errorf("%s was lost with what is on it, and something touched that: %v", a.name, err)
	}
	back()
	clean := func(h *losable) {
		t.Helper()
		e2e.Until(t, "what was left on "+h.name+" to go", func() (bool, error) {
			var v protocol.HostView
			err := e2e.Lab.JSON(e2e.Within(t), &v, "host", "show", h.name)
			_, there := os.Stat(h.folder(id))
			return v.Unclean == 0 && v.Used == 0 && errors.Is(there, fs.ErrNotExist), err
		})
		if left := lab.Below(h.folder(id)); len(left) > 0 {
			t.Errorf("on %s there still runs %v", h.name, left)
		}
	}
	clean(a)

	e2e.OK(t, "session", "resume", id, "--host", a.name)
	if v := e2e.Turn(t, id, "and what was first?"); v.FinalText != "The first was: write a note" {
		t.Errorf("the turn back on %s is %+v", a.name, v)
	}
	if v := e2e.Show(t, id); v.Host != a.name || v.ThreadID != before.ThreadID {
		t.Errorf("the session is on %s with thread %s", v.Host, v.ThreadID)
	}
	sameFiles(t, filepath.Join(a.folder(id), "work"), work)
	if n := len(e2e.Lab.CodexOf(id)); n == 0 {
		t.Error("no codex of the session runs")
	}
	clean(b)

	list := e2e.Transcript(t, id)
	for i, e := range list {
		if e.Seq != int64(i+1) {
			t.Errorf("entry %d of the transcript is %d", i+1, e.Seq)
		}
	}
	said := e2e.Texts(list, protocol.EntryUser)
	if !slices.Equal(said, []string{"write a note", "take your time at gate moved", "what was first?", "read the note", "and what was first?"}) {
		t.Errorf("on record was said %q", said)
	}
	first := func(what string, is func(protocol.Entry) bool) int {
		t.Helper()
		i := slices.IndexFunc(list, is)
		if i < 0 {
			t.Errorf("%s is not on record", what)
		}
		return i
	}
	asked := first("what was asked", func(e protocol.Entry) bool { return e.Text == "take your time at gate moved" })
	over := first("the end of that turn", func(e protocol.Entry) bool { return e.Text == "turn 2 ended as interrupted" })
	if asked > over {
		t.Errorf("the turn's message is entry %d, and its end %d", asked+1, over+1)
	}
	e2e.OK(t, "session", "close", id)
	if _, err := os.Stat(a.folder(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	for _, h := range []*losable{a, b} {
		e2e.OK(t, "host", "remove", h.name)
	}
}
