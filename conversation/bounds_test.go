package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestResultFitsIntoAWorkflowWhateverCodexAsks(t *testing.T) {
	length := 20_000
	if testing.Short() {
		length = 2_000 // the race detector makes more slow
	}
	huge := strings.Repeat("päth/", length)
	change := fmt.Sprintf(`{"path":%q,"kind":{"type":"add"},"diff":%q}`, huge, huge)
	s := perform(t, PumpInput{State: running()}, Options{},
		completed("a", "agentMessage", fmt.Sprintf(`,"text":%q`, huge)))
	for i := range 3 * maxRequests {
		item := fmt.Sprint("f-", i)
		s.hear(started(item, "fileChange", `,"changes":[`+change+`]`),
			fmt.Sprintf(`{"method":"item/fileChange/requestApproval","id":%d,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":%q,"reason":%q,"grantRoot":%q}}`, 2*i, item, huge, huge),
			fmt.Sprintf(`{"method":"item/commandExecution/requestApproval","id":%d,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":"c","command":%q,"cwd":%q,"reason":%q}}`, 2*i+1, huge, "/"+huge, huge))
		if s.m.result != nil {
			t.Fatal("returned before the requests came")
		}
	}
	s.wait(100 * defaultSettle)
	r := s.result(RequestsOpen)
	data, err := json.Marshal(r)
	if err != nil || len(data) > 320<<10 {
		t.Errorf("the result takes %d bytes, %v", len(data), err)
	}
	if len(r.Requests) != maxRequests || len(s.said) != 6*maxRequests-maxRequests {
		t.Errorf("%d requests reported, %d refused", len(r.Requests), len(s.said))
	}
	for i, q := range r.Requests {
		if !q.Truncated || q.Digest != s.sink.requests[i].Digest || q.Summary == "" {
			t.Fatalf("request %s", q.RPC)
		}
		if len(q.Whole.Reason) != len(huge) {
			t.Fatalf("the whole of request %s is cut", q.RPC)
		}
	}
}

// A result is stored as JSON, in which one byte may take six.
func TestResultFitsIntoAWorkflowWhateverItsBytes(t *testing.T) {
	chars := []string{"<", "\x01", `"`, "\u2028", "x"}
	if testing.Short() {
		chars = chars[1:2] // this one takes six bytes; the race detector makes trying all of them slow
	}
	for _, char := range chars {
		text := func(n int) string { return string(canonical(strings.Repeat(char, n))) }
		s := perform(t, offering(running()), Options{Tool: (&bench{}).tool})
		s.m.lim.Settle = time.Hour
		s.hear(completed("a", "agentMessage", `,"text":`+text(40_000)))
		for i := range 8 {
			s.hear(callsTool(100+i, "deliver", `{"path":`+text(8_100/len(text(1)))+`}`),
				callsTool(200+i, "ask_human", `{"question":`+text(16_000)+`}`), callsTool(300+i, "ask_human", `{"question":`+text(5_000)+`}`))
		}
		for i := range 50 {
			s.hear(fmt.Sprintf(`{"method":"item/commandExecution/requestApproval","id":%d,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":"c","command":%[2]s,"cwd":%[2]s,"reason":%[2]s,"networkApprovalContext":{"host":%[2]s}}}`, i, text(9_000)))
		}
		s.m.cancel(s.m.now)
		r := s.result(PumpCancelled)
		data, err := json.Marshal(r)
		if err != nil || len(data) > 768<<10 || len(r.Requests) < 50 || r.State.FinalText == "" {
			t.Errorf("%q: the result takes %d bytes, %v, with %d requests", char, len(data), err, len(r.Requests))
		}
		if q := r.Requests[len(r.Requests)-1]; !q.Truncated || q.Whole.Network != strings.Repeat(char, 9_000) {
			t.Errorf("%q: %+v", char, q)
		}
	}
}

func TestAnExcerptTakesNoMoreThanItMay(t *testing.T) {
	s := "a\"\\\n\x01<é\u2028\x7f𝄞&\xff z"
	if raw, err := json.Marshal(s); err != nil || wire.Len(s) != len(raw)-2 {
		t.Errorf("counted %d, and %s takes %d, %v", wire.Len(s), raw, len(raw)-2, err)
	}
	for max := range 50 {
		e := wire.Excerpt(s, max)
		next := strings.TrimPrefix(s, e)
		if wire.Len(e) > max || !strings.HasPrefix(s, e) {
			t.Fatalf("%q of at most %d", e, max)
		}
		if next != "" {
			if wide, _ := wire.RuneLen(next); wire.Len(e)+wide <= max {
				t.Fatalf("%q of at most %d: there is room for more", e, max)
			}
		}
	}
}

// A name that was cut shows that it was cut.
func TestANameThatIsCutIsCalledCut(t *testing.T) {
	for _, r := range []protocol.Request{{Network: long(300)}, {Server: long(300)}, {Tool: long(300)}} {
		e := cutRequest(&r, defaultExcerpt)
		if !e.Truncated || len(e.Network)+len(e.Server)+len(e.Tool) != maxName || e.Whole.Network != r.Network {
			t.Errorf("%+v", e)
		}
	}
	if e := cutRequest((&protocol.Request{Network: "a.example", Server: "s", Tool: "t"}), defaultExcerpt); e.Truncated {
		t.Errorf("%+v", e)
	}
}

func TestLongProblemsAndRefusalsAreCut(t *testing.T) {
	huge := strings.Repeat("väry ", 20_000)
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(turnDone("failed", fmt.Sprintf(`,"error":{"message":%q}`, huge)))
	if r := s.result(TurnEnded); len(r.Turn.Problem.Message) > maxProblem+8 {
		t.Errorf("a problem of %d bytes", len(r.Turn.Problem.Message))
	}
	s = perform(t, PumpInput{State: running(), Sends: []Send{{ID: "s", Kind: SendSteer, Text: "x"}}}, Options{})
	s.hear(fmt.Sprintf(`{"id":"send/s/0","error":{"code":-32600,"message":%q}}`, huge))
	s.m.cancel(s.m.now)
	if r := s.result(PumpCancelled); len(r.Problem.Message) > maxProblem+8 || len(r.Deliveries[0].Error) > maxProblem {
		t.Errorf("a refusal of %d and %d bytes", len(r.Problem.Message), len(r.Deliveries[0].Error))
	}
}

// A pump that reads a long stream returns now and then, always at the same lines. This
// bounds the work that is lost when a worker dies.
func TestPumpThatHasFoldedEnoughReturns(t *testing.T) {
	text := completed("a", "agentMessage", fmt.Sprintf(`,"text":%q`, long(1000)))
	var backlog []string
	for range 20 {
		backlog = append(backlog, text)
	}
	in := PumpInput{State: running(), Limits: Limits{Bytes: 5000}, Sends: []Send{{ID: "i", Kind: SendInterrupt}}}
	live := perform(t, in, Options{})
	for _, l := range backlog {
		if live.m.result == nil {
			live.hear(l)
		}
	}
	want := live.result(Bound)
	behind := perform(t, in, Options{Attempt: 2}, backlog...)
	got := behind.result(Bound)
	if got.State.Cursor != want.State.Cursor || got.State.Seq != want.State.Seq || want.State.Cursor.Offset < 6000 || want.State.Cursor.Offset > 7500 {
		t.Errorf("stopped at %+v, and behind at %+v", want.State, got.State)
	}
	if d := got.Deliveries[0]; d.State != protocol.Sent {
		t.Errorf("an interrupt that an earlier attempt may have sent is called %s", d.State)
	}
	// The next pump continues from there, and still recognizes the turn's end.
	s := perform(t, PumpInput{State: want.State, Limits: in.Limits}, Options{}, text, turnDone("completed", fmt.Sprintf(`,"items":%q`, long(9000))))
	s.result(TurnEnded)
}

func TestInterruptDoesNotWaitForALongBacklog(t *testing.T) {
	in := PumpInput{State: running(), Prefix: "p", Sends: []Send{{ID: "i", Kind: SendInterrupt}, {ID: "s", Kind: SendSteer, Text: "x"}}}
	m, err := newMachine(in, newKeeper(), Options{}, 1000+longBacklog+1)
	if err != nil {
		t.Fatal(err)
	}
	m.atStart()
	if len(m.out) != 1 || !strings.Contains(string(m.out[0]), `"send/i/0"`) {
		t.Errorf("said %q", m.out)
	}
	m.ended(0)
	if got := delivered(t, *m.result, "i"); got != protocol.Sent {
		t.Errorf("the interrupt is %s", got)
	}
}

// A pump returns at a bound while it reads a long backlog. If the process has ended, nobody
// takes answers any more, and the pump writes none. That is no reason to run the pump
// again.
func TestNothingIsAnsweredInThePlaceOfADeadProcess(t *testing.T) {
	asked := `{"method":"item/tool/call","id":7,"params":{"threadId":"thread-1","turnId":"turn-1","callId":"c","tool":"x"}}`
	long := wireEvent("item/agentMessage/delta", fmt.Sprintf(`"itemId":"a","delta":%q`, strings.Repeat("x", 2000)))
	s := perform(t, PumpInput{State: running(), Limits: Limits{Bytes: 1000}}, Options{Over: true}, asked, long, long)
	s.result(Bound)
	s.heard()

	m, err := newMachine(PumpInput{State: running(), Prefix: "p", Sends: []Send{{ID: "i", Kind: SendInterrupt}}}, newKeeper(), Options{Over: true}, 1000+2*longBacklog)
	if err != nil {
		t.Fatal(err)
	}
	if m.atStart(); len(m.out) != 0 {
		t.Errorf("said to a dead process: %s", m.out)
	}
}

// The answer to an interrupt that was written before a long backlog was read comes after
// the backlog. The time for reading the backlog does not count as codex's.
func TestAnInterruptBeforeALongBacklogHasItsTimeBehindIt(t *testing.T) {
	in := PumpInput{State: running(), Prefix: "p", Sends: []Send{{ID: "i", Kind: SendInterrupt}}}
	k := newKeeper()
	m, err := newMachine(in, k, Options{}, in.State.Rewind+longBacklog+1)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, m: m, sink: k, at: in.State.Rewind}
	m.atStart()
	s.collect()
	if len(s.said) != 1 || !strings.Contains(s.said[0], wire.MethodInterrupt) {
		t.Fatalf("said %q", s.said)
	}
	piece := wireEvent("item/agentMessage/delta", fmt.Sprintf(`"itemId":"a","delta":%q`, strings.Repeat("x", 1<<20)))
	for s.at < m.size {
		m.now += 5 * time.Second
		s.hear(piece)
	}
	s.attached()
	s.hear(`{"id":"send/i/0","result":{}}`, turnDone("interrupted", ""))
	s.hear(fmt.Sprintf(`{"id":%q,"result":{}}`, "p.clean.0"))
	if r := s.result(TurnEnded); r.Turn.Status != "interrupted" || r.Deliveries[0].State != protocol.Acknowledged {
		t.Errorf("%+v", r)
	}
}
