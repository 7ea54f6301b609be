package conversation

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// These tests are about turns that codex begins by itself, mostly to continue a goal.

const foreignTurn = "turn-x"

func foreignEvent(method, params string) string {
	return strings.Replace(wireEvent(method, params), `"turnId":"`+ourTurn+`"`, `"turnId":"`+foreignTurn+`"`, 1)
}

func foreignBegins() string {
	return foreignEvent("turn/started", `"turn":{"id":"`+foreignTurn+`"}`)
}

func foreignSays(text string) string {
	return foreignEvent("item/completed", `"item":{"id":"f-1","type":"agentMessage","text":"`+text+`"}`)
}

func foreignDone(status string) string {
	return foreignEvent("turn/completed", `"turn":{"id":"`+foreignTurn+`","status":"`+status+`"}`)
}

const ourStart = `{"id":"send/m-5/0","method":"turn/start","params":{"threadId":"thread-1","input":[{"type":"text","text":"hello"}],"clientUserMessageId":"m-5"}}`

func TestMessageWaitsForATurnThatCodexBegan(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{}, foreignBegins())
	r := s.result(TurnBegun)
	if delivered(t, r, "m-5") != protocol.Decided || !r.State.Foreign || r.State.TurnID != foreignTurn || r.State.Turn != 5 {
		t.Fatalf("%+v", r)
	}
	s.heard()
	// The next pump is attached to that turn, and reports its requests and its end.
	next := perform(t, PumpInput{State: r.State}, Options{})
	next.attached()
	next.hear(strings.ReplaceAll(asking(7, "a", "ls"), ourTurn, foreignTurn))
	next.wait(time.Second)
	r = next.result(RequestsOpen)
	if len(r.Requests) != 1 || r.Requests[0].TurnID != foreignTurn {
		t.Fatalf("%+v", r)
	}
	if e := next.sink.entries[0]; e.Type != protocol.EntryState || e.Turn != 5 || e.Data["begun_by"] != "codex" || e.Data["turn_id"] != foreignTurn {
		t.Errorf("on record: %+v", e)
	}
	next = perform(t, PumpInput{State: r.State, Sends: []Send{decision("d", 7, protocol.Accept)}}, Options{})
	next.hear(resolvedLine(7), foreignSays("mine"), foreignDone("completed"))
	next.wait(2 * time.Second)
	r = next.result(TurnEnded)
	if r.Turn == nil || !r.Turn.Foreign || r.Turn.ID != foreignTurn || r.Turn.N != 5 || r.Turn.FinalText != "mine" || r.State.Foreign || r.State.TurnID != "" {
		t.Errorf("%+v", r)
	}
	// After that the message is sent, once.
	last := perform(t, PumpInput{State: r.State, Sends: []Send{turn(6, "m-5", "hello")}}, Options{})
	last.heard(ourStart)
	last.hear(`{"id":"send/m-5/0","result":{"turn":{"id":"turn-1"}}}`, wireEvent("turn/started", `"turn":{"id":"turn-1"}`),
		completed("a", "agentMessage", `,"text":"ours"`), turnDone("completed", ""))
	last.wait(2 * time.Second)
	if r = last.result(TurnEnded); r.Turn.Foreign || r.Turn.N != 6 || r.Turn.FinalText != "ours" || delivered(t, r, "m-5") != protocol.Acknowledged {
		t.Errorf("%+v", r)
	}
}

// codex may announce a message's turn before it answers. codex did not begin such a turn by
// itself, and it does not show that codex begins turns.
func TestTurnThatIsAnnouncedBeforeTheAnswerIsTheMessages(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{})
	s.heard(ourStart)
	s.hear(wireEvent("turn/started", `"turn":{"id":"turn-1"}`), `{"id":"send/m-5/0","result":{"turn":{"id":"turn-1"}}}`,
		completed("a", "agentMessage", `,"text":"ours"`), turnDone("completed", ""))
	r := s.result(TurnEnded)
	if r.Turn.Foreign || r.Turn.N != 5 || r.State.Restless || delivered(t, r, "m-5") != protocol.Acknowledged {
		t.Errorf("%+v", r)
	}
	for _, e := range s.sink.entries {
		if e.Data["begun_by"] != "" {
			t.Errorf("on record: %+v", e)
		}
	}
}

// A turn that codex began by itself, and that ended before a pump was attached, is not the
// turn of a message.
func TestEndedTurnOfCodexsSettlesNoMessage(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{}, foreignBegins(), foreignSays("mine"), foreignDone("completed"))
	s.wait(2 * time.Second)
	r := s.result(TurnEnded)
	if delivered(t, r, "m-5") != protocol.Decided || !r.Turn.Foreign || r.Turn.FinalText != "mine" {
		t.Errorf("%+v", r)
	}
	s.heard()
}

// The turn began after our message was written and before codex read it. Codex took the
// message into that turn, and reports this.
func TestMessageThatCodexTookIntoItsOwnTurnMakesItOurs(t *testing.T) {
	for name, word := range map[string]string{
		"answer": `{"id":"send/m-5/0","result":{"turn":{"id":"turn-x"}}}`,
		"echo":   foreignEvent("item/started", `"item":{"id":"u-1","type":"userMessage","clientId":"m-5"}`),
	} {
		s := perform(t, PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}, Options{})
		s.heard(ourStart)
		s.hear(foreignBegins())
		s.wait(time.Second)
		s.attached() // it is not known yet whose turn it is
		s.hear(word)
		s.attached()
		s.hear(foreignSays("ours"), foreignDone("completed"))
		s.wait(2 * time.Second)
		r := s.result(TurnEnded)
		if r.Turn.Foreign || r.Turn.N != 5 || delivered(t, r, "m-5") != protocol.Acknowledged {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// If a turn ends before our message is answered, codex began it by itself. The next pump
// handles the message, and finds the answer.
func TestTurnOfCodexsThatEndsBeforeTheAnswerIsItsOwn(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{})
	s.heard(ourStart)
	answer := `{"id":"send/m-5/0","result":{"turn":{"id":"turn-1"}}}`
	s.hear(foreignBegins(), foreignDone("completed"), answer)
	r := s.result(TurnEnded)
	if !r.Turn.Foreign || delivered(t, r, "m-5") != protocol.Sent {
		t.Fatalf("%+v", r)
	}
	again := turn(6, "m-5", "hello")
	again.Uncertain = true
	next := perform(t, PumpInput{State: r.State, Sends: []Send{again}}, Options{}, s.since(r.State.Cursor.Offset)...)
	next.heard()
	if next.m.st.TurnID != ourTurn || next.m.st.Turn != 6 || next.m.st.Foreign {
		t.Errorf("%+v", next.m.st)
	}
}

// If an earlier attempt may have sent the message, the pump finds out, whatever turn runs.
func TestAnotherAttemptDuringATurnOfCodexs(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello")}}
	s := perform(t, in, Options{Attempt: 2, Nonce: "n"}, foreignBegins())
	s.attached()
	s.hear(`{"id":"g1.p9.barrier-n.0","result":{}}`)
	r := s.result(TurnBegun)
	if delivered(t, r, "m-5") != protocol.Decided {
		t.Errorf("%+v", r)
	}
	for _, l := range s.said {
		if strings.Contains(l, wire.MethodTurnStart) {
			t.Errorf("said %s", l)
		}
	}
}

// The next turn that codex begins belongs to the next pump, and the result tells the
// workflow of it.
func TestEndOfATurnTellsOfTheNextOne(t *testing.T) {
	st := running()
	st.Restless = true
	s := perform(t, PumpInput{State: st}, Options{})
	s.hear(turnDone("completed", ""))
	s.attached() // for a moment: codex may begin another turn
	s.hear(wireEvent("thread/status/changed", `"status":{"type":"active"}`), foreignBegins())
	r := s.result(TurnEnded)
	if !r.Begun || r.Turn.Foreign {
		t.Fatalf("%+v", r)
	}
	next := perform(t, PumpInput{State: r.State}, Options{}, s.since(r.State.Cursor.Offset)...)
	if r := next.result(TurnBegun); r.State.TurnID != foreignTurn {
		t.Errorf("%+v", r)
	}
	s = perform(t, PumpInput{State: st}, Options{})
	s.hear(turnDone("completed", ""))
	s.wait(2 * time.Second)
	if r := s.result(TurnEnded); r.Begun {
		t.Errorf("%+v", r)
	}
}

func TestActiveGoalMakesCodexRestless(t *testing.T) {
	goal := func(status string) string {
		return wireEvent("thread/goal/updated", `"goal":{"objective":"o","status":"`+status+`"}`)
	}
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(goal("active"))
	if !s.m.st.Restless {
		t.Error("with an active goal codex may begin turns")
	}
	s.hear(goal("complete"))
	if s.m.st.Restless {
		t.Error("with a complete goal it does not")
	}
	s.hear(goal("active"), wireEvent("thread/goal/cleared", `"x":1`))
	if s.m.st.Restless {
		t.Error("without a goal it does not")
	}
}

// An interrupt ends the running turn. A steer that waits for a message's turn is not sent
// to another turn.
func TestInterruptStopsATurnOfCodexsAndASteerOfOursDoesNotReachIt(t *testing.T) {
	in := PumpInput{State: opened(), Sends: []Send{turn(5, "m-5", "hello"),
		{ID: "s", Kind: SendSteer, Turn: 5, Text: "more"}, {ID: "i", Kind: SendInterrupt}}}
	s := perform(t, in, Options{}, foreignBegins())
	s.heard(`{"id":"send/i/0","method":"turn/interrupt","params":{"threadId":"thread-1","turnId":"turn-x"}}`)
	st := opened()
	st.TurnID, st.Turn, st.Foreign = foreignTurn, 5, true
	s = perform(t, PumpInput{State: st, Sends: []Send{{ID: "s", Kind: SendSteer, Turn: 5, Text: "more"}}}, Options{})
	s.heard(`{"id":"send/s/0","method":"turn/steer","params":{"threadId":"thread-1","expectedTurnId":"turn-x","input":[{"type":"text","text":"more"}],"clientUserMessageId":"s"}}`)
}

// The tokens of such a turn count, and the budget can stop the turn.
func TestTurnOfCodexsCountsToTheBudget(t *testing.T) {
	in := PumpInput{State: opened(), Limits: Limits{Budget: protocol.Bounds{Tokens: 100}}}
	s := perform(t, in, Options{}, foreignBegins(),
		foreignEvent("thread/tokenUsage/updated", `"tokenUsage":{"total":{"inputTokens":200,"outputTokens":1},"last":{"inputTokens":200,"outputTokens":1}}`))
	s.heard(`{"id":"send/budget.turn-x/0","method":"turn/interrupt","params":{"threadId":"thread-1","turnId":"turn-x"}}`)
	s.hear(`{"id":"send/budget.turn-x/0","result":{}}`, foreignDone("interrupted"))
	s.wait(cleanGrace)
	r := s.result(TurnEnded)
	if p := r.Turn.Problem; r.State.Usage.Input != 200 || !r.Turn.Foreign || p == nil || p.Kind != protocol.EndBudget {
		t.Errorf("%+v, problem %+v", r.Turn, p)
	}
}

// The journal of a conversation that includes turns begun by codex is split between pumps
// at every line: each pump is cancelled there. The entries and the state are the same.
func TestTurnsOfCodexsAreTheSameHoweverTheJournalIsSplit(t *testing.T) {
	another := func(line string) string { return strings.ReplaceAll(line, foreignTurn, "turn-y") }
	journal := []string{
		foreignBegins(), foreignSays("one"), foreignDone("completed"),
		another(foreignBegins()), another(foreignSays("two")), another(foreignDone("interrupted")),
		`{"id":"send/m-5/0","result":{"turn":{"id":"turn-1"}}}`, wireEvent("turn/started", `"turn":{"id":"turn-1"}`), turnDone("completed", ""),
	}
	fold := func(at int) ([]protocol.Entry, PumpState, []TurnEnd) {
		sink, state, ends, pos := newKeeper(), opened(), []TurnEnd(nil), 0
		for pos < len(journal) {
			until := len(journal)
			if pos < at {
				until = at
			}
			offset := state.Cursor.Offset
			size := offset
			for _, l := range journal[pos:until] {
				size += int64(len(l)) + 1
			}
			m, err := newMachine(PumpInput{State: state, Prefix: "p", Sends: []Send{{ID: "m-5", Kind: SendTurn, Turn: 7, Text: "hello", Uncertain: true}}}, sink, Options{}, size)
			if err != nil {
				t.Fatal(err)
			}
			if len(ends) == 3 {
				m.delivery.sends = nil
			}
			m.cancel(0)
			m.atStart()
			for _, l := range journal[pos:until] {
				split := wire.NewSplitter(offset, m.lim.Line)
				split.Feed([]byte(l+"\n"), func(l wire.Line) { m.read(l, 0) })
				if offset += int64(len(l)) + 1; m.result != nil {
					break
				}
			}
			if m.result == nil {
				t.Fatalf("split at line %d: the pump from line %d has not returned", at, pos)
			}
			if state = m.result.State; m.result.Turn != nil {
				ends = append(ends, *m.result.Turn)
			}
			for at := int64(1000); ; pos++ {
				at = 1000
				for _, l := range journal[:pos] {
					at += int64(len(l)) + 1
				}
				if at >= state.Cursor.Offset {
					break
				}
			}
		}
		return sink.entries, state, ends
	}
	entries, state, ends := fold(0)
	if len(ends) != 3 || !ends[0].Foreign || !ends[1].Foreign || ends[2].Foreign || ends[0].N != 5 || ends[1].N != 6 || ends[2].N != 7 {
		t.Fatalf("%+v", ends)
	}
	for at := 1; at < len(journal); at++ {
		if e, st, n := fold(at); !sameOutcome(outcome{Entries: e, State: st}, outcome{Entries: entries, State: state}) || len(n) != 3 || n[2].N != 7 {
			t.Errorf("split at line %d:\n%+v\n%+v\n%+v, want\n%+v\n%+v", at, e, st, n, entries, state)
		}
	}
}
