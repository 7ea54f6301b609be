package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"fairlead.dev/fairlead/workflows"
)

// steered is what `ctl session steer` says.
type steered struct {
	N     int    `json:"n"`
	ID    string `json:"message_id"`
	State string `json:"state"`
	Turn  int    `json:"turn"`
}

// Whether a message still gets into a turn that is about to end is a race: what
// ctl says of it is what the session has on record.
func TestASteeredTurnAndOneThatWasOverAreToldApart(t *testing.T) {
	session(t, "steered")
	send(t, "steered", "take your time at gate steered0")
	if _, err := shared.Model.AwaitWaiting(within(t), "steered0"); err != nil {
		t.Fatal(err)
	}
	var first steered
	if err := shared.JSON(within(t), &first, "session", "steer", "steered", "hello in between"); err != nil {
		t.Fatal(err)
	}
	if first.State != "acknowledged" || first.Turn != 1 || first.N != 1 {
		t.Errorf("codex speaks, and the message is %+v", first)
	}
	shared.Model.Release("steered0")
	idle(t, "steered")

	for i := 1; i <= 3; i++ {
		gate := fmt.Sprint("steered", i)
		acc := send(t, "steered", "take your time at gate "+gate)
		if _, err := shared.Model.AwaitWaiting(within(t), gate); err != nil {
			t.Fatal(err)
		}
		shared.Model.Release(gate)
		r := shared.Ctl(within(t), nil, "session", "steer", "steered", "hello, if there is time", "-o", "json")
		idle(t, "steered")
		if r.Code == 6 {
			continue // the turn had ended before
		}
		var said steered
		if err := json.Unmarshal([]byte(r.Stdout), &said); err != nil || r.Code != 0 {
			t.Fatalf("%v: %v", r, err)
		}
		var on *workflows.MessageView
		for _, m := range show(t, "steered").Messages {
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
