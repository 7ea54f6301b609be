package sessions

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// A session's files are fetched from this machine and from a host behind sshd
// alike: files, folders, everything, into a folder that exists or not.
func TestWhatASessionMadeIsFetched(t *testing.T) {
	for _, host := range []string{"local", "web-1"} {
		t.Run(host, func(t *testing.T) {
			id := "fetched-" + host
			e2e.Session(t, id, "--host", host)
			if v := e2e.Turn(t, id, "write a note"); v.Status != "completed" {
				t.Fatalf("the turn: %+v", v)
			}
			dir := t.TempDir()
			e2e.OK(t, "session", "fetch", id, "src/note.txt", "--to", filepath.Join(dir, "a", "new one"))
			holds(t, filepath.Join(dir, "a", "new one", "src", "note.txt"), "from where I began\n", 0o644)
			var got struct{ Files []string }
			if err := e2e.Lab.JSON(e2e.Within(t), &got, "session", "fetch", id, "src", "run.sh", "--to", dir); err != nil {
				t.Fatal(err)
			}
			if strings.Join(got.Files, " ") != "src/note.txt run.sh" {
				t.Errorf("fetched %q", got.Files)
			}
			holds(t, filepath.Join(dir, "run.sh"), "#!/bin/sh\necho it runs\n", 0o755)
			notOverwritten(t, id, dir)
			whole := filepath.Join(dir, "whole")
			e2e.OK(t, "session", "fetch", id, ".", "--to", whole)
			holds(t, filepath.Join(whole, "src", "note.txt"), "from where I began\n", 0o644)
			holds(t, filepath.Join(whole, "run.sh"), "#!/bin/sh\necho it runs\n", 0o755)
			if left, err := filepath.Glob(filepath.Join(whole, ".fetch-*")); err != nil || len(left) > 0 {
				t.Errorf("%v is left (%v)", left, err)
			}
			notFetched(t, id, dir)
			if host == "web-1" {
				whileATurnRuns(t, id, dir)
			}
		})
	}
}

// notOverwritten checks that a file that exists here stays, unless --force is given.
func notOverwritten(t *testing.T, id, dir string) {
	t.Helper()
	mine, other := filepath.Join(dir, "run.sh"), filepath.Join(dir, "src", "note.txt")
	if err := errors.Join(os.WriteFile(mine, []byte("mine\n"), 0o755), os.Remove(other)); err != nil {
		t.Fatal(err)
	}
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "fetch", id, "src", "run.sh", "--to", dir)
	if r.Code != 6 || !strings.Contains(r.Stderr, "run.sh: it exists") || !strings.Contains(r.Stderr, "--force") {
		t.Errorf("fetched over a file: %v", r)
	}
	holds(t, mine, "mine\n", 0o755)
	if _, err := os.Lstat(other); !os.IsNotExist(err) {
		t.Errorf("%s was written, although another file was refused (%v)", other, err)
	}
	e2e.OK(t, "session", "fetch", id, "src", "run.sh", "--to", dir, "--force")
	holds(t, mine, "#!/bin/sh\necho it runs\n", 0o755)
	holds(t, other, "from where I began\n", 0o644)
}

// whileATurnRuns checks that several files are read at one moment, or not at
// all.
func whileATurnRuns(t *testing.T, id, dir string) {
	t.Helper()
	e2e.Send(t, id, "you need a command")
	a := e2e.Open(t, id, 1)[0]
	none := filepath.Join(dir, "none")
	for _, look := range [][]string{{"diff", id}, {"fetch", id, ".", "--to", none}, {"fetch", id, "run.sh", "src/note.txt", "--to", none}} {
		r := e2e.Lab.Ctl(e2e.Within(t), nil, append([]string{"session"}, look...)...)
		if r.Code != 6 || !strings.Contains(r.Stderr, "turn 2 of session "+id+" may still change the work folder") || !strings.Contains(r.Stderr, "--while-running") {
			t.Errorf("%s while a turn runs: %v", look[0], r)
		}
		e2e.OK(t, append([]string{"session", look[0], "--while-running"}, look[1:]...)...)
		if err := os.RemoveAll(none); err != nil {
			t.Fatal(err)
		}
	}
	e2e.OK(t, "session", "fetch", id, "run.sh", "--to", none)
	e2e.OK(t, "approval", "decline", a.ID)
	e2e.Ended(t, id, 2)
	e2e.OK(t, "session", "diff", id)
}

// notFetched checks that nothing is written if nothing was received.
func notFetched(t *testing.T, id, dir string) {
	t.Helper()
	nowhere := filepath.Join(dir, "nowhere")
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "fetch", id, "run.sh", "not there", "--to", nowhere)
	if r.Code != 3 || !strings.Contains(r.Stderr, "no such file") {
		t.Errorf("a file that is not there: %v", r)
	}
	if n := strings.Count(r.Stderr, "fetch from session"); n != 1 {
		t.Errorf("what was done is said %d times: %s", n, r.Stderr)
	}
	if _, err := os.Lstat(nowhere); !os.IsNotExist(err) {
		t.Errorf("%s was made (%v)", nowhere, err)
	}
	r = e2e.Lab.Ctl(e2e.Within(t), nil, "session", "fetch", id, "run.sh", "--to", filepath.Join(dir, "run.sh"))
	if r.Code != 2 || !strings.Contains(r.Stderr, "is a file") {
		t.Errorf("fetched into a file: %v", r)
	}
}

func holds(t *testing.T, path, want string, mode os.FileMode) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	info, err := os.Stat(path)
	if err != nil || string(text) != want || info.Mode().Perm()&0o700 != mode&0o700 {
		t.Errorf("%s holds %q with mode %v (%v)", path, text, info.Mode(), err)
	}
}
