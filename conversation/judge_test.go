package conversation

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

const aPolicy = "f00d"

// byWords is a policy that decides by a command's first word.
func byWords(a Asked) Verdict {
	v := Verdict{Policy: aPolicy, Rule: "test"}
	switch word, _, _ := strings.Cut(a.Command, " "); word {
	case "ok":
		v.Outcome = protocol.Accept
	case "always":
		v.Outcome, v.ForSession = protocol.Accept, true
	case "no":
		v.Outcome, v.Reason = protocol.Decline, "it is not allowed"
	default:
		v.Reason = "somebody has to look"
	}
	return v
}

func underPolicy(st PumpState) PumpInput { return PumpInput{State: st, Policy: aPolicy} }

func data(entries []protocol.Entry, of protocol.EntryType, key string) (all []string) {
	for _, e := range entries {
		if e.Type == of {
			all = append(all, e.Data[key])
		}
	}
	return all
}

func TestAPolicysDecisionOnASubAgentsRequestNamesIt(t *testing.T) {
	s := perform(t, underPolicy(running()), Options{Judge: byWords})
	s.hear(strings.NewReplacer(ourThread, "thread-2", ourTurn, "turn-2").Replace(asking(0, "c-1", "ok a")))
	s.heard(`{"id":0,"result":{"decision":"accept"}}`)
	for _, e := range s.sink.entries {
		if e.SubAgent() != "thread-2" || e.Agent.Name != "agent 1" {
			t.Errorf("%s is of %+v", e.Type, e.Agent)
		}
	}
	if n := len(s.sink.entries); n != 2 {
		t.Errorf("%d entries", n)
	}
}

func TestWhatThePolicyDecidesReachesNobodyElse(t *testing.T) {
	s := perform(t, underPolicy(running()), Options{Judge: byWords})
	s.hear(started("c-1", "commandExecution", ""), asking(0, "c-1", "ok a"), asking(1, "c-1", "no b"), asking(2, "c-1", "always c"))
	s.heard(`{"id":0,"result":{"decision":"accept"}}`, `{"id":1,"result":{"decision":"decline"}}`, `{"id":2,"result":{"decision":"acceptForSession"}}`)
	s.hear(resolvedLine(0), resolvedLine(1), resolvedLine(2))
	s.wait(time.Minute)
	s.attached()
	s.hear(turnDone("completed", ""))
	r := s.result(TurnEnded)
	if len(r.Requests)+len(r.Resolved)+len(r.Deliveries)+len(r.State.Open) != 0 || len(s.sink.requests) != 0 {
		t.Errorf("the workflow hears of it: %+v", r)
	}
	if got := data(s.sink.entries, protocol.EntryDecision, "outcome"); !slices.Equal(got, []string{"accept", "decline", "accept"}) {
		t.Errorf("decisions on record: %q", got)
	}
	for _, e := range s.sink.entries {
		if e.Type == protocol.EntryDecision && (e.Data["by"] != "policy" || e.Data["rule"] != "test" || e.Data["policy"] != aPolicy || e.Digest == "") {
			t.Errorf("on record: %+v", e)
		}
	}
	if got := data(s.sink.entries, protocol.EntryRequest, "kind"); len(got) != 3 {
		t.Errorf("%d requests on record", len(got))
	}
	if got := r.State.Tally; got.InTurn != 3 || got.Accepted != 2 || got.Declined != 1 || got.Judged != 3 {
		t.Errorf("tally %+v", got)
	}
	if len(r.Judged) != 3 || r.Judged[1].Outcome != protocol.Decline || r.Judged[1].Reason != "it is not allowed" || r.Judged[2].N != 3 || !r.Judged[2].ForSession {
		t.Errorf("told: %+v", r.Judged)
	}
}

// TestAPumpReportsAHundredVerdicts has more, so that the oldest are left out.
func TestAPumpReportsAHundredVerdicts(t *testing.T) {
	s := perform(t, underPolicy(running()), Options{Judge: byWords})
	s.hear(started("c-1", "commandExecution", ""))
	for i := range 130 {
		s.hear(asking(i, "c-1", "ok a"), resolvedLine(i))
	}
	s.hear(turnDone("completed", ""))
	r := s.result(TurnEnded)
	if len(r.Judged) != 100 || r.State.Tally.Judged != 130 {
		t.Fatalf("it tells %d of %d verdicts", len(r.Judged), r.State.Tally.Judged)
	}
	for i, j := range r.Judged {
		if j.N != 31+i || j.Outcome != protocol.Accept || j.Digest == "" || j.Rule != "test" || (j.Summary != "") != (i >= 80) || (j.Policy != "") != (i >= 80) {
			t.Errorf("verdict %d is %+v", i, j)
		}
	}
}

func TestWhatThePolicyLeavesToPeopleSaysByWhichRule(t *testing.T) {
	s := perform(t, underPolicy(running()), Options{Judge: byWords})
	s.hear(started("c-1", "commandExecution", ""), asking(0, "c-1", "hm"))
	s.wait(time.Second)
	r := s.result(RequestsOpen)
	s.heard()
	if len(r.Requests) != 1 || r.Requests[0].Ruling == nil || *r.Requests[0].Ruling != (protocol.Ruling{Rule: "test", Reason: "somebody has to look", Policy: aPolicy}) {
		t.Errorf("%+v", r.Requests)
	}
	if got := data(s.sink.entries, protocol.EntryRequest, "rule"); !slices.Equal(got, []string{"test"}) {
		t.Errorf("on record: %q", got)
	}
}

func TestAPolicyThatNobodyCanAskDeclinesEverything(t *testing.T) {
	s := perform(t, underPolicy(running()), Options{})
	s.hear(started("c-1", "commandExecution", ""), asking(0, "c-1", "ok"))
	s.heard(`{"id":0,"result":{"decision":"decline"}}`)
	if got := data(s.sink.entries, protocol.EntryDecision, "rule"); !slices.Equal(got, []string{RuleUnjudged}) {
		t.Errorf("on record: %q", got)
	}
}

// A pump that returned no result is repeated from the same state. A pump that was cancelled
// passes the answer on in its state. In both cases codex gets an answer, and a request that
// it has resolved is not answered again.
func TestAVerdictIsAnsweredOnceInEffectWhateverDies(t *testing.T) {
	asked := []string{started("c-1", "commandExecution", ""), asking(0, "c-1", "ok a")}
	first := perform(t, underPolicy(running()), Options{Judge: byWords}, asked...)
	first.heard(`{"id":0,"result":{"decision":"accept"}}`)

	again := perform(t, underPolicy(running()), Options{Judge: byWords, Attempt: 2}, asked...)
	again.heard(`{"id":0,"result":{"decision":"accept"}}`)
	if !reflect.DeepEqual(again.sink.entries, first.sink.entries) || !reflect.DeepEqual(again.m.st.Tally, first.m.st.Tally) {
		t.Errorf("repeated, the record is\n%+v\n%+v\nand was\n%+v\n%+v", again.sink.entries, again.m.st.Tally, first.sink.entries, first.m.st.Tally)
	}
	resolved := perform(t, underPolicy(running()), Options{Judge: byWords, Attempt: 2}, append(asked, resolvedLine(0))...)
	resolved.heard()
	if resolved.m.st.Owes() {
		t.Error("what codex resolved is still owed")
	}

	// The pump is cancelled before codex has resolved the request. The state keeps the
	// answer.
	first.m.cancel(first.m.now)
	st := first.result(PumpCancelled).State
	if !st.Owes() || st.Tally.InTurn != 1 {
		t.Fatalf("state %+v", st)
	}
	raw, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	var carried PumpState
	if err := json.Unmarshal(raw, &carried); err != nil {
		t.Fatal(err)
	}
	next := perform(t, underPolicy(carried), Options{})
	next.heard(`{"id":0,"result":{"decision":"accept"}}`)
	next.hear(resolvedLine(0), turnDone("completed", ""))
	if r := next.result(TurnEnded); r.State.Owes() || len(r.Resolved)+len(r.Deliveries) != 0 || len(data(next.sink.entries, protocol.EntryDecision, "by")) != 0 {
		t.Errorf("the next pump: %+v, entries %+v", r, next.sink.entries)
	}
	// If the process died, no answer is left for the next process.
	other := carried
	other.Cursor.Incarnation, other.Cursor.Offset, other.Rewind = 4, 0, 0
	in := underPolicy(other)
	in.Thread = ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}
	if fresh := perform(t, in, Options{}); fresh.m.st.Owes() || len(fresh.m.delivery.sends) != 0 {
		t.Errorf("another process is owed %+v", fresh.m.st.Open)
	}
}

// While codex has not taken an answer yet, the pump must not return to let a person think
// about another request.
func TestPeopleAreAskedOnceThePolicysAnswersHaveArrived(t *testing.T) {
	s := perform(t, underPolicy(running()), Options{Judge: byWords})
	s.hear(started("c-1", "commandExecution", ""), started("c-2", "commandExecution", ""), asking(0, "c-1", "ok"), asking(1, "c-2", "hm"))
	s.wait(500 * time.Millisecond)
	s.attached()
	s.hear(resolvedLine(0))
	s.wait(500 * time.Millisecond)
	if r := s.result(RequestsOpen); len(r.Requests) != 1 || !r.Busy || r.State.Owes() {
		t.Errorf("%+v", r)
	}
	// A slow codex does not keep requests from people forever.
	s = perform(t, underPolicy(running()), Options{Judge: byWords})
	s.hear(started("c-1", "commandExecution", ""), started("c-2", "commandExecution", ""), asking(0, "c-1", "ok"), asking(1, "c-2", "hm"))
	s.wait(5 * time.Second)
	if r := s.result(RequestsOpen); len(r.Requests) != 1 || !r.Busy || !r.State.Owes() {
		t.Errorf("without an answer: %+v", r)
	}
}

func TestThePolicySeesTheWholeAndBothEndsOfAMove(t *testing.T) {
	secret := "hunter2-hunter2"
	var seen []Asked
	opt := Options{Redactor: NewRedactor(secret), Judge: func(a Asked) Verdict { seen = append(seen, a); return Verdict{Policy: aPolicy} }}
	in := underPolicy(running())
	in.Thread.Model = "m-1"
	s := perform(t, in, opt)
	s.hear(started("f-1", "fileChange", `,"changes":[{"path":"/w/a","kind":{"type":"update","move_path":"/etc/b"},"diff":"x"}]`),
		`{"method":"item/fileChange/requestApproval","id":0,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":"f-1","startedAtMs":2000,"grantRoot":"/w"}}`,
		`{"method":"item/commandExecution/requestApproval","id":1,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":"c-1","startedAtMs":2000,"command":"echo `+secret+`","cwd":"/w","networkApprovalContext":{"host":"example.com","protocol":"https"}}}`)
	if len(seen) != 2 {
		t.Fatalf("judged %+v", seen)
	}
	if want := []AskedChange{{"/w/a", "update", "/etc/b"}}; !reflect.DeepEqual(seen[0].Changes, want) || seen[0].GrantRoot != "/w" {
		t.Errorf("a move: %+v", seen[0])
	}
	if seen[1].Command != "echo "+secret || seen[1].NetworkHost != "example.com" || seen[1].Model != "m-1" || seen[1].Turn != 4 || seen[1].Digest == "" {
		t.Errorf("a command: %+v", seen[1])
	}
	for _, e := range s.sink.entries {
		if strings.Contains(e.Text+e.Command, secret) {
			t.Errorf("the secret is on record: %+v", e)
		}
	}
}

func TestCountsAreOfTheTurnTheMinuteAndTheSession(t *testing.T) {
	var tally Tally
	for _, at := range []int64{1000, 1500, 30_000, 61_500} {
		tally.count(4, at)
	}
	if got := tally.counts(4, 62_000); got != (Counts{InTurn: 4, InMinute: 2, InSession: 4}) {
		t.Errorf("%+v", got)
	}
	// The whole second in which the minute begins counts, so the count is too high rather
	// than too low.
	if got := tally.counts(4, 61_900); got.InMinute != 4 {
		t.Errorf("a little earlier: %+v", got)
	}
	if got := tally.counts(5, 200_000); got != (Counts{InSession: 4}) {
		t.Errorf("another turn, minutes later: %+v", got)
	}
	for i := range int64(10_000) {
		tally.count(5, 200_000+i*100)
	}
	if len(tally.Minute) > 62 || tally.InTurn != 10_000 || tally.InSession != 10_004 {
		t.Errorf("%d seconds are kept, %+v", len(tally.Minute), tally.InTurn)
	}
}

func TestDecisionsOfPeopleAreCountedOnce(t *testing.T) {
	st := running()
	st.Open = []OpenRequest{openRequest(0, "c"), openRequest(1, "d")}
	in := underPolicy(st)
	in.Sends = []Send{decision("a", 0, protocol.Accept), decision("b", 1, protocol.Decline)}
	s := perform(t, in, Options{Judge: byWords})
	s.m.cancel(0)
	st = s.result(PumpCancelled).State
	if st.Tally.Accepted != 1 || st.Tally.Declined != 1 {
		t.Errorf("%+v", st.Tally)
	}
	in.State = st
	s = perform(t, in, Options{Judge: byWords})
	if s.m.st.Tally.Accepted != 1 || s.m.st.Tally.Declined != 1 {
		t.Errorf("sent again, it is %+v", s.m.st.Tally)
	}
}

func TestThePolicySeesWhatAToolIsCalledWith(t *testing.T) {
	for args, want := range map[string]string{
		`{"for":"two"}`: `{"for":"two"}`, `{ "z":1.0, "a":["<",{"c":1,"b":"\u2028ä"}] }`: `{"a":["<",{"b":"\u2028ä","c":1}],"z":1.0}`, `null`: "",
		`{"text":"` + strings.Repeat("x", maxArguments) + `"}`: "", // too large to be judged: a rule that looks at it has people asked
	} {
		var seen []Asked
		opt := Options{Judge: func(a Asked) Verdict { seen = append(seen, a); return Verdict{Rule: "r"} }}
		in := PumpInput{State: running(), Policy: strings.Repeat("ab", 32)}
		s := perform(t, in, opt)
		s.hear(strings.Replace(toolBegun, `{"for":"two"}`, args, 1),
			family{method: methodElicitation, params: strings.Replace(askedTool, `{"for":"two"}`, args, 1)}.line(7))
		if len(seen) != 1 || seen[0].Tool != "book" || seen[0].Arguments != want {
			t.Errorf("%s: judged %+v, want %s", args, seen, want)
		}
	}
}
