package conversation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestNothingIsSentThatTheJournalShowsAnswered(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{Attempt: 2},
		`{"id":"send/m-5/0","result":{"turn":{"id":"turn-1","status":"inProgress"}}}`,
		wireEvent("turn/started", `"turn":{"id":"turn-1"}`))
	s.attached()
	s.heard()
	s.hear(turnDone("completed", ""))
	if r := s.result(TurnEnded); r.Turn.N != 5 || delivered(t, r, "m-5") != protocol.Acknowledged {
		t.Errorf("%+v", r)
	}
}

func TestAnotherAttemptWaitsForTheThreadThatMayBeOnItsWay(t *testing.T) {
	fresh := PumpState{Cursor: protocol.Cursor{Incarnation: 1}}
	thread := ThreadSpec{CWD: "/work", Sandbox: "read-only", ApprovalPolicy: "on-request"}
	initialized := `{"id":"g1.p9.initialize.0","result":{"userAgent":"fairlead/0.169.0 (Debian)"}}`
	asked := func(s *stage) int {
		n := 0
		for _, l := range s.said {
			n += strings.Count(l, wire.MethodStart)
		}
		return n
	}
	for attempt, want := range map[int]int{1: 1, 2: 0} {
		s := perform(t, PumpInput{State: fresh, Thread: thread}, Options{Attempt: attempt}, initialized)
		if n := asked(s); n != want {
			t.Errorf("attempt %d asked for a thread %d times at once", attempt, n)
		}
		s.wait(time.Second)
		s.hear(`{"id":"g1.p9.thread.0","result":{"thread":{"id":"thread-1"}}}`)
		s.wait(time.Minute)
		if n := asked(s); n != want {
			t.Errorf("attempt %d asked for a thread %d times although it has one", attempt, n)
		}
	}
	s := perform(t, PumpInput{State: fresh, Thread: thread}, Options{Attempt: 2}, initialized)
	s.wait(3 * time.Second)
	if n := asked(s); n != 1 {
		t.Errorf("nobody had asked for a thread, and the second attempt asked %d times", n)
	}
	s = perform(t, PumpInput{State: fresh, Thread: thread}, Options{Attempt: 2})
	s.hear(initialized)
	if n := asked(s); n != 1 {
		t.Errorf("nobody can have asked for a thread, and the second attempt asked %d times at once", n)
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
	if m.result == nil || m.result.Reason != PumpCancelled || m.result.Deliveries[0].State != protocol.Decided {
		t.Errorf("result %+v", m.result)
	}
}

func TestMessageDuringATurnIsRejectedAndNotSteered(t *testing.T) {
	s := perform(t, PumpInput{State: running(), Sends: []Send{turn(5, "m-5", "hello")}}, Options{})
	s.heard()
	s.hear(turnDone("completed", ""))
	if r := s.result(TurnEnded); delivered(t, r, "m-5") != protocol.Rejected {
		t.Errorf("%+v", r.Deliveries)
	}
}

func TestSteerGoesToTheRunningTurn(t *testing.T) {
	s := perform(t, PumpInput{State: running(), Sends: []Send{{ID: "s-1", Kind: SendSteer, Text: "faster"}}}, Options{})
	s.heard(`{"id":"send/s-1/0","method":"turn/steer","params":{"threadId":"thread-1","expectedTurnId":"turn-1","input":[{"type":"text","text":"faster"}],"clientUserMessageId":"s-1"}}`)
	s.hear(`{"id":"send/s-1/0","result":{"turnId":"turn-1"}}`, turnDone("completed", ""))
	if r := s.result(TurnEnded); delivered(t, r, "s-1") != protocol.Acknowledged {
		t.Errorf("%+v", r.Deliveries)
	}
	s = perform(t, PumpInput{State: opened(), Sends: []Send{{ID: "s-1", Kind: SendSteer, Text: "faster"}}}, Options{})
	if r := s.result(Bound); delivered(t, r, "s-1") != protocol.Void {
		t.Errorf("without a turn: %+v", r.Deliveries)
	}
}

func TestDecisionsHaveCodexsShapes(t *testing.T) {
	for want, d := range map[string]Send{
		`"accept"`:           {Outcome: protocol.Accept},
		`"acceptForSession"`: {Outcome: protocol.Accept, ForSession: true},
		`"decline"`:          {Outcome: protocol.Decline},
		`"cancel"`:           {Outcome: protocol.Cancel},
	} {
		st := running()
		st.Open = []OpenRequest{openRequest(0, "c")}
		send := decision("d", 0, d.Outcome)
		send.ForSession = d.ForSession
		s := perform(t, PumpInput{State: st, Sends: []Send{send}}, Options{})
		s.heard(`{"id":0,"result":{"decision":` + want + `}}`)
		s.hear(resolvedLine(0), turnDone("completed", ""))
		if r := s.result(TurnEnded); delivered(t, r, "d") != protocol.Acknowledged || len(r.Resolved) != 0 {
			t.Errorf("%s: %+v", want, r)
		}
	}
}

func TestDecisionForWhatIsGoneIsVoid(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(1, "c")}
	old := decision("old", 1, protocol.Accept)
	old.Incarnation = 2
	for name, c := range map[string]struct {
		send    Send
		backlog []string
	}{
		"earlier process": {send: old},
		"never asked":     {send: decision("d", 7, protocol.Accept)},
		"taken back":      {send: decision("d", 1, protocol.Accept), backlog: []string{resolvedLine(1)}},
	} {
		s := perform(t, PumpInput{State: st, Sends: []Send{c.send}}, Options{}, c.backlog...)
		s.heard()
		s.m.cancel(0) // while the pump stays for the turn
		if got := delivered(t, *s.m.result, c.send.ID); got != protocol.Void {
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
	// The end of the turn withdraws the other requests.
	s = perform(t, PumpInput{State: r.State}, Options{}, turnDone("interrupted", ""))
	if r := s.result(TurnEnded); len(r.Resolved) != 1 || string(r.Resolved[0]) != "2" || len(r.State.Open) != 0 {
		t.Errorf("at the end: %+v", r)
	}
}

func TestParallelRequestsAreGathered(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("c-1", "commandExecution", ""), asking(0, "c-1", "one"))
	s.wait(80 * time.Millisecond)
	s.hear(started("c-2", "commandExecution", ""), asking(1, "c-2", "two"))
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
	s.hear(started("c-0", "commandExecution", ""), started("c-1", "commandExecution", ""), asking(0, "c-1", "one"))
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
	// The pump does not wait for a command that says nothing, nor for one in the
	// background.
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
		started("c-2", "commandExecution", ""), asking(0, "c-2", "two"))
	s.wait(time.Second)
	r := s.result(RequestsOpen)
	s = perform(t, PumpInput{State: r.State}, Options{})
	s.result(RequestsOpen)
	// The command outlives its turn, and its end belongs to that turn.
	s = perform(t, PumpInput{State: r.State}, Options{}, turnDone("completed", ""))
	r = s.result(TurnEnded)
	s = perform(t, PumpInput{State: r.State, Sends: []Send{turn(5, "m-5", "next")}}, Options{})
	s.hear(`{"id":"send/m-5/0","result":{"turn":{"id":"turn-2"}}}`, completed("c-1", "commandExecution", `,"exitCode":3,"command":"x"`))
	last := s.sink.entries[len(s.sink.entries)-1]
	if last.Turn != 4 || *last.ExitCode != 3 || s.m.st.TurnItems != 0 {
		t.Errorf("late entry %+v; state %+v", last, s.m.st)
	}
}

func TestOverloadIsRetriedAndThenWaitedOutOnView(t *testing.T) {
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
	if r := s.result(TurnEnded); delivered(t, r, "m-5") != protocol.Acknowledged {
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
	if r := s.result(Overloaded); delivered(t, r, "m-5") != protocol.Decided || r.Problem.Kind != "overloaded" {
		t.Errorf("%+v", r)
	}
	// A steer is sent again for as long as the turn runs.
	st := running()
	st.Open = []OpenRequest{openRequest(7, "c")}
	s = perform(t, PumpInput{State: st, Limits: Limits{Quiet: -1, Silence: 12 * time.Hour}, Sends: []Send{{ID: "m-5", Kind: SendSteer, Text: "hello"}}}, Options{})
	for n := 0; s.m.now < 10*time.Minute; {
		if len(s.said) > n {
			s.hear(overloaded(n))
			n++
		}
		s.wait(time.Second)
	}
	s.attached()
	s.hear(turnDone("completed", ""))
	s.wait(time.Minute)
	if r := s.result(TurnEnded); delivered(t, r, "m-5") != protocol.Void {
		t.Errorf("%+v", r)
	}
}

// It is the same if codex is too busy to open the thread.
func TestOverloadOfTheOpeningIsWaitedOutOnView(t *testing.T) {
	in := PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"},
		Sends: []Send{turn(1, "m", "hello")}}
	s := perform(t, in, Options{})
	s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`)
	for n := 0; s.m.result == nil && n < 1000; {
		if strings.Contains(strings.Join(s.said, "\n"), fmt.Sprintf(`"g1.p9.thread.%d"`, n)) {
			s.hear(fmt.Sprintf(`{"id":"g1.p9.thread.%d","error":{"code":-32001,"message":"Server overloaded; retry later."}}`, n))
			n++
		}
		s.wait(100 * time.Millisecond)
	}
	if r := s.result(Overloaded); delivered(t, r, "m") != protocol.Decided || r.Problem.Kind != protocol.EndOverloaded {
		t.Errorf("%+v", r)
	}
}

func TestSilenceIsTimedOut(t *testing.T) {
	fresh := PumpState{Cursor: protocol.Cursor{Incarnation: 1}}
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
		"turn":      {in: PumpInput{State: running(), Limits: Limits{Turn: time.Hour, Silence: 2 * time.Hour}}, after: time.Hour, kind: "turn_timeout"},
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
				if d.State == protocol.Decided {
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
	// A turn that goes on is not ended.
	s = perform(t, PumpInput{State: running(), Limits: Limits{Silence: 2 * time.Hour}}, Options{})
	s.hear(wireEvent("thread/status/changed", `"status":{"type":"idle"}`), wireEvent("thread/status/changed", `"status":{"type":"active"}`))
	s.wait(time.Hour)
	s.attached()
}

func TestAProcessThatNeverSaysAWordAgainIsGivenUp(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.wait(2*time.Minute - time.Second)
	s.heard()
	s.wait(time.Second)
	s.heard(`{"id":"g1.p9.life-a1.0","method":"thread/read","params":{"threadId":"thread-1","includeTurns":false}}`)
	s.wait(59 * time.Second)
	s.attached()
	s.wait(time.Second)
	if r := s.result(TimedOut); r.Problem == nil || r.Problem.Kind != protocol.EndSilent {
		t.Errorf("%+v", r.Problem)
	}
}

func TestAModelThatThinksForLongIsWaitedFor(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	for n := range 30 {
		s.wait(2 * time.Minute)
		if len(s.said) != n+1 {
			t.Fatalf("after %d silences codex was asked %q", n+1, s.said)
		}
		s.wait(30 * time.Second)
		if n%2 == 0 { // the answer, or any other line
			s.hear(fmt.Sprintf(`{"id":"g1.p9.life-a1.%d","result":{"thread":{"id":"thread-1"}}}`, n))
		} else {
			s.hear(wireEvent("item/agentMessage/delta", `"itemId":"x","delta":"hm"`))
		}
	}
	s.attached()
	// Codex is not asked while a person is asked, because the pump has returned.
	s = perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("c1", "commandExecution", ""), asking(0, "c1", "ls"))
	s.wait(time.Second)
	s.result(RequestsOpen)
	s.heard()
}

func TestAbortedTurnIsInterrupted(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(wireEvent("turn/aborted", `"reason":"interrupted"`))
	if r := s.result(TurnEnded); r.Turn.Status != "interrupted" {
		t.Errorf("%+v", r.Turn)
	}
}

// No request is left open. A request that nobody can decide or that cannot be read is
// answered at once, in the shape that codex expects.
func TestEveryOtherRequestIsAnsweredAtOnce(t *testing.T) {
	for method, want := range map[string]string{
		methodPermissions:                   `"result":{"permissions":{},"scope":"turn"}`,
		methodUserInput:                     `"result":{"answers":{}}`,
		methodElicitation:                   `"result":{"action":"decline","content":null}`,
		methodToolCall:                      `"success":false`,
		"account/chatgptAuthTokens/refresh": `"error":{`,
		"attestation/generate":              `"error":{`,
		methodPatchApproval:                 `"result":{"decision":{"denied":{"rejection":"it names no files"}}}`,
		methodExecApproval:                  `"result":{"decision":{"denied":{"rejection":"it names no command"}}}`,
		"currentTime/read":                  `"result":{"currentTimeAt":86400}`,
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
		// An earlier attempt has answered the request.
		s = perform(t, PumpInput{State: running()}, Options{Attempt: 2}, ask, wireEvent("serverRequest/resolved", `"requestId":"q"`))
		s.heard()
	}
}

func TestUnknownRequestsGetMethodNotFound(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(`{"method":"nobody/knows","id":"q","params":{"threadId":"thread-1"}}`)
	s.heard(`{"id":"q","error":{"code":-32601,"message":"method not found: this client does not know nobody/knows"}}`)
	if e := s.sink.entries; len(e) != 1 || e[0].Type != protocol.EntryRequest || e[0].Status != "refused" || !strings.Contains(e[0].Text, "nobody/knows") {
		t.Errorf("on record: %+v", e)
	}
	s.attached()
}

// If a turn that waits for a person is interrupted, the pump stays until the turn has
// ended, although a request is still open.
func TestInterruptOfATurnThatWaitsForAPersonBringsItsEnd(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(7, "c")}
	st.Items = []OpenItem{{ID: "c", Type: "commandExecution", Turn: 4}}
	s := perform(t, PumpInput{State: st, Sends: []Send{{ID: "i", Kind: SendInterrupt}}}, Options{})
	s.hear(`{"id":"send/i/0","result":{}}`)
	s.wait(10 * time.Second)
	s.attached()
	s.hear(asking(8, "d", "ls")) // the pump does not return because of another request either
	s.wait(10 * time.Second)
	s.attached()
	// Another pump that takes over also waits for the turn's end.
	s.m.cancel(s.m.now)
	r := s.result(PumpCancelled)
	next := perform(t, PumpInput{State: r.State}, Options{})
	next.wait(10 * time.Second)
	next.attached()
	next.hear(turnDone("interrupted", ""), resolvedLine(7))
	next.wait(cleanGrace)
	r = next.result(TurnEnded)
	if r.Turn.Status != "interrupted" || len(r.State.Open) != 0 || r.State.Interrupted {
		t.Errorf("%+v", r)
	}
	for _, l := range append(s.said, next.said...) {
		if strings.Contains(l, `"decision"`) {
			t.Errorf("codex got an answer beside the interrupt: %s", l)
		}
	}
	// An interrupt that codex does not obey has a time limit.
	s = perform(t, PumpInput{State: st, Sends: []Send{{ID: "i", Kind: SendInterrupt}}}, Options{})
	s.hear(`{"id":"send/i/0","result":{}}`)
	s.wait(2 * time.Minute)
	if r := s.result(TimedOut); r.Problem.Kind != protocol.EndRequestTimeout {
		t.Errorf("%+v", r.Problem)
	}
}

// The attempts of a pump share the turn's time. The time that people took does not count.
func TestTurnsTimeGoesOnOverAttempts(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	at := func(minutes int, method, params string) string {
		return strings.Replace(wireEvent(method, params), `"emittedAtMs":2000`, fmt.Sprintf(`"emittedAtMs":%d`, start.Add(time.Duration(minutes)*time.Minute).UnixMilli()), 1)
	}
	st := running()
	st.CodexVersion, st.AtMS, st.TurnStartedMS, st.Spent.CountedMS = "0.169.0", start.UnixMilli(), start.UnixMilli(), start.UnixMilli()
	attempt := func(minute int) Options {
		return Options{Attempt: 2, Since: time.Duration(minute) * time.Minute, Now: func() time.Time { return start.Add(time.Duration(minute) * time.Minute) }}
	}
	in := PumpInput{State: st, Limits: Limits{Turn: time.Hour, Silence: 12 * time.Hour}}
	s := perform(t, in, attempt(50))
	s.wait(9 * time.Minute)
	s.attached()
	s.wait(2 * time.Minute)
	if r := s.result(TimedOut); r.Problem.Kind != protocol.EndTurnTimeout {
		t.Errorf("%+v", r.Problem)
	}
	// For a turn that began within this pump, the time counts from its beginning.
	fresh := opened()
	fresh.CodexVersion = "0.169.0"
	s = perform(t, PumpInput{State: fresh, Limits: in.Limits, Sends: []Send{turn(5, "m-5", "hello")}}, attempt(50),
		`{"id":"send/m-5/0","result":{"turn":{"id":"turn-1"}}}`, at(30, "turn/started", `"turn":{"id":"turn-1"}`))
	s.wait(39 * time.Minute)
	s.attached()
	s.wait(2 * time.Minute)
	if r := s.result(TimedOut); r.Problem.Kind != protocol.EndTurnTimeout {
		t.Errorf("%+v", r.Problem)
	}
	// The time that people took does not count, and is reported to the workflow.
	asked := strings.Replace(asking(7, "c", "ls"), `"startedAtMs":2000`, fmt.Sprintf(`"startedAtMs":%d`, start.Add(10*time.Minute).UnixMilli()), 1)
	s = perform(t, in, attempt(120), asked, at(110, "serverRequest/resolved", `"requestId":7`))
	s.wait(39 * time.Minute)
	s.attached()
	s.wait(2 * time.Minute)
	if r := s.result(TimedOut); r.Problem.Kind != protocol.EndTurnTimeout || r.Waited != 100*time.Minute {
		t.Errorf("waited %s, %+v", r.Waited, r.Problem)
	}
	s = perform(t, in, attempt(120), asked)
	s.wait(time.Second)
	if r := s.result(RequestsOpen); r.Waited != 110*time.Minute {
		t.Errorf("waited %s", r.Waited)
	}
}

// The attempts of a pump also share the time in which the model says nothing.
func TestQuietOfTheModelGoesOnOverAttempts(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	st := running()
	st.ToolEnded, st.AtMS = true, start.UnixMilli()
	s := perform(t, PumpInput{State: st, Limits: Limits{Silence: 12 * time.Hour}},
		Options{Attempt: 2, Since: 20 * time.Minute, Now: func() time.Time { return start.Add(20 * time.Minute) }})
	s.wait(9 * time.Minute)
	s.attached()
	s.wait(2 * time.Minute)
	if r := s.result(TimedOut); r.Problem.Kind != protocol.EndQuietAfterTool {
		t.Errorf("%+v", r.Problem)
	}
}
