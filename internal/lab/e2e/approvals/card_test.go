package approvals

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestAFileChangeIsAcceptedByOneKeyAfterItsDiff: the person sees the diff in its colours
// before the question, reads the digest by d, and accepts with y alone.
func TestAFileChangeIsAcceptedByOneKeyAfterItsDiff(t *testing.T) {
	id := "onekey"
	target := filepath.Join(e2e.Lab.Dir, "notes of onekey.txt")
	path := strings.ReplaceAll(target, " ", "-")
	e2e.Session(t, id)
	w := e2e.Tmux(t, 100, 30, "session", "send", id, "you need a file at "+path)
	w.Sees("? codex asks to change a file · "+id+".1", "outside the work folder", "+made by codex", "y accept", "d digest and ids")
	if screen := w.Colours(); !strings.Contains(screen, "\x1b[32m  +made by codex") {
		t.Errorf("the diff has no colour:\n%q", screen)
	}
	w.Presses("d")
	ap := e2e.Open(t, id, 1)[0]
	w.Sees(ap.Digest, "what is shown gives it")
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is there before it was accepted")
	}
	w.Presses("y")
	if code := w.Ends(); code != 0 {
		t.Errorf("ctl exits with %d:\n%s", code, w.All())
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "made by codex\n" {
		t.Errorf("the file is %q (%v)", text, err)
	}
	if screen := w.All(); !strings.Contains(screen, "The file was answered with") || strings.Contains(screen, "then Enter") {
		t.Errorf("on the screen is\n%s", screen)
	}
}

// TestACommandIsAskedWithoutItsShell, in lines where the screen is read aloud: then a line
// is typed, and nothing has a colour.
func TestACommandIsAskedWithoutItsShell(t *testing.T) {
	id := "aloud"
	e2e.Session(t, id)
	w := e2e.TmuxWith(t, 120, 30, []string{"FAIRLEAD_ACCESSIBLE=1"}, "session", "send", id, "you need a command")
	w.Sees("$ printf 'it ran", "  ' > ran.txt; cat ran.txt", "(run by /bin/bash -lc; d shows the whole command)", "on web-1, sandbox workspace-write",
		`claims   "to see it run" (the model's words, not checked)`, "then Enter >")
	w.Types("x")
	w.Presses("Enter")
	w.Sees("why? It goes on record")
	w.Types("not like this")
	w.Presses("Enter")
	if code := w.Ends(); code != 0 {
		t.Errorf("ctl exits with %d:\n%s", code, w.All())
	}
	if screen := w.Colours(); strings.Contains(screen, "\x1b[3") {
		t.Errorf("there are colours:\n%q", screen)
	}
	var reason string
	for _, e := range e2e.Transcript(t, id) {
		if e.Type == "decision" {
			reason = e.Data["reason"]
		}
	}
	if reason != "not like this" {
		t.Errorf("the reason on record is %q", reason)
	}
}
