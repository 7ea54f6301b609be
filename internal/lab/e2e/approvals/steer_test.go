package approvals

import (
	"encoding/json"
	"fmt"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// steered is the output of `ctl session steer`.
type steered struct {
	N     int    `json:"n"`
	ID    string `json:"message_id"`
	State string `json:"state"`
	Turn  int    `json:"turn"`
}

// Whether a message still gets into a turn that is about to end is a race. ctl
// must report what the session recorded.
func TestASteeredTurnAndOneThatWasOverAreToldApart(t *testing.T) {
	e2e.Session(t, "steered")
	e2e.Send(t, "steered", "take your time at gate steered0")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "steered0"); err != nil {
		t.Fatal(err)
	}
	var first steered
	if err := e2e.Lab.JSON(e2e.Within(t), &first, "session", "steer", "steered", "hello in between"); err != nil {
		t.Fatal(err)
	}
	if first.State != "acknowledged" || first.Turn != 1 || first.N != 1 {
		t.Errorf("codex speaks, and the message is %+v", first)
	}
	e2e.Lab.Model.Release("steered0")
	e2e.Idle(t, "steered")

	for i := 1; i <= 3; i++ {
		gate := fmt.Sprint("steered", i)
		acc := e2e.Send(t, "steered", "take your time at gate "+gate)
		if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), gate); err != nil {
			t.Fatal(err)
		}
		e2e.Lab.Model.Release(gate)
		r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "steer", "steered", "hello, if there is time", "-o", "json")
		e2e.Idle(t, "steered")
		if r.Code == 6 {
			continue // the turn had ended before
		}
		var said steered
		if err := json.Unmarshal([]byte(r.Stdout), &said); err != nil || r.Code != 0 {
			t.Fatalf("%v: %v", r, err)
		}
		var on *protocol.MessageView
		for _, m := range e2e.Show(t, "steered").Messages {
			if m.ID == said.ID {
				on = &m
			}
		}
		late := said.Turn > acc.N
		if on == nil || on.State != "acknowledged" || on.Turn != said.Turn || said.N != said.Turn || !late && said.State != "acknowledged" {
			t.Errorf("ctl says %+v of a message to turn %d, and on record is %+v", said, acc.N, on)
		}
	}
}
