package conversation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// These tests are of behaviours of approvals for which other drivers of codex have tests.
// If our behaviour differs, the test says so.

// TestUnknownRequestsGetMethodNotFound covers method-not-found.

func TestDenyIsDeclineAndTheTurnGoesOnAndAllowIsAccept(t *testing.T) {
	for _, name := range []string{"command", "file change"} {
		f := askedFamilies[slices.IndexFunc(askedFamilies, func(f family) bool { return f.name == name })]
		for outcome, want := range map[protocol.Outcome]string{protocol.Accept: `{"id":7,"result":{"decision":"accept"}}`, protocol.Decline: `{"id":7,"result":{"decision":"decline"}}`} {
			first, r := f.ask(t, Options{})
			s := f.answer(t, first, r, Send{Outcome: outcome}, Options{})
			s.heard(want)
			s.hear(resolvedLine(7))
			s.wait(time.Second)
			s.attached() // the turn goes on, and so does the pump
			s.hear(completed("m", "agentMessage", `,"text":"as you like"`), turnDone("completed", ""))
			if r := s.result(TurnEnded); r.Turn.Status != "completed" || r.Turn.FinalText != "as you like" {
				t.Errorf("%s of a %s: turn %+v", outcome, name, r.Turn)
			}
		}
	}
}

func TestRequestThatCameBeforeAnybodyListenedIsHeldAndAnswered(t *testing.T) {
	for _, f := range askedFamilies {
		in := f.in
		in.State = running()
		backlog := []string{f.line(7)}
		if f.before != "" {
			backlog = []string{f.before, f.line(7)}
		}
		first := perform(t, in, Options{}, backlog...) // all lines were in the journal
		first.wait(time.Second)
		r := first.result(RequestsOpen)
		s := f.answer(t, first, r, f.answers[0].send, Options{})
		if len(s.said) != 1 || !strings.HasPrefix(s.said[0], `{"id":7,"result":`) {
			t.Errorf("%s: said %q", f.name, s.said)
		}
	}
}

// If nobody may be asked, codex gets a decline. Other drivers have a gate that can be
// switched off. Ours has none: the nearest case is a policy that cannot judge.
func TestWithoutAJudgeEveryRequestIsDeclinedAndNoneHangs(t *testing.T) {
	for _, f := range askedFamilies {
		in := f.in
		in.State, in.Policy = running(), strings.Repeat("ab", 32)
		s := perform(t, in, Options{})
		if f.before != "" {
			s.hear(f.before)
		}
		s.hear(f.line(7))
		s.wait(time.Second)
		s.attached()
		if len(s.said) != 1 || !strings.HasPrefix(s.said[0], `{"id":7,"result":`) || strings.Contains(s.said[0], "accept") || strings.Contains(s.said[0], "approved") {
			t.Errorf("%s: said %q", f.name, s.said)
		}
		if last := s.sink.entries[len(s.sink.entries)-1]; last.Type != protocol.EntryDecision || last.Data["outcome"] != "decline" {
			t.Errorf("%s: on record %+v", f.name, last)
		}
	}
}

// An answer goes to the request that it names, once. A pump that returns declines nothing.
// (Other drivers answer open requests when they shut down.) The request stays in the
// journal for the next pump, even if a person takes long.
func TestAnswerGoesToItsRequestOnceAndLeavingDeclinesNothing(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(asking(7, "a", "ls"), asking(8, "b", "ls"))
	s.wait(time.Second)
	r := s.result(RequestsOpen)
	if len(r.Requests) != 2 || r.Requests[0].Digest != r.Requests[1].Digest {
		t.Fatalf("%+v", r.Requests)
	}
	s.heard()
	next := perform(t, PumpInput{State: r.State, Sends: []Send{decision("d", 8, protocol.Accept)}}, Options{})
	next.heard(`{"id":8,"result":{"decision":"accept"}}`)
	next.hear(started("c", "commandExecution", ""), resolvedLine(8))
	next.m.cancel(next.m.now)
	r = next.result(PumpCancelled)
	if len(r.State.Open) != 1 || string(r.State.Open[0].RPC) != "7" || r.Deliveries[0].State != protocol.Acknowledged {
		t.Errorf("open %+v, deliveries %+v", r.State.Open, r.Deliveries)
	}
	next.heard(`{"id":8,"result":{"decision":"accept"}}`) // and nothing for the other request
	again := perform(t, PumpInput{State: r.State, Sends: []Send{decision("e", 8, protocol.Decline)}}, Options{})
	again.heard()
	again.wait(10 * time.Second)
	if r := again.result(RequestsOpen); r.Deliveries[0].State != protocol.Void || len(r.State.Open) != 1 {
		t.Errorf("%+v", r)
	}
}

// The text of the finished item replaces pieces of a message that were lost.
func TestLostPiecesOfAMessageAreHealedByItsEnd(t *testing.T) {
	var journal, without []string
	for _, s := range loadRecording(t, "approvals.jsonl") {
		if s.Out == "" {
			continue
		}
		journal = append(journal, s.Out)
		if key, _ := keyOf(s.Out); !strings.HasSuffix(strings.ToLower(key), "delta") {
			without = append(without, s.Out)
		}
	}
	if len(journal)-len(without) < 5 {
		t.Fatalf("the recording has %d pieces", len(journal)-len(without))
	}
	want, _ := splitFold(t, journal, 0)
	got, _ := splitFold(t, without, 0)
	if !sameOutcome(got, want) {
		t.Errorf("without its pieces the conversation is\n%+v, want\n%+v", got, want)
	}
	// The same for a stream with a gap.
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("a", "agentMessage", `,"text":""`),
		`{"method":"item/agentMessage/delta","params":{"threadId":"thread-1","turnId":"turn-1","itemId":"a","delta":"Hello "}}`,
		`{"method":"item/agentMessage/delta","params":{"threadId":"thread-1","turnId":"turn-1","itemId":"a","delta":"world"}}`,
		completed("a", "agentMessage", `,"text":"Hello wide world"`), turnDone("completed", ""))
	if r := s.result(TurnEnded); r.Turn.FinalText != "Hello wide world" || strings.Join(s.sink.text(protocol.EntryAssistant), "|") != "Hello wide world" {
		t.Errorf("turn %+v, on record %q", r.Turn, s.sink.text(protocol.EntryAssistant))
	}
}
