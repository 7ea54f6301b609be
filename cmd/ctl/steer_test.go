package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// A told session accepts one steering message and answers each query with the next of its
// prepared views. A query after the last one fails the test.
type told struct {
	sync.Mutex
	looks []protocol.SessionView
	id    string // id of the message
}

func (s *told) view(t *testing.T) func() (protocol.SessionView, error) {
	return func() (protocol.SessionView, error) {
		s.Lock()
		defer s.Unlock()
		if s.id == "" {
			return protocol.SessionView{}, nil // nothing was sent yet
		}
		if len(s.looks) == 0 {
			t.Error("the session was asked again when all was known")
			return protocol.SessionView{}, errors.New("nothing more to tell")
		}
		v := s.looks[0]
		s.looks = s.looks[1:]
		v.Messages = slices.Clone(v.Messages)
		for i := range v.Messages {
			if v.Messages[i].ID == "" {
				v.Messages[i].ID = s.id
			}
		}
		return v, nil
	}
}

func (s *told) take(m protocol.Message) protocol.MessageAccepted {
	s.Lock()
	defer s.Unlock()
	s.id = m.ID
	return protocol.MessageAccepted{Session: "s1", N: 1, MessageID: m.ID}
}

func (s *told) serve(t *testing.T) (address string) {
	t.Helper()
	return serve(t, func(ctx workflow.Context) error {
		return errors.Join(
			workflow.SetUpdateHandler(ctx, protocol.SignalMessage, func(_ workflow.Context, m protocol.Message) (protocol.MessageAccepted, error) {
				return s.take(m), nil
			}),
			workflow.SetQueryHandler(ctx, protocol.QueryState, s.view(t)),
			workflow.SetQueryHandler(ctx, protocol.QueryDetail, func() (protocol.SessionDetail, error) { return protocol.SessionDetail{}, nil }),
			workflow.Await(ctx, func() bool { return false }),
		)
	})
}

func inTurn(n int, status, state string, turn int) protocol.SessionView {
	return protocol.SessionView{ID: "s1", State: protocol.Running, Turn: &protocol.TurnBrief{N: n, Status: status},
		Messages: []protocol.MessageView{{ID: "other", Kind: "message", Turn: 1, State: "acknowledged"}, {Kind: "steer", Turn: turn, State: state}}}
}

// A turn can end before a message reaches it. Then the message becomes a turn of its own,
// and ctl reports what the session recorded.
func TestSteerSaysWhatBecameOfTheMessage(t *testing.T) {
	s := &told{}
	address := s.serve(t)
	atHome(t)
	onItsWay := inTurn(1, "inProgress", "decided", 1)
	for _, c := range []struct {
		looks []protocol.SessionView
		state string
		turn  int
		text  string
		code  int
	}{
		{[]protocol.SessionView{onItsWay, inTurn(1, "inProgress", "sent", 1), inTurn(1, "inProgress", "acknowledged", 1)}, "acknowledged", 1, "s1 turn 1 steered\n", 0},
		{[]protocol.SessionView{onItsWay, inTurn(1, "completed", "queued", 2)}, "queued", 2, "s1 turn 1 ended before the message could steer it: it is queued as turn 2\n", 0},
		{[]protocol.SessionView{onItsWay, inTurn(2, "inProgress", "decided", 2)}, "decided", 2, "s1 turn 1 ended before the message could steer it: it became turn 2\n", 0},
		{[]protocol.SessionView{onItsWay, inTurn(1, "completed", "sent", 1)}, "sent", 1, "s1 turn 1: the message was sent, and codex has not acknowledged it\n", 0},
		{[]protocol.SessionView{inTurn(1, "inProgress", "rejected", 1)}, "", 0, "codex refused the message", core.ExitRefused},
		{[]protocol.SessionView{inTurn(1, "completed", "void", 1)}, "", 0, "the session ended before the message had its turn", core.ExitRefused},
	} {
		for _, output := range []string{"text", "json"} {
			s.Lock()
			s.id, s.looks = "", append([]protocol.SessionView{}, c.looks...)
			s.Unlock()
			var out, errs bytes.Buffer
			code := run([]string{"--address", address, "-o", output, "session", "steer", "s1", "use the other branch"}, strings.NewReader(""), &out, &errs)
			if code != c.code {
				t.Errorf("%s: exit %d, not %d: %s", c.text, code, c.code, errs.String())
			}
			if len(s.looks) > 0 {
				t.Errorf("%s: ctl did not wait for the last %d looks", c.text, len(s.looks))
			}
			switch {
			case c.code != 0:
				if !strings.Contains(errs.String(), c.text) {
					t.Errorf("it says %q, not %q", errs.String(), c.text)
				}
			case output == "text":
				if out.String() != c.text {
					t.Errorf("it says %q, not %q", out.String(), c.text)
				}
			default:
				var v map[string]any
				if err := json.Unmarshal(out.Bytes(), &v); err != nil {
					t.Fatalf("%v: %s", err, out.String())
				}
				if v["state"] != c.state || v["turn"] != float64(c.turn) || v["n"] != float64(c.turn) || v["session"] != "s1" || v["message_id"] != s.id {
					t.Errorf("%s: json is %s", c.text, out.String())
				}
			}
		}
	}
}
