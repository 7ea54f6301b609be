package sessions

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// closed closes a session, which ctl started, when the test ends.
func closed(t *testing.T, id string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		if r := e2e.Lab.Ctl(ctx, nil, "session", "close", id); r.Code != 0 && r.Code != 3 && r.Code != 6 {
			t.Errorf("close %s: %v", id, r)
		}
	})
}

// workDir returns a session's work folder on a host of this machine.
func workDir(t *testing.T, id string) string {
	t.Helper()
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var d protocol.SessionDetail
	v, err := c.QueryWorkflow(e2e.Within(t), protocol.SessionID(id), "", protocol.QueryDetail)
	if err == nil {
		err = v.Get(&d)
	}
	if err != nil || d.Layout.WorkDir == "" {
		t.Fatalf("where %s works: %+v, %v", id, d.Layout, err)
	}
	return d.Layout.WorkDir
}

// An older snapshot becomes a new session on another host, with the
// conversation and the files as of then and its own thread. The source session
// is not affected.
func TestAnOlderSnapshotIsRestoredAsASessionOfItsOwn(t *testing.T) {
	e2e.Session(t, "source", "--snapshot-when", "close", "--sandbox", "read-only", "--approval-policy", "untrusted")
	e2e.Turn(t, "source", "the first words")
	work := filepath.Join(e2e.Root, "sessions", "source", "work")
	if err := os.WriteFile(filepath.Join(work, "early.txt"), []byte("early"), 0o640); err != nil {
		t.Fatal(err)
	}
	var snap snapshotJSON
	if err := e2e.Lab.JSON(e2e.Within(t), &snap, "snapshot", "create", "source"); err != nil {
		t.Fatal(err)
	}
	e2e.Turn(t, "source", "the second words")
	if err := os.WriteFile(filepath.Join(work, "late.txt"), []byte("late"), 0o640); err != nil {
		t.Fatal(err)
	}
	closed(t, "restored")
	if out := strings.TrimSpace(e2e.OK(t, "snapshot", "restore", snap.ID, "--host", "local", "--id", "restored")); out != "restored" {
		t.Errorf("it prints %q", out)
	}
	was := e2e.Show(t, "source")
	if v := e2e.Turn(t, "restored", "what was first"); !strings.Contains(v.FinalText, "The first was: the first words") {
		t.Errorf("the fork knows %q", v.FinalText)
	}
	now := e2e.Show(t, "restored")
	if now.Host != "local" || now.Seed != "team" || now.ThreadID == "" || now.ThreadID == was.ThreadID ||
		now.Options["sandbox"] != "read-only" || now.Options["approval_policy"] != "untrusted" {
		t.Errorf("restored as %+v", now)
	}
	dir := workDir(t, "restored")
	if data, err := os.ReadFile(filepath.Join(dir, "early.txt")); err != nil || string(data) != "early" {
		t.Errorf("early.txt: %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "late.txt")); err == nil {
		t.Error("what came after the snapshot is there")
	}
	if text := e2e.OK(t, "transcript", "restored"); strings.Contains(text, "the second words") {
		t.Errorf("the fork's transcript has what came later:\n%s", text)
	}
	if v := e2e.Turn(t, "source", "what was first"); !strings.Contains(v.FinalText, "the first words") || e2e.Show(t, "source").ThreadID != was.ThreadID {
		t.Errorf("the source says %q", v.FinalText)
	}

	for name, c := range map[string]badInput{
		"an id in use":       {code: 6, says: "in use", args: []string{"snapshot", "restore", snap.ID, "--id", "source"}},
		"an unknown host":    {code: 3, says: "nowhere", args: []string{"snapshot", "restore", snap.ID, "--host", "nowhere"}},
		"never taken":        {code: 3, says: "no such snapshot", args: []string{"snapshot", "restore", "source.snap-20260102t030405-0a1b2c"}},
		"unknown seed":       {code: 3, says: "nothing", args: []string{"snapshot", "restore", snap.ID, "--seed", "nothing"}},
		"a fork of nobody":   {code: 3, says: "never-was", args: []string{"session", "fork", "never-was"}},
		"parks that nobody":  {code: 3, says: "never-was", args: []string{"session", "park", "never-was"}},
		"resumes that":       {code: 3, says: "never-was", args: []string{"session", "resume", "never-was"}},
		"of nobody, listed":  {code: 3, says: "no such session", args: []string{"snapshot", "list", "never-was"}},
		"created for nobody": {code: 3, says: "never-was", args: []string{"snapshot", "create", "never-was"}},
	} {
		if r := e2e.Lab.Ctl(e2e.Within(t), nil, c.args...); r.Code != c.code || !strings.Contains(r.Stderr, c.says) {
			t.Errorf("%s: %v; want exit %d", name, r, c.code)
		}
	}

	// A fork of the current state knows both.
	closed(t, "second")
	e2e.OK(t, "session", "fork", "source", "--host", "local", "--id", "second")
	if v := e2e.Turn(t, "second", "what was first"); !strings.Contains(v.FinalText, "the first words") {
		t.Errorf("the second fork says %q", v.FinalText)
	}
	if _, err := os.Stat(filepath.Join(workDir(t, "second"), "late.txt")); err != nil {
		t.Errorf("the second fork has not all files: %v", err)
	}
}

// A parked session holds nothing, and the next message brings it back as it
// was.
func TestASessionParksAndComesBack(t *testing.T) {
	e2e.Session(t, "sleeper")
	e2e.Turn(t, "sleeper", "the first words")
	work := filepath.Join(e2e.Root, "sessions", "sleeper", "work")
	if err := os.WriteFile(filepath.Join(work, "kept.txt"), []byte("kept"), 0o640); err != nil {
		t.Fatal(err)
	}
	var parked protocol.SessionView
	if err := e2e.Lab.JSON(e2e.Within(t), &parked, "session", "park", "sleeper"); err != nil {
		t.Fatal(err)
	}
	if parked.State != protocol.Parked || parked.Process != nil && parked.Process.Alive || parked.Warm == nil || parked.Warm.Host != "web-1" ||
		parked.Snapshot == nil || parked.Snapshot.ID == "" {
		t.Errorf("parked as %+v", parked)
	}
	if left := lab.Below(filepath.Join(e2e.Root, "sessions", "sleeper")); len(left) > 0 {
		t.Errorf("processes of a parked session: %v", left)
	}
	if _, err := os.Stat(filepath.Join(e2e.Root, "sessions", "sleeper", "codex-home", "auth.json")); err == nil {
		t.Error("a parked session's credential is on its host")
	}
	var host protocol.HostView
	var seed protocol.SeedView
	if err := e2e.Lab.JSON(e2e.Within(t), &host, "host", "show", "web-1"); err != nil || strings.Contains(strings.Join(host.Holders, " "), "sleeper") {
		t.Errorf("slots of web-1: %v, %v", host.Holders, err)
	}
	if err := e2e.Lab.JSON(e2e.Within(t), &seed, "seed", "show", "team"); err != nil || strings.Contains(strings.Join(seed.HeldBy, " "), "sleeper") {
		t.Errorf("holders of the seed: %v, %v", seed.HeldBy, err)
	}
	if text := e2e.OK(t, "session", "list", "--state", "parked"); !strings.Contains(text, "sleeper") || !strings.Contains(text, "warm on web-1") {
		t.Errorf("the list does not tell:\n%s", text)
	}
	if text := e2e.OK(t, "session", "show", "sleeper"); !strings.Contains(text, "on web-1, where it comes back at once") {
		t.Errorf("the text does not tell:\n%s", text)
	}
	e2e.OK(t, "session", "park", "sleeper") // it is parked already, which is success

	if v := e2e.Turn(t, "sleeper", "what was first"); !strings.Contains(v.FinalText, "The first was: the first words") {
		t.Errorf("after it came back: %q", v.FinalText)
	}
	if v := e2e.Show(t, "sleeper"); v.Host != "web-1" || v.ThreadID != parked.ThreadID || v.Warm != nil {
		t.Errorf("back as %+v", v)
	}
	if data, err := os.ReadFile(filepath.Join(work, "kept.txt")); err != nil || string(data) != "kept" {
		t.Errorf("kept.txt: %q, %v", data, err)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "resume", "sleeper"); r.Code != 6 || !strings.Contains(r.Stderr, "name another host") {
		t.Errorf("resume of one that is idle: %v", r)
	}

	e2e.Send(t, "sleeper", "take your time at gate sleeper")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "sleeper"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"park", "sleeper"}, {"resume", "sleeper", "--host", "local"}} {
		r := e2e.Lab.Ctl(e2e.Within(t), nil, append([]string{"session", "-o", "json"}, args...)...)
		var v struct {
			Error struct{ Kind, Message string }
		}
		if err := json.Unmarshal([]byte(lastLine(r.Stdout)), &v); r.Code != 6 || err != nil || v.Error.Kind != "refused" {
			t.Errorf("%s within a turn: %v", args[0], r)
		}
	}
	e2e.Lab.Model.Release("sleeper")
	e2e.Idle(t, "sleeper")
}

// An idle session moves to another host and back, and stays the same session.
func TestASessionIsMovedAndMovedBack(t *testing.T) {
	e2e.Session(t, "mover")
	e2e.Turn(t, "mover", "the first words")
	thread := e2e.Show(t, "mover").ThreadID
	if err := os.WriteFile(filepath.Join(e2e.Root, "sessions", "mover", "work", "a.txt"), []byte("a"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"local", "web-1"} {
		var v protocol.SessionView
		if err := e2e.Lab.JSON(e2e.Within(t), &v, "session", "resume", "mover", "--host", to); err != nil {
			t.Fatal(err)
		}
		if v.Host != to || v.State != protocol.Idle {
			t.Errorf("resumed on %s as %+v", to, v)
		}
		if turn := e2e.Turn(t, "mover", "what was first"); !strings.Contains(turn.FinalText, "the first words") || e2e.Show(t, "mover").ThreadID != thread {
			t.Errorf("on %s it says %q", to, turn.FinalText)
		}
		if data, err := os.ReadFile(filepath.Join(workDir(t, "mover"), "a.txt")); err != nil || string(data) != "a" {
			t.Errorf("on %s: a.txt is %q, %v", to, data, err)
		}
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "resume", "mover", "--host", "nowhere"); r.Code != 3 || !strings.Contains(r.Stderr, "nowhere") {
		t.Errorf("to a host that there is not: %v", r)
	}
}

// An unused session parks by itself if its owner asked for that.
func TestAnIdleSessionParksByItself(t *testing.T) {
	e2e.Session(t, "drowsy", "--park-after", "2s")
	e2e.Turn(t, "drowsy", "hello")
	e2e.Until(t, "drowsy to be parked", func() (bool, error) { return e2e.Show(t, "drowsy").State == protocol.Parked, nil })
	e2e.OK(t, "session", "resume", "drowsy")
	if v := e2e.Turn(t, "drowsy", "hello again"); v.Status != "completed" {
		t.Errorf("a turn after that: %+v", v)
	}
}
