package e2e

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/workflows"
)

func models(t *testing.T, id string) workflows.ModelsView {
	t.Helper()
	var v workflows.ModelsView
	if err := shared.JSON(within(t), &v, "session", "models", id); err != nil {
		t.Fatal(err)
	}
	return v
}

// A model is chosen of what codex lists, holds from the next turn on, and goes
// along when the session parks and when it is forked.
func TestAModelIsChosenOfWhatCodexLists(t *testing.T) {
	session(t, "chosen")
	turn(t, "chosen", "hello")
	v := models(t, "chosen")
	if len(v.Models) < 3 || v.Codex == "" || v.Model == "" || v.Models[0].Efforts == nil {
		t.Fatalf("models %+v", v)
	}
	r := shared.Ctl(within(t), nil, "session", "set", "chosen", "--model", "no-such-model", "-o", "json")
	if r.Code != 6 || !strings.Contains(r.Stdout, v.Models[0].ID) {
		t.Errorf("an unknown model: %v", r)
	}
	pick := v.Models[len(v.Models)-1]
	ok(t, "session", "set", "chosen", "--model", pick.ID, "--effort", pick.Efforts[0], "--name", "a fine session")
	turn(t, "chosen", "hello again")
	if got := shared.Model.Requests(); got[len(got)-1].Model != pick.ID {
		t.Errorf("the model was asked as %q, want %q", got[len(got)-1].Model, pick.ID)
	}
	ok(t, "session", "park", "chosen")
	next := v.Models[0]
	ok(t, "session", "set", "chosen", "--model", next.ID)
	ok(t, "session", "fork", "chosen", "--id", "forked-on")
	defer ok(t, "session", "close", "forked-on")
	for _, id := range []string{"chosen", "forked-on"} {
		turn(t, id, "hello once more")
		if got := shared.Model.Requests(); got[len(got)-1].Model != next.ID {
			t.Errorf("%s: the model was asked as %q, want %q", id, got[len(got)-1].Model, next.ID)
		}
	}
	v1, v2 := show(t, "chosen"), show(t, "forked-on")
	if v1.Name != "a fine session" {
		t.Errorf("session %+v", v1)
	}
	if v2.Usage.Turns != 1 || v2.Usage.Input == 0 || v2.Usage.Input >= v1.Usage.Input {
		t.Errorf("the fork is charged with %+v, what it comes from with %+v", v2.Usage, v1.Usage)
	}
}

func TestACompactionAndAReviewAreTurns(t *testing.T) {
	session(t, "acts")
	turn(t, "acts", "hello")
	for n, args := range [][]string{{"compact", "acts"}, {"review", "acts", "--instructions", "hello, look at it"}} {
		var v workflows.TurnView
		if err := shared.JSON(within(t), &v, append([]string{"session"}, args...)...); err != nil {
			t.Fatal(err)
		}
		if v.N != n+2 || v.Status != "completed" || v.Act != args[0] || (v.FinalText != "") != (args[0] == "review") {
			t.Errorf("%s: turn %+v", args[0], v)
		}
	}
	if text := ok(t, "transcript", "acts"); !strings.Contains(text, "compacted") {
		t.Errorf("the compaction is not in the transcript: %s", text)
	}
}

func TestAQueuedMessageIsTakenBackAndASteerNamesItsTurn(t *testing.T) {
	session(t, "course")
	first := send(t, "course", "take your time at gate course0")
	if _, err := shared.Model.AwaitWaiting(within(t), "course0"); err != nil {
		t.Fatal(err)
	}
	second := send(t, "course", "hello")
	if q := show(t, "course").Queued; len(q) != 1 || q[0].ID != second.MessageID || q[0].N != 2 {
		t.Errorf("the queue is %+v", q)
	}
	if r := shared.Ctl(within(t), nil, "session", "steer", "course", "faster", "--turn", "2"); r.Code != 6 || !strings.Contains(r.Stderr, "turn 1") {
		t.Errorf("a steer of another turn: %v", r)
	}
	ok(t, "session", "steer", "course", "hello, faster", "--turn", "1")
	ok(t, "session", "unsend", "course", second.MessageID)
	if r := shared.Ctl(within(t), nil, "session", "unsend", "course", first.MessageID); r.Code != 6 {
		t.Errorf("one that has begun is taken back: %v", r)
	}
	shared.Model.Release("course0")
	idle(t, "course")
	if v := turn(t, "course", "hello"); v.N != 3 {
		t.Errorf("the next turn is %+v", v)
	}
}

func TestAnArchivedSessionIsNotListedAndComesBack(t *testing.T) {
	session(t, "put-away")
	turn(t, "put-away", "hello")
	ok(t, "session", "archive", "put-away")
	until(t, "lists to leave it out", func() (bool, error) {
		return !strings.Contains(ok(t, "session", "list"), "put-away"), nil
	})
	if all := ok(t, "session", "list", "--archived"); !strings.Contains(all, "put-away") || !strings.Contains(all, "archived") {
		t.Errorf("not among the archived: %s", all)
	}
	if r := shared.Ctl(within(t), nil, "session", "send", "put-away", "hello"); r.Code != 6 || !strings.Contains(r.Stderr, "unarchive") {
		t.Errorf("a message to it: %v", r)
	}
	ok(t, "session", "unarchive", "put-away")
	if v := turn(t, "put-away", "hello again"); v.N != 2 || v.Status != "completed" {
		t.Errorf("turn %+v", v)
	}
	if !strings.Contains(ok(t, "session", "list"), "put-away") {
		t.Error("it is not listed again")
	}
}
