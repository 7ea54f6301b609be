package conn

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestWhoWaitsForASlotHearsWhatMayHelp(t *testing.T) {
	full := waitingText("a slot: host local has all 4 slots in use; nobody waits before it")
	if !strings.HasPrefix(full, "waiting for a slot: host local has all 4 slots in use; nobody waits before it (") || !strings.Contains(full, "ctl session park") {
		t.Errorf("told %s", full)
	}
	if other := waitingText("a slot: host web-1 is cordoned; 1 waits before it"); other != "waiting for a slot: host web-1 is cordoned; 1 waits before it" {
		t.Errorf("told %s", other)
	}
}

// A user who waits for a turn is told once what it waits for, and again when that changes.
func TestATurnThatWaitsSaysWhatFor(t *testing.T) {
	running := &protocol.TurnBrief{N: 4, Status: "inProgress"}
	turns := []protocol.TurnView{{N: 4, Status: "inProgress"}, {N: 5, Status: "queued", MessageID: "m5"}}
	asks := []protocol.Approval{{ID: "s1.2", State: protocol.ApprovalAcknowledged}, {ID: "s1.3", State: protocol.ApprovalOpen}}
	mine := protocol.MessageAccepted{Session: "s1", N: 5, MessageID: "m5"}
	var told WaitNews
	for _, c := range []struct {
		name string
		d    protocol.SessionDetail
		acc  protocol.MessageAccepted
		want string
	}{
		{"a line for a slot", protocol.SessionDetail{View: protocol.SessionView{State: protocol.Queued, Waits: "a slot: full"}}, mine, "waiting for a slot: full"},
		{"the same", protocol.SessionDetail{View: protocol.SessionView{State: protocol.Queued, Waits: "a slot: full"}}, mine, ""},
		{"but a moment", protocol.SessionDetail{View: protocol.SessionView{State: protocol.Queued, Waits: "a host"}}, mine, ""},
		{"a turn before it", protocol.SessionDetail{View: protocol.SessionView{State: protocol.Running, Turn: running}, Turns: turns}, mine, "queued behind turn 4"},
		{"that asks", protocol.SessionDetail{View: protocol.SessionView{State: protocol.Waiting, Turn: running}, Turns: turns, Approvals: asks}, mine,
			"queued behind turn 4, which waits for approval s1.3 (`ctl approval show s1.3`)"},
		{"and still asks", protocol.SessionDetail{View: protocol.SessionView{State: protocol.Waiting, Turn: running}, Turns: turns, Approvals: asks}, mine, ""},
		{"its own turn asks", protocol.SessionDetail{View: protocol.SessionView{State: protocol.Waiting, Turn: running}, Turns: turns, Approvals: asks},
			protocol.MessageAccepted{Session: "s1", N: 4, MessageID: "m4"}, "turn 4 waits for approval s1.3 (`ctl approval show s1.3`)"},
		{"it runs", protocol.SessionDetail{View: protocol.SessionView{State: protocol.Running, Turn: running}, Turns: turns}, protocol.MessageAccepted{Session: "s1", N: 4, MessageID: "m4"}, ""},
	} {
		if got := told.News(c.d, c.acc); got != c.want {
			t.Errorf("%s: told %q, want %q", c.name, got, c.want)
		}
	}
}

// awaited is a client whose session waits at first.
type awaited struct {
	client.Client
	views []protocol.SessionView
}

func (a *awaited) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	v := a.views[0]
	if len(a.views) > 1 {
		a.views = a.views[1:]
	}
	return viewValue{v}, nil
}

type viewValue struct{ v protocol.SessionView }

func (viewValue) HasValue() bool { return true }
func (e viewValue) Get(to any) error {
	data, err := json.Marshal(e.v)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

func TestWhoAwaitsASessionIsToldWhatItWaitsFor(t *testing.T) {
	var told bytes.Buffer
	a := &core.App{Err: &told}
	waits := protocol.SessionView{ID: "s1", State: protocol.Resuming, Waits: "another attempt: web-1 is down"}
	tt := With(a, &awaited{views: []protocol.SessionView{waits, waits, {ID: "s1", State: protocol.Idle}}}, nil)
	v, err := AwaitSession(t.Context(), a, tt, "s1", "resume session s1", time.Minute, func(v protocol.SessionView) (bool, error) {
		return v.State == protocol.Idle, nil
	})
	if err != nil || v.State != protocol.Idle {
		t.Errorf("it is %s, %v", v.State, err)
	}
	if want := "waiting for another attempt: web-1 is down\n"; told.String() != want {
		t.Errorf("told %q, want %q", told.String(), want)
	}
}
