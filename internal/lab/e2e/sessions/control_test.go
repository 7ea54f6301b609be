package sessions

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func models(t *testing.T, id string) protocol.ModelsView {
	t.Helper()
	var v protocol.ModelsView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "session", "models", id); err != nil {
		t.Fatal(err)
	}
	return v
}

// A model is chosen from codex's list. The choice is effective from the next
// turn on, and survives parking and forking.
func TestAModelIsChosenOfWhatCodexLists(t *testing.T) {
	e2e.Session(t, "chosen")
	e2e.Turn(t, "chosen", "hello")
	v := models(t, "chosen")
	if len(v.Models) < 3 || v.Codex == "" || v.Model == "" || v.Models[0].Efforts == nil {
		t.Fatalf("models %+v", v)
	}
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "set", "chosen", "--model", "no-such-model", "-o", "json")
	if r.Code != 6 || !strings.Contains(r.Stdout, v.Models[0].ID) {
		t.Errorf("an unknown model: %v", r)
	}
	pick := v.Models[len(v.Models)-1]
	e2e.OK(t, "session", "set", "chosen", "--model", pick.ID, "--effort", pick.Efforts[0], "--name", "a fine session")
	e2e.Turn(t, "chosen", "hello again")
	if got := e2e.Lab.Model.Requests(); got[len(got)-1].Model != pick.ID {
		t.Errorf("the model was asked as %q, want %q", got[len(got)-1].Model, pick.ID)
	}
	e2e.OK(t, "session", "park", "chosen")
	next := v.Models[0]
	e2e.OK(t, "session", "set", "chosen", "--model", next.ID)
	e2e.OK(t, "session", "fork", "chosen", "--id", "forked-on")
	defer e2e.OK(t, "session", "close", "forked-on")
	for _, id := range []string{"chosen", "forked-on"} {
		e2e.Turn(t, id, "hello once more")
		if got := e2e.Lab.Model.Requests(); got[len(got)-1].Model != next.ID {
			t.Errorf("%s: the model was asked as %q, want %q", id, got[len(got)-1].Model, next.ID)
		}
	}
	v1, v2 := e2e.Show(t, "chosen"), e2e.Show(t, "forked-on")
	if v1.Name != "a fine session" {
		t.Errorf("session %+v", v1)
	}
	if v2.Usage.Turns != 1 || v2.Usage.Input == 0 || v2.Usage.Input >= v1.Usage.Input {
		t.Errorf("the fork is charged with %+v, what it comes from with %+v", v2.Usage, v1.Usage)
	}
}

func TestACompactionAndAReviewAreTurns(t *testing.T) {
	e2e.Session(t, "acts")
	e2e.Turn(t, "acts", "hello")
	for n, args := range [][]string{{"compact", "acts"}, {"review", "acts", "--instructions", "hello, look at it"}} {
		var v protocol.TurnView
		if err := e2e.Lab.JSON(e2e.Within(t), &v, append([]string{"session"}, args...)...); err != nil {
			t.Fatal(err)
		}
		if v.N != n+2 || v.Status != "completed" || v.Act != args[0] || (v.FinalText != "") != (args[0] == "review") {
			t.Errorf("%s: turn %+v", args[0], v)
		}
	}
	if text := e2e.OK(t, "transcript", "acts"); !strings.Contains(text, "compacted") {
		t.Errorf("the compaction is not in the transcript: %s", text)
	}
}

func TestAQueuedMessageIsTakenBackAndASteerNamesItsTurn(t *testing.T) {
	e2e.Session(t, "course")
	first := e2e.Send(t, "course", "take your time at gate course0")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "course0"); err != nil {
		t.Fatal(err)
	}
	second := e2e.Send(t, "course", "hello")
	if q := e2e.Show(t, "course").Queued; len(q) != 1 || q[0].ID != second.MessageID || q[0].N != 2 {
		t.Errorf("the queue is %+v", q)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "steer", "course", "faster", "--turn", "2"); r.Code != 6 || !strings.Contains(r.Stderr, "turn 1") {
		t.Errorf("a steer of another turn: %v", r)
	}
	// The model may get the message at once, so the turn must last until the
	// gate opens.
	e2e.OK(t, "session", "steer", "course", "faster, but take your time at gate course0", "--turn", "1")
	e2e.OK(t, "session", "unsend", "course", second.MessageID)
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "unsend", "course", first.MessageID); r.Code != 6 {
		t.Errorf("one that has begun is taken back: %v", r)
	}
	e2e.Lab.Model.Release("course0")
	e2e.Idle(t, "course")
	if v := e2e.Turn(t, "course", "hello"); v.N != 3 {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestAnArchivedSessionIsNotListedAndComesBack(t *testing.T) {
	e2e.Session(t, "put-away")
	e2e.Turn(t, "put-away", "hello")
	e2e.OK(t, "session", "archive", "put-away")
	e2e.Until(t, "lists to leave it out", func() (bool, error) {
		return !strings.Contains(e2e.OK(t, "session", "list"), "put-away"), nil
	})
	if all := e2e.OK(t, "session", "list", "--archived"); !strings.Contains(all, "put-away") || !strings.Contains(all, "archived") {
		t.Errorf("not among the archived: %s", all)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "send", "put-away", "hello"); r.Code != 6 || !strings.Contains(r.Stderr, "unarchive") {
		t.Errorf("a message to it: %v", r)
	}
	e2e.OK(t, "session", "unarchive", "put-away")
	if v := e2e.Turn(t, "put-away", "hello again"); v.N != 2 || v.Status != "completed" {
		t.Errorf("turn %+v", v)
	}
	if !strings.Contains(e2e.OK(t, "session", "list"), "put-away") {
		t.Error("it is not listed again")
	}
}
