package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A stage runs a machine by hand: lines in, lines out, time as told.
type stage struct {
	t    *testing.T
	m    *machine
	sink *keeper
	at   int64
	said []string
}

const (
	ourThread = "thread-1"
	ourTurn   = "turn-1"
)

// opened is the state of a session in mid-conversation, at offset 1000.
func opened() PumpState {
	return PumpState{
		Cursor: Cursor{Incarnation: 3, Offset: 1000}, Rewind: 1000, Opened: 3,
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

// hear feeds lines of codex's.
func (s *stage) hear(lines ...string) {
	s.t.Helper()
	for _, l := range lines {
		split := newSplitter(s.at, s.m.lim.Line)
		split.feed([]byte(l+"\n"), func(l Line) { s.m.read(l, s.m.now) })
		s.at += int64(len(l)) + 1
	}
	s.collect()
}

func (s *stage) collect() {
	for _, l := range s.m.out {
		s.said = append(s.said, strings.TrimSuffix(string(l), "\n"))
	}
	s.m.out = nil
}

// wait lets time pass, tick by tick as the machine wants them.
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

// result is why the pump returned.
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

// heard checks all that was said to codex.
func (s *stage) heard(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.said, want) {
		s.t.Errorf("said to codex:\n%s\nwant\n%s", strings.Join(s.said, "\n"), strings.Join(want, "\n"))
	}
}

// Lines of codex's.

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

func asks(id int, item, command string) string {
	return fmt.Sprintf(`{"method":"item/commandExecution/requestApproval","id":%d,"params":{"threadId":%q,"turnId":%q,"itemId":%q,"startedAtMs":2000,"command":%q,"cwd":"/w","reason":"why"}}`, id, ourThread, ourTurn, item, command)
}

func resolvedLine(id int) string {
	return wireEvent("serverRequest/resolved", fmt.Sprintf(`"requestId":%d`, id))
}

func openRequest(id int, item string) OpenRequest {
	return OpenRequest{RPC: json.RawMessage(fmt.Sprint(id)), Reported: true, Item: item, TurnID: ourTurn}
}

func decision(id string, rpc int, o Outcome) Send {
	return Send{ID: id, Kind: SendDecision, RPC: json.RawMessage(fmt.Sprint(rpc)), Incarnation: 3, RequestKind: KindCommand, Outcome: o}
}

func TestNothingIsSentThatTheJournalShowsAnswered(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{Attempt: 2},
		`{"id":"send/m-5/0","result":{"turn":{"id":"turn-1","status":"inProgress"}}}`,
		wireEvent("turn/started", `"turn":{"id":"turn-1"}`))
	s.attached()
	s.heard()
	s.hear(turnDone("completed", ""))
	if r := s.result(TurnEnded); r.Turn.N != 5 || delivered(t, r, "m-5") != Acknowledged {
		t.Errorf("%+v", r)
	}
}

func TestEchoOfAMessageAcknowledgesIt(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{Attempt: 2}, started("u-1", "userMessage", `,"clientId":"m-5"`))
	s.heard()
	if s.m.st.TurnID != ourTurn || s.m.st.Turn != 5 {
		t.Errorf("state %+v", s.m.st)
	}
}

func TestBarrierDecidesWhetherAMessageWasDelivered(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	barrier := `{"id":"g1.p9.barrier-n.0","method":"thread/read","params":{"threadId":"thread-1","includeTurns":false}}`
	for name, evidence := range map[string]string{
		"not delivered": "", "delivered": `{"id":"send/m-5/0","result":{"turn":{"id":"turn-1"}}}`,
	} {
		s := perform(t, in, Options{Attempt: 2, Nonce: "n"})
		s.heard(barrier)
		if evidence != "" {
			s.hear(evidence)
		}
		s.hear(`{"id":"g1.p9.barrier-n.0","result":{}}`)
		want := []string{barrier}
		if evidence == "" {
			want = append(want, `{"id":"send/m-5/0","method":"turn/start","params":{"threadId":"thread-1","input":[{"type":"text","text":"hello"}],"clientUserMessageId":"m-5"}}`)
		}
		if s.heard(want...); t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestNothingIsSentBeforeTheBacklogIsRead(t *testing.T) {
	in := PumpInput{State: running(), Prefix: "p", Sends: []Send{{ID: "i", Kind: SendInterrupt}}}
	m, err := newMachine(in, newKeeper(), Options{}, 1500)
	if err != nil {
		t.Fatal(err)
	}
	m.atStart()
	m.tick(time.Second)
	m.cancel(time.Second)
	if len(m.out) > 0 || m.result != nil {
		t.Errorf("said %q, returned %+v while the journal was not read", m.out, m.result)
	}
	m.caughtUp(2 * time.Second)
	if m.result == nil || m.result.Reason != PumpCancelled || m.result.Deliveries[0].State != Decided {
		t.Errorf("result %+v", m.result)
	}
}

func TestMessageDuringATurnIsRejectedAndNotSteered(t *testing.T) {
	s := perform(t, PumpInput{State: running(), Sends: []Send{turn(5, "m-5", "hello")}}, Options{})
	s.heard()
	s.hear(turnDone("completed", ""))
	if r := s.result(TurnEnded); delivered(t, r, "m-5") != Rejected {
		t.Errorf("%+v", r.Deliveries)
	}
}

func TestSteerGoesToTheRunningTurn(t *testing.T) {
	s := perform(t, PumpInput{State: running(), Sends: []Send{{ID: "s-1", Kind: SendSteer, Text: "faster"}}}, Options{})
	s.heard(`{"id":"send/s-1/0","method":"turn/steer","params":{"threadId":"thread-1","expectedTurnId":"turn-1","input":[{"type":"text","text":"faster"}],"clientUserMessageId":"s-1"}}`)
	s.hear(`{"id":"send/s-1/0","result":{"turnId":"turn-1"}}`, turnDone("completed", ""))
	if r := s.result(TurnEnded); delivered(t, r, "s-1") != Acknowledged {
		t.Errorf("%+v", r.Deliveries)
	}
	s = perform(t, PumpInput{State: opened(), Sends: []Send{{ID: "s-1", Kind: SendSteer, Text: "faster"}}}, Options{})
	if r := s.result(Bound); delivered(t, r, "s-1") != Void {
		t.Errorf("without a turn: %+v", r.Deliveries)
	}
}

func TestDecisionsHaveCodexsShapes(t *testing.T) {
	for want, d := range map[string]Send{
		`"accept"`:           {Outcome: Accept},
		`"acceptForSession"`: {Outcome: Accept, ForSession: true},
		`"decline"`:          {Outcome: Decline},
		`"cancel"`:           {Outcome: Cancel},
	} {
		st := running()
		st.Open = []OpenRequest{openRequest(0, "c")}
		send := decision("d", 0, d.Outcome)
		send.ForSession = d.ForSession
		s := perform(t, PumpInput{State: st, Sends: []Send{send}}, Options{})
		s.heard(`{"id":0,"result":{"decision":` + want + `}}`)
		s.hear(resolvedLine(0), turnDone("completed", ""))
		if r := s.result(TurnEnded); delivered(t, r, "d") != Acknowledged || len(r.Resolved) != 0 {
			t.Errorf("%s: %+v", want, r)
		}
	}
}

func TestDecisionForWhatIsGoneIsVoid(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(1, "c")}
	old := decision("old", 1, Accept)
	old.Incarnation = 2
	for name, c := range map[string]struct {
		send    Send
		backlog []string
	}{
		"earlier process": {send: old},
		"never asked":     {send: decision("d", 7, Accept)},
		"taken back":      {send: decision("d", 1, Accept), backlog: []string{resolvedLine(1)}},
	} {
		s := perform(t, PumpInput{State: st, Sends: []Send{c.send}}, Options{}, c.backlog...)
		s.heard()
		s.m.cancel(0) // where the pump stays for the turn
		if got := delivered(t, *s.m.result, c.send.ID); got != Void {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestWithdrawnRequestIsReported(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(1, "c"), openRequest(2, "d")}
	s := perform(t, PumpInput{State: st}, Options{}, resolvedLine(1))
	r := s.result(RequestsOpen)
	if len(r.Resolved) != 1 || string(r.Resolved[0]) != "1" || len(r.State.Open) != 1 || len(r.Requests) != 0 {
		t.Errorf("%+v", r)
	}
	// and the end of the turn withdraws the rest
	s = perform(t, PumpInput{State: r.State}, Options{}, turnDone("interrupted", ""))
	if r := s.result(TurnEnded); len(r.Resolved) != 1 || string(r.Resolved[0]) != "2" || len(r.State.Open) != 0 {
		t.Errorf("at the end: %+v", r)
	}
}

func TestParallelRequestsAreGathered(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("c-1", "commandExecution", ""), asks(0, "c-1", "one"))
	s.wait(80 * time.Millisecond)
	s.hear(started("c-2", "commandExecution", ""), asks(1, "c-2", "two"))
	s.wait(80 * time.Millisecond)
	s.attached()
	s.wait(40 * time.Millisecond)
	r := s.result(RequestsOpen)
	if len(r.Requests) != 2 || r.Busy || r.Requests[0].Command != "one" || r.Requests[1].CWD != "/w" {
		t.Errorf("%+v", r)
	}
	for _, o := range r.State.Open {
		if !o.Reported {
			t.Errorf("open %+v", o)
		}
	}
}

func TestRequestIsReportedThoughTheStreamNeverRests(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("c-0", "commandExecution", ""), started("c-1", "commandExecution", ""), asks(0, "c-1", "one"))
	for i := 0; s.m.result == nil; i++ {
		if i > 100 {
			t.Fatal("a chatty command hides the request")
		}
		s.wait(50 * time.Millisecond)
		if s.m.result == nil {
			s.hear(wireEvent("item/commandExecution/outputDelta", `"itemId":"c-0","delta":"x"`))
		}
	}
	if r := s.result(RequestsOpen); !r.Busy || len(r.Requests) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestPumpStaysForItemsBesideKnownRequests(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(0, "c-0")}
	st.Items = []OpenItem{{ID: "c-0", Type: "commandExecution", Turn: 4}, {ID: "c-1", Type: "commandExecution", Turn: 4}}
	s := perform(t, PumpInput{State: st}, Options{})
	for range 5 {
		s.wait(time.Second)
		s.attached()
		s.hear(wireEvent("item/commandExecution/outputDelta", `"itemId":"c-1","delta":"x"`))
	}
	s.hear(completed("c-1", "commandExecution", ""))
	if r := s.result(RequestsOpen); r.Busy {
		t.Error("busy with nothing")
	}
	// one that says nothing is not waited for, nor one in the background
	s = perform(t, PumpInput{State: st}, Options{})
	s.wait(3 * time.Second)
	if r := s.result(RequestsOpen); !r.Busy {
		t.Error("not busy though a command runs")
	}
	st.Items[1].Background = true
	s = perform(t, PumpInput{State: st}, Options{})
	s.result(RequestsOpen)
}

func TestItemsAreInTheBackgroundOnceTheModelWentOn(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("c-1", "commandExecution", ""),
		wireEvent("thread/tokenUsage/updated", `"tokenUsage":{"total":{"inputTokens":10,"outputTokens":2},"last":{"inputTokens":10,"outputTokens":2}}`),
		started("c-2", "commandExecution", ""), asks(0, "c-2", "two"))
	s.wait(time.Second)
	r := s.result(RequestsOpen)
	s = perform(t, PumpInput{State: r.State}, Options{})
	s.result(RequestsOpen)
	// the command outlives its turn, and its end is of that turn
	s = perform(t, PumpInput{State: r.State}, Options{}, turnDone("completed", ""))
	r = s.result(TurnEnded)
	s = perform(t, PumpInput{State: r.State, Sends: []Send{turn(5, "m-5", "next")}}, Options{})
	s.hear(`{"id":"send/m-5/0","result":{"turn":{"id":"turn-2"}}}`, completed("c-1", "commandExecution", `,"exitCode":3,"command":"x"`))
	last := s.sink.entries[len(s.sink.entries)-1]
	if last.Turn != 4 || *last.ExitCode != 3 || s.m.st.TurnItems != 0 {
		t.Errorf("late entry %+v; state %+v", last, s.m.st)
	}
}

func TestOverloadIsRetriedAndThenGivenUp(t *testing.T) {
	overloaded := func(n int) string {
		return fmt.Sprintf(`{"id":"send/m-5/%d","error":{"code":-32001,"message":"Server overloaded; retry later."}}`, n)
	}
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{})
	s.hear(overloaded(0))
	if len(s.said) != 1 {
		t.Fatalf("retried at once: %q", s.said)
	}
	s.wait(300 * time.Millisecond)
	if len(s.said) != 2 || !strings.Contains(s.said[1], `"send/m-5/1"`) {
		t.Fatalf("said %q", s.said)
	}
	s.hear(`{"id":"send/m-5/1","result":{"turn":{"id":"turn-1"}}}`, turnDone("completed", ""))
	if r := s.result(TurnEnded); delivered(t, r, "m-5") != Acknowledged {
		t.Errorf("%+v", r.Deliveries)
	}

	s = perform(t, in, Options{})
	for n := 0; s.m.result == nil; {
		if len(s.said) > n {
			s.hear(overloaded(n))
			n++
		}
		s.wait(100 * time.Millisecond)
	}
	if n := len(s.said); n < 5 || n > 20 {
		t.Errorf("tried %d times", n)
	}
	if r := s.result(Bound); delivered(t, r, "m-5") != Rejected || r.Problem.Kind != "overloaded" {
		t.Errorf("%+v", r)
	}
}

func TestSilenceIsTimedOut(t *testing.T) {
	fresh := PumpState{Cursor: Cursor{Incarnation: 1}}
	spec := ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}
	initAnswer := `{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`
	for name, c := range map[string]struct {
		in    PumpInput
		lines []string
		after time.Duration
		kind  string
	}{
		"start":     {in: PumpInput{State: fresh, Thread: spec}, after: 60 * time.Second, kind: "start_timeout"},
		"thread":    {in: PumpInput{State: fresh, Thread: spec}, lines: []string{initAnswer}, after: 60 * time.Second, kind: "request_timeout"},
		"message":   {in: PumpInput{State: opened(), Sends: []Send{turn(5, "m", "x")}}, after: 60 * time.Second, kind: "request_timeout"},
		"turn":      {in: PumpInput{State: running(), Limits: Limits{Turn: time.Hour}}, after: time.Hour, kind: "turn_timeout"},
		"interrupt": {in: PumpInput{State: running(), Sends: []Send{{ID: "i", Kind: SendInterrupt}}}, lines: []string{`{"id":"send/i/0","result":{}}`}, after: 60 * time.Second, kind: "request_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			s := perform(t, c.in, Options{})
			s.hear(c.lines...)
			s.wait(c.after - time.Second)
			s.attached()
			s.wait(2 * time.Second)
			r := s.result(TimedOut)
			if r.Problem == nil || r.Problem.Kind != c.kind || r.Problem.Hint == "" {
				t.Errorf("problem %+v", r.Problem)
			}
			for _, d := range r.Deliveries {
				if d.State == Decided {
					t.Errorf("%s was sent and is called %s", d.ID, d.State)
				}
			}
		})
	}
	s := perform(t, PumpInput{State: running(), Limits: Limits{Attach: time.Minute}}, Options{})
	s.wait(time.Minute)
	s.result(Bound)
}

func TestIdleThreadEndsATurnThatNeverSaidSo(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(wireEvent("thread/status/changed", `"status":{"type":"idle"}`))
	s.wait(9 * time.Second)
	s.attached()
	s.wait(2 * time.Second)
	if r := s.result(TurnEnded); r.Turn.Status != "unknown" || r.Turn.Problem == nil {
		t.Errorf("%+v", r.Turn)
	}
	// a turn that goes on is not ended
	s = perform(t, PumpInput{State: running()}, Options{})
	s.hear(wireEvent("thread/status/changed", `"status":{"type":"idle"}`), wireEvent("thread/status/changed", `"status":{"type":"active"}`))
	s.wait(time.Hour)
	s.attached()
}

func TestAbortedTurnIsInterrupted(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(wireEvent("turn/aborted", `"reason":"interrupted"`))
	if r := s.result(TurnEnded); r.Turn.Status != "interrupted" {
		t.Errorf("%+v", r.Turn)
	}
}

func TestEveryOtherRequestIsAnsweredAtOnce(t *testing.T) {
	for method, want := range map[string]string{
		"item/permissions/requestApproval":  `"result":{"permissions":{},"scope":"turn"}`,
		"item/tool/requestUserInput":        `"error":{"code":-32600,`,
		"mcpServer/elicitation/request":     `"result":{"action":"decline"}`,
		"item/tool/call":                    `"success":false`,
		"account/chatgptAuthTokens/refresh": `"error":{`,
		"attestation/generate":              `"error":{`,
		"applyPatchApproval":                `"error":{`,
		"execCommandApproval":               `"error":{`,
		"currentTime/read":                  `"result":{"currentTimeAt":86400}`,
		"nobody/knows":                      `"error":{`,
	} {
		opt := Options{Now: func() time.Time { return time.Unix(86400, 0) }}
		ask := fmt.Sprintf(`{"method":%q,"id":"q","params":{"threadId":"thread-1"}}`, method)
		s := perform(t, PumpInput{State: running()}, opt)
		s.hear(ask)
		if len(s.said) != 1 || !strings.Contains(s.said[0], `{"id":"q",`) || !strings.Contains(s.said[0], want) {
			t.Errorf("%s got %q, want %s", method, s.said, want)
		}
		if entries := len(s.sink.entries); (entries == 1) != (method != "currentTime/read") {
			t.Errorf("%s made %d entries", method, entries)
		}
		s.attached()
		// an earlier attempt has answered it
		s = perform(t, PumpInput{State: running()}, Options{Attempt: 2}, ask, wireEvent("serverRequest/resolved", `"requestId":"q"`))
		s.heard()
	}
}

func TestLongAndStrayLinesAreSurvived(t *testing.T) {
	long := strings.Repeat("x", 300)
	in := PumpInput{State: running(), Limits: Limits{Line: 250}}
	s := perform(t, in, Options{})
	s.hear("what is this", "and this \xff", `{"neither":1}`, "", "again")
	if n := len(s.sink.entries); n != 1 || !strings.Contains(s.sink.entries[0].Text, "what is this") {
		t.Errorf("a run of stray lines made %d entries: %+v", n, s.sink.entries)
	}
	s.hear(completed("a", "agentMessage", `,"text":"fine"`), "stray once more")
	if n := len(s.sink.entries); n != 3 {
		t.Errorf("%d entries", n)
	}
	s.hear(asks(5, "c", long))
	if len(s.said) != 1 || !strings.HasPrefix(s.said[0], `{"id":5,"error":`) {
		t.Errorf("the long request got %q", s.said)
	}
	s.attached()
	s.hear(turnDone("completed", `,"items":["`+long+`"]`))
	r := s.result(TurnEnded)
	if r.Turn.Status != "unknown" || r.Turn.Problem == nil || r.Turn.FinalText != "fine" {
		t.Errorf("%+v", r.Turn)
	}
	if r.State.Cursor.Offset != s.at {
		t.Errorf("cursor %d, want %d", r.State.Cursor.Offset, s.at)
	}
}

func TestCompletionThatRacesTheCancelWins(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(turnDone("completed", ""))
	s.m.cancel(0)
	s.result(TurnEnded)
	s = perform(t, PumpInput{State: running()}, Options{})
	s.m.cancel(0)
	r := s.result(PumpCancelled)
	if r.State.TurnID != ourTurn || r.State.Cursor.Offset != 1000 {
		t.Errorf("%+v", r.State)
	}
}

func TestInterruptWaitsForTheCommandsItEnds(t *testing.T) {
	st := running()
	st.Items = []OpenItem{{ID: "c", Type: "commandExecution", Turn: 4}}
	in := PumpInput{State: st, Sends: []Send{{ID: "i", Kind: SendInterrupt}}}
	s := perform(t, in, Options{})
	s.hear(`{"id":"send/i/0","result":{}}`, turnDone("interrupted", ""))
	s.heard(`{"id":"send/i/0","method":"turn/interrupt","params":{"threadId":"thread-1","turnId":"turn-1"}}`,
		`{"id":"g1.p9.clean.0","method":"thread/backgroundTerminals/clean","params":{"threadId":"thread-1"}}`)
	s.hear(`{"id":"g1.p9.clean.0","result":{}}`)
	s.attached()
	s.hear(completed("c", "commandExecution", `,"status":"failed"`))
	if r := s.result(TurnEnded); r.Turn.Status != "interrupted" || delivered(t, r, "i") != Acknowledged {
		t.Errorf("%+v", r)
	}
	// a command that does not end is not waited for without end
	s = perform(t, in, Options{})
	s.hear(`{"id":"send/i/0","result":{}}`, turnDone("interrupted", ""))
	s.wait(6 * time.Second)
	s.result(TurnEnded)
}

func TestProcessEndLeavesTruthfulDeliveries(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(0, "c"), openRequest(1, "d")}
	opt := Options{Exit: func() (string, string) { return "exit status 137", "some line\nthe end" }}
	s := perform(t, PumpInput{State: st, Sends: []Send{decision("d-0", 0, Accept), {ID: "s-1", Kind: SendSteer, Text: "x"}}}, opt)
	s.m.ended(time.Second)
	r := s.result(ProcessEnded)
	if delivered(t, r, "d-0") != Sent || delivered(t, r, "s-1") != Sent || r.Turn != nil || r.State.TurnID != ourTurn {
		t.Errorf("%+v", r)
	}
	if len(r.State.Open) != 0 || len(r.Resolved) != 2 {
		t.Errorf("requests of a dead process are open: %+v", r)
	}
	if r.Problem.Kind != "process_exit" || !strings.Contains(r.Problem.Message, "the end") {
		t.Errorf("problem %+v", r.Problem)
	}
	s = perform(t, PumpInput{State: opened(), Sends: []Send{turn(5, "m", "x")}}, opt, wireEvent("warning", `"message":"w"`))
	if s.m.ended(0); delivered(t, s.result(ProcessEnded), "m") != Sent {
		t.Error("a message that was written is not called sent")
	}
}

func TestChangesOfAnOpenItemAreReadAgain(t *testing.T) {
	first := started("f", "fileChange", `,"changes":[{"path":"/w/a","kind":{"type":"update","move_path":"/w/b"},"diff":"-x\n+y\n"}]`)
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(first)
	s.m.cancel(0)
	r := s.result(PumpCancelled)
	if r.State.Rewind != 1000 || r.State.Cursor.Offset <= 1000 {
		t.Fatalf("rewind %d, cursor %+v", r.State.Rewind, r.State.Cursor)
	}
	ask := `{"method":"item/fileChange/requestApproval","id":4,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":"f","startedAtMs":3}}`
	s = perform(t, PumpInput{State: r.State}, Options{}, first, ask)
	s.wait(time.Second)
	got := s.result(RequestsOpen).Requests
	if len(got) != 1 || len(got[0].Changes) != 1 || got[0].Changes[0] != (Change{Path: "/w/a -> /w/b", Kind: "update", Diff: "-x\n+y\n"}) {
		t.Errorf("%+v", got)
	}
	if len(s.sink.entries) != 1 {
		t.Errorf("what was folded before made entries again: %+v", s.sink.entries)
	}
}

func TestDeltasTellTheirPlaceAcrossPumps(t *testing.T) {
	delta := func(text string) string {
		return wireEvent("item/agentMessage/delta", `"itemId":"a","delta":"`+text+`"`)
	}
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("a", "agentMessage", ""), delta("größer "), delta("two "))
	s.m.cancel(0)
	s2 := perform(t, PumpInput{State: s.result(PumpCancelled).State}, Options{})
	s2.hear(delta("three"))
	all := append(s.sink.deltas, s2.sink.deltas...)
	want := []Delta{{Item: "a", Type: EntryAssistant, Turn: 4, At: 0, Text: "größer "}, {Item: "a", Type: EntryAssistant, Turn: 4, At: 9, Text: "two "}, {Item: "a", Type: EntryAssistant, Turn: 4, At: 13, Text: "three"}}
	if !slices.Equal(all, want) {
		t.Errorf("%+v", all)
	}
}

func TestOtherThreadsDoNotMixIn(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	foreign := strings.ReplaceAll(completed("x", "agentMessage", `,"text":"a sub-agent's"`), ourThread, "thread-2")
	s.hear(foreign, completed("r", "reasoning", `,"summary":["thinking"]`), completed("a", "agentMessage", `,"text":"ours"`),
		strings.ReplaceAll(turnDone("failed", ""), ourTurn, "turn-x"), turnDone("completed", ""))
	if r := s.result(TurnEnded); r.Turn.FinalText != "ours" || r.Turn.Items != 2 || r.Turn.Status != "completed" {
		t.Errorf("%+v", r.Turn)
	}
	if e := s.sink.entries[0]; e.Data["thread"] != "thread-2" {
		t.Errorf("%+v", e)
	}
}

func TestFinalTextIsCutAndSaysSo(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	half := strings.Repeat("ä", 10<<10)
	s.hear(completed("a", "agentMessage", `,"text":"`+half+`"`), completed("b", "agentMessage", `,"text":"`+half+`"`), turnDone("completed", ""))
	r := s.result(TurnEnded)
	if !r.Turn.FinalTruncated || len(r.Turn.FinalText) > maxFinal || !strings.HasPrefix(r.Turn.FinalText, half+"\n\nä") || !strings.HasSuffix(r.Turn.FinalText, "ä") {
		t.Errorf("%d bytes, truncated %t", len(r.Turn.FinalText), r.Turn.FinalTruncated)
	}
}

func TestRequestIsExcerptedAndDigestedWhole(t *testing.T) {
	long := strings.Repeat("y", 20<<10)
	s := perform(t, PumpInput{State: running(), Limits: Limits{Excerpt: 1000}}, Options{})
	s.hear(asks(0, "c", long))
	s.wait(time.Second)
	r := s.result(RequestsOpen).Requests[0]
	if !r.Truncated || len(r.Command) != 1000 || r.Whole.Command != long || s.sink.requests[0].Command != long {
		t.Errorf("command of %d bytes, truncated %t", len(r.Command), r.Truncated)
	}
	if want := (asked{Kind: KindCommand, Command: long, CWD: "/w"}).digest(); r.Digest != want {
		t.Errorf("digest %s, want %s", r.Digest, want)
	}
}

func TestUsageAddsUpWhateverIsRepeated(t *testing.T) {
	usage := func(total, last int) string {
		return wireEvent("thread/tokenUsage/updated", fmt.Sprintf(`"tokenUsage":{"total":{"inputTokens":%d,"outputTokens":1,"cachedInputTokens":0},"last":{"inputTokens":%d,"outputTokens":1,"cachedInputTokens":0}}`, total, last))
	}
	st := opened()
	st.Total, st.Usage = Usage{Input: 100, Output: 1}, Usage{Input: 100, Output: 1}
	s := perform(t, PumpInput{State: st, Sends: []Send{turn(5, "m", "x")}}, Options{})
	s.hear(usage(100, 70), // what a resumed thread says first
		`{"id":"send/m/0","result":{"turn":{"id":"turn-1"}}}`, usage(150, 50), usage(150, 50), usage(210, 60), usage(20, 20), turnDone("completed", ""))
	r := s.result(TurnEnded)
	if r.Turn.Usage.Input != 50+60+20 || r.State.Usage.Input != 230 {
		t.Errorf("turn %+v, session %+v", r.Turn.Usage, r.State.Usage)
	}
}

func TestNotesComeFirstAndOnce(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := PumpInput{State: running(), Notes: []Note{{ID: "n-1", Type: EntryDecision, At: at, Turn: 4, Text: "accepted", Data: map[string]string{"by": "ada"}}}}
	s := perform(t, in, Options{}, completed("a", "agentMessage", `,"text":"t"`))
	e := s.sink.entries
	if len(e) != 2 || e[0].ID != "n-1" || e[0].Seq != 11 || !e[0].At.Equal(at) || e[1].Seq != 12 || e[1].ID != "i3.1000" {
		t.Errorf("%+v", e)
	}
}

func TestOpeningRefusesWhatItMust(t *testing.T) {
	st := PumpState{Cursor: Cursor{Incarnation: 1}, ThreadID: ourThread}
	in := PumpInput{State: st, Resume: true, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", Permissions: "fl", ApprovalPolicy: "never", Mark: "m"}}
	initAnswer := `{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`
	for name, c := range map[string]struct {
		lines []string
		kind  string
	}{
		"missing":   {[]string{initAnswer, `{"id":"g1.p9.thread.0","error":{"code":-32600,"message":"no rollout found for thread id thread-1"}}`}, "thread_missing"},
		"busy":      {[]string{initAnswer, `{"id":"g1.p9.thread.0","error":{"code":-32600,"message":"thread thread-1 already has an active writer"}}`}, "thread_busy"},
		"other one": {[]string{initAnswer, `{"id":"g1.p9.thread.0","result":{"thread":{"id":"thread-2"}}}`}, "protocol"},
		"too old":   {[]string{`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.110.0 (x)"}}`}, "version"},
	} {
		s := perform(t, in, Options{})
		s.hear(c.lines...)
		r := s.result(Refused)
		if r.Problem.Kind != c.kind || r.Problem.Hint == "" || r.State.Opened != 0 || r.State.ThreadID != ourThread {
			t.Errorf("%s: %+v", name, r)
		}
		for _, line := range s.said {
			if strings.Contains(line, "thread/start") {
				t.Errorf("%s: a new thread was asked for", name)
			}
			if strings.Contains(line, "thread/resume") && (!strings.Contains(line, `"excludeTurns":true`) || !strings.Contains(line, `"permissions":"fl"`) || strings.Contains(line, `"sandbox"`)) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func TestAccountTroubleIsOnRecordAndStopsNothing(t *testing.T) {
	in := PumpInput{State: PumpState{Cursor: Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}}
	s := perform(t, in, Options{})
	s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`,
		`{"id":"g1.p9.account.0","error":{"code":-32603,"message":"workspace routing discovery failed"}}`,
		`{"id":"g1.p9.models.0","error":{"code":-32603,"message":"offline"}}`,
		`{"id":"g1.p9.thread.0","result":{"thread":{"id":"thread-1"}}}`)
	if r := s.result(Bound); r.State.Opened != 1 {
		t.Errorf("%+v", r.State)
	}
	if n := len(s.sink.entries); n != 3 {
		t.Errorf("%d entries: %+v", n, s.sink.entries)
	}
}

func TestBadInputIsRefusedBeforeAnythingHappens(t *testing.T) {
	spec := ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}
	fresh := PumpState{Cursor: Cursor{Incarnation: 1}}
	for name, in := range map[string]PumpInput{
		"no prefix":       {State: fresh, Thread: spec},
		"no incarnation":  {Prefix: "p", Thread: spec},
		"relative cwd":    {Prefix: "p", State: fresh, Thread: ThreadSpec{CWD: "w", Sandbox: "read-only", ApprovalPolicy: "never"}},
		"no sandbox":      {Prefix: "p", State: fresh, Thread: ThreadSpec{CWD: "/w", ApprovalPolicy: "never"}},
		"same id twice":   {Prefix: "p", State: fresh, Thread: spec, Sends: []Send{turn(1, "m", "a"), turn(2, "m", "b")}},
		"unknown kind":    {Prefix: "p", State: fresh, Thread: spec, Sends: []Send{{ID: "m", Kind: "shout"}}},
		"decision of nil": {Prefix: "p", State: fresh, Thread: spec, Sends: []Send{{ID: "m", Kind: SendDecision}}},
	} {
		if _, err := newMachine(in, newKeeper(), Options{}, 0); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
