package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A stage runs a machine by hand: lines in, lines out, and a clock that the test
// sets.
type stage struct {
	t    *testing.T
	m    *machine
	sink *keeper
	at   int64
	said []string
	past []wire.Line // all lines that the machine got
}

const (
	ourThread = "thread-1"
	ourTurn   = "turn-1"
)

// opened is the state of a session in mid-conversation, at offset 1000.
func opened() PumpState {
	return PumpState{
		Cursor: protocol.Cursor{Incarnation: 3, Offset: 1000}, Rewind: 1000, Opened: 3,
		ThreadID: ourThread, Turn: 4, Seq: 10, AtMS: 1000,
	}
}

func running() PumpState {
	s := opened()
	s.TurnID = ourTurn
	return s
}

func perform(t *testing.T, in PumpInput, opt Options, backlog ...string) *stage {
	t.Helper()
	if in.Prefix == "" {
		in.Prefix = "g1.p9"
	}
	size := in.State.Rewind
	for _, l := range backlog {
		size += int64(len(l)) + 1
	}
	k := newKeeper()
	m, err := newMachine(in, k, opt, size)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, m: m, sink: k, at: in.State.Rewind}
	m.atStart()
	s.hear(backlog...)
	return s
}

func (s *stage) hear(lines ...string) {
	s.t.Helper()
	for _, l := range lines {
		split := wire.NewSplitter(s.at, s.m.lim.Line)
		split.Feed([]byte(l+"\n"), func(l wire.Line) { s.past = append(s.past, l); s.m.read(l, s.m.now) })
		s.at += int64(len(l)) + 1
	}
	s.collect()
}

// since returns the lines of the journal from that offset on.
func (s *stage) since(offset int64) (lines []string) {
	for _, l := range s.past {
		if l.Offset >= offset {
			lines = append(lines, string(l.Raw))
		}
	}
	return lines
}

func (s *stage) collect() {
	for _, l := range s.m.out {
		s.said = append(s.said, strings.TrimSuffix(string(l), "\n"))
	}
	s.m.out = nil
}

// wait lets time pass, with a tick whenever the machine needs one.
func (s *stage) wait(d time.Duration) {
	end := s.m.now + d
	for s.m.result == nil {
		at := min(s.m.wake(), end)
		s.m.tick(at)
		s.collect()
		if at == end {
			return
		}
	}
}

func (s *stage) result(want PumpReason) PumpResult {
	s.t.Helper()
	if s.m.err != nil {
		s.t.Fatal(s.m.err)
	}
	if s.m.result == nil {
		s.t.Fatalf("the pump has not returned; want %s", want)
	}
	if s.m.result.Reason != want {
		s.t.Fatalf("the pump returned for %s, want %s (problem %+v)", s.m.result.Reason, want, s.m.result.Problem)
	}
	return *s.m.result
}

func (s *stage) attached() {
	s.t.Helper()
	if s.m.result != nil {
		s.t.Fatalf("the pump returned for %s (problem %+v)", s.m.result.Reason, s.m.result.Problem)
	}
}

// heard checks all lines that were sent to codex.
func (s *stage) heard(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.said, want) {
		s.t.Errorf("said to codex:\n%s\nwant\n%s", strings.Join(s.said, "\n"), strings.Join(want, "\n"))
	}
}

// Lines from codex.

func wireEvent(method, params string) string {
	return fmt.Sprintf(`{"method":%q,"params":{"threadId":%q,"turnId":%q,%s},"emittedAtMs":2000}`, method, ourThread, ourTurn, params)
}

func started(id, kind, more string) string {
	return wireEvent("item/started", fmt.Sprintf(`"item":{"id":%q,"type":%q%s}`, id, kind, more))
}

func completed(id, kind, more string) string {
	return wireEvent("item/completed", fmt.Sprintf(`"item":{"id":%q,"type":%q%s}`, id, kind, more))
}

func turnDone(status, more string) string {
	return wireEvent("turn/completed", fmt.Sprintf(`"turn":{"id":%q,"status":%q%s}`, ourTurn, status, more))
}

func asking(id int, item, command string) string {
	return fmt.Sprintf(`{"method":"item/commandExecution/requestApproval","id":%d,"params":{"threadId":%q,"turnId":%q,"itemId":%q,"startedAtMs":2000,"command":%q,"cwd":"/w","reason":"why"}}`, id, ourThread, ourTurn, item, command)
}

func resolvedLine(id int) string {
	return wireEvent("serverRequest/resolved", fmt.Sprintf(`"requestId":%d`, id))
}

func openRequest(id int, item string) OpenRequest {
	return OpenRequest{RPC: json.RawMessage(fmt.Sprint(id)), Reported: true, Item: item, TurnID: ourTurn, Remembers: true}
}

func decision(id string, rpc int, o protocol.Outcome) Send {
	return Send{ID: id, Kind: SendDecision, RPC: json.RawMessage(fmt.Sprint(rpc)), Incarnation: 3, RequestKind: protocol.KindCommand, Outcome: o}
}
