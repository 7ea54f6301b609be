package approvals

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// TestATurnIsShownWhileItGoesOn: the words and the state stand at the bottom while codex
// answers, also after the window changed its size; in the end the message is there once,
// and nothing of the pane is left.
func TestATurnIsShownWhileItGoesOn(t *testing.T) {
	id := "paned"
	e2e.Session(t, id)
	w := e2e.Tmux(t, 80, 24, "session", "send", id, "take your time at gate paned")
	w.Sees("one two three", "answering · turn 1", "^C leaves, it goes on")
	w.Resize(60, 16)
	w.Sees("one two three", "answering · turn 1")
	w.Resize(100, 30)
	w.Sees("one two three", "^C leaves, it goes on")
	e2e.Lab.Model.Release("paned")
	if code := w.Ends(); code != 0 {
		t.Errorf("ctl exits with %d:\n%s", code, w.All())
	}
	screen := strings.Join(strings.Fields(w.All()), " ") // it may be wrapped
	if n := strings.Count(screen, "one two three four five six seven eight nine ten eleven twelve"); n != 1 || strings.Contains(screen, "it goes on") {
		t.Errorf("the message is there %d times:\n%s", n, screen)
	}
}

// TestOneFollowsWithoutDeciding: whoever follows sees the card of what is asked, with the
// state below it, and ^C leaves the session as it is.
func TestOneFollowsWithoutDeciding(t *testing.T) {
	id := "followed"
	e2e.Session(t, id)
	w := e2e.Tmux(t, 100, 24, "session", "follow", id)
	w.Sees("^C leaves, it goes on")
	e2e.Send(t, id, "you need a command")
	ap := e2e.Open(t, id, 1)[0]
	w.Sees("codex asks to run a command · "+ap.ID, "$ printf 'it ran", "waiting for approval "+ap.ID)
	e2e.OK(t, "approval", "accept", ap.ID)
	w.Sees("The command said: it ran")
	w.Presses("C-c")
	if code := w.Ends(); code != 130 {
		t.Errorf("ctl exits with %d:\n%s", code, w.All())
	}
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Errorf("the session is %+v", v)
	}
}
