package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

const hidden = "made-up-word"

func callsTool(id int, tool, args string) string {
	return fmt.Sprintf(`{"method":"item/tool/call","id":%d,"params":{"threadId":%q,"turnId":%q,"callId":"call_%d","namespace":null,"tool":%q,"arguments":%s}}`, id, ourThread, ourTurn, id, tool, args)
}

func offering(st PumpState) PumpInput {
	return PumpInput{State: st, Thread: ThreadSpec{Tools: protocol.Tools}}
}

// reply gives the outcome of a call to the machine, as the driver does.
func (s *stage) reply(key string, r ToolReply, err error) {
	s.m.toolReplied(toolReplied{key, r, err}, s.m.now)
	s.collect()
}

func answered(id int, ok bool, text string) string {
	return fmt.Sprintf(`{"id":%d,"result":{"contentItems":[{"type":"inputText","text":%q}],"success":%v}}`, id, text, ok)
}

func TestACallIsAnsweredOnceItIsCarriedOut(t *testing.T) {
	opt := Options{Tool: (&bench{}).tool, Redactor: NewRedactor(hidden)}
	s := perform(t, offering(running()), opt)
	s.hear(started("call_7", "dynamicToolCall", ""), callsTool(7, "deliver", `{"path":"a"}`))
	if len(s.m.calls.due) != 1 || s.m.calls.due[0].ID == "" || s.m.calls.due[0].Call != "call_7" || string(s.m.calls.due[0].Args) != `{"path":"a"}` {
		t.Fatalf("to be carried out: %+v", s.m.calls.due)
	}
	id := s.m.calls.due[0].ID
	s.m.calls.due = nil
	s.hear(started("m", "agentMessage", "")) // no call is handed to the driver twice
	if len(s.m.calls.due) != 0 {
		t.Fatalf("carried out again: %+v", s.m.calls.due)
	}
	s.wait(time.Minute)
	s.attached()
	s.said = nil
	s.reply("7", ToolReply{Text: "took made-up-word", OK: true}, nil)
	s.heard(answered(7, true, "took "+NewRedactor(hidden).String(hidden)))
	if len(s.m.st.Calls) != 1 {
		t.Error("it is not known that codex has the answer, and the call is forgotten")
	}

	// A pump that takes over before codex has confirmed the reply begins with the same
	// call.
	next := offering(s.m.st)
	next.State.Rewind = next.State.Cursor.Offset
	n := perform(t, next, opt)
	if len(n.m.calls.due) != 1 || n.m.calls.due[0].ID != id {
		t.Errorf("the next pump carries out %+v", n.m.calls.due)
	}
	// A pump that finds the confirmation in the journal does not carry out the call.
	n = perform(t, next, opt, resolvedLine(7))
	if len(n.m.calls.due) != 0 || len(n.m.st.Calls) != 0 {
		t.Errorf("carried out although it was answered: %+v", n.m.calls.due)
	}
	n.heard()

	s.hear(resolvedLine(7), completed("call_7", "dynamicToolCall", `,"tool":"deliver","status":"completed","contentItems":[{"type":"inputText","text":"took it"}]`))
	if len(s.m.st.Calls) != 0 {
		t.Errorf("still open: %+v", s.m.st.Calls)
	}
}

// A call that cannot be carried out is answered at once. The answer says what the model can
// do.
func TestCallsThatCannotBeAreAnsweredAtOnce(t *testing.T) {
	long := strings.Repeat("x", maxCallArgs)
	for _, c := range []struct{ tool, args, want string }{
		{"deliver", `{"path":"` + long + `"}`, "at most 8192 are taken"},
		{"report_progress", `{"text":" \n "}`, "text is empty"},
		{"report_progress", `{"text":7}`, "not as described"},
		{"report_progress", `7`, "not as described"},
		{"lookup_ticket", `{}`, "this session offers no such tool"},
	} {
		s := perform(t, offering(running()), Options{Tool: (&bench{}).tool})
		s.hear(callsTool(7, c.tool, c.args))
		if len(s.said) != 1 || !strings.Contains(s.said[0], `"success":false`) || !strings.Contains(s.said[0], c.want) || len(s.m.st.Calls) != 0 {
			t.Errorf("%s got %q, want %q", c.tool, s.said, c.want)
		}
		// A later pump finds in the journal that the call was answered.
		s = perform(t, offering(running()), Options{Attempt: 2}, callsTool(7, c.tool, c.args), resolvedLine(7))
		s.heard()
	}
	// The session does not offer this tool.
	s := perform(t, PumpInput{State: running()}, Options{Tool: (&bench{}).tool})
	s.hear(callsTool(7, "deliver", `{"path":"a"}`))
	if len(s.said) != 1 || !strings.Contains(s.said[0], "offers no such tool") {
		t.Errorf("said %q", s.said)
	}
	// If there are more calls than are carried out at the same time, the model is told to
	// make the rest later.
	s = perform(t, offering(running()), Options{Tool: (&bench{}).tool})
	for i := range maxCalls + 1 {
		s.hear(callsTool(i, "deliver", `{"path":"a"}`))
	}
	if len(s.m.calls.due) != maxCalls || len(s.said) != 1 || !strings.Contains(s.said[0], "Call again when") {
		t.Errorf("%d are carried out, said %q", len(s.m.calls.due), s.said)
	}
	// There is no Tooler to carry out the call.
	s = perform(t, offering(running()), Options{})
	s.hear(callsTool(7, "deliver", `{"path":"a"}`))
	if len(s.said) != 1 || !strings.Contains(s.said[0], `"success":false`) {
		t.Errorf("said %q", s.said)
	}
}

func TestProgressIsKeptShortCleanAndNewest(t *testing.T) {
	opt := Options{Redactor: NewRedactor(hidden)}
	s := perform(t, offering(running()), opt)
	s.hear(callsTool(1, "report_progress", `{"text":"old","percent":10}`), callsTool(2, "report_progress", `{"text":"the\n key is made-up-word `+strings.Repeat("é", 400)+`","percent":250,"step":"`+strings.Repeat("s", 100)+`"}`))
	s.heard(answered(1, true, "Taken."), answered(2, true, "Taken; only the first 500 bytes are shown."))
	p := s.m.st.Progress
	if p == nil || !strings.HasPrefix(p.Text, "the key is "+placeholder) || strings.Contains(p.Text, hidden) || len(p.Text) > protocol.MaxProgress || strings.Contains(p.Text, "\ufffd") || *p.Percent != 100 || len(p.Step) != maxStep || p.Turn != 4 {
		t.Fatalf("progress %+v", p)
	}
	s.hear(turnDone("completed", ""))
	if got := s.result(TurnEnded).State.Progress; got == nil || got.Text != p.Text {
		t.Errorf("behind the turn: %+v", got)
	}
	// The next turn begins without a progress report.
	in := offering(s.m.st)
	in.Sends = []Send{turn(5, "m", "go")}
	n := perform(t, in, opt)
	n.hear(`{"id":"send/m/0","result":{"turn":{"id":"turn-2"}}}`)
	if n.m.st.Progress != nil {
		t.Errorf("the next turn begins with %+v", n.m.st.Progress)
	}
}

// A person's request waits for a call only for a moment. A call that takes long is
// carried out again by the next pump.
func TestACallKeepsNoApprovalWaiting(t *testing.T) {
	s := perform(t, offering(running()), Options{Tool: (&bench{}).tool})
	s.hear(started("call_7", "dynamicToolCall", ""), started("c1", "commandExecution", ""), callsTool(7, "deliver", `{"path":"a"}`), asking(0, "c1", "ls"))
	s.wait(callGrace - time.Millisecond)
	s.attached()
	s.wait(time.Second)
	r := s.result(RequestsOpen)
	if !r.Busy || len(r.State.Calls) != 1 || len(r.Requests) != 1 {
		t.Fatalf("result %+v", r)
	}
	// The next pump has nothing to report and stays for the call.
	n := perform(t, offering(r.State), Options{Tool: (&bench{}).tool})
	n.wait(time.Minute)
	n.attached()
	if len(n.m.calls.due) != 1 {
		t.Errorf("carried out: %+v", n.m.calls.due)
	}
	n.reply("7", ToolReply{Text: "done", OK: true}, nil)
	n.hear(resolvedLine(7), completed("call_7", "dynamicToolCall", ""))
	n.wait(linger)
	n.result(RequestsOpen)
}

func TestCallsEndWithWhatTheyWereFor(t *testing.T) {
	open := func() *stage {
		s := perform(t, offering(running()), Options{Tool: (&bench{}).tool})
		s.hear(callsTool(7, "deliver", `{"path":"a"}`))
		return s
	}
	s := open()
	s.hear(turnDone("interrupted", ""))
	if r := s.result(TurnEnded); len(r.State.Calls) != 0 {
		t.Errorf("behind its turn: %+v", r.State.Calls)
	}
	s.reply("7", ToolReply{Text: "too late", OK: true}, nil)
	s.heard()

	s = open()
	s.m.ended(0)
	if r := s.result(ProcessEnded); len(r.State.Calls) != 0 {
		t.Errorf("behind its process: %+v", r.State.Calls)
	}

	// A failure ends the pump, and the next pump carries out the call again.
	s = open()
	why := errors.New("no store")
	s.reply("7", ToolReply{}, why)
	if !errors.Is(s.m.err, why) || len(s.said) != 0 {
		t.Errorf("error %v, said %q", s.m.err, s.said)
	}

	// Another codex process never made the call.
	st := running()
	st.Cursor.Incarnation++
	st.Calls = []OpenCall{{RPC: json.RawMessage("7"), ToolCall: ToolCall{ID: "i3.1", Tool: "deliver"}}}
	in := offering(st)
	in.Thread.CWD, in.Thread.Sandbox, in.Thread.ApprovalPolicy = "/w", "read-only", "never"
	if s = perform(t, in, Options{Tool: (&bench{}).tool}); len(s.m.calls.due) != 0 || len(s.m.st.Calls) != 0 {
		t.Errorf("carried out for a process that is gone: %+v", s.m.calls.due)
	}
}

func TestTheEndOfItsItemEndsACall(t *testing.T) {
	in := offering(running())
	in.State.Open = []OpenRequest{{RPC: json.RawMessage("8"), Reported: true, Item: "call_8", TurnID: ourTurn}}
	in.Sends = []Send{{ID: "d", Kind: SendDecision, RPC: json.RawMessage("8"), Incarnation: 3, Method: methodToolCall, RequestKind: protocol.KindUserInput, Outcome: protocol.Decline}}
	s := perform(t, in, Options{Tool: (&bench{}).tool})
	s.hear(started("call_7", "dynamicToolCall", ""), callsTool(7, "deliver", `{"path":"a"}`))
	s.reply("7", ToolReply{Text: "done", OK: true}, nil)
	s.hear(completed("call_7", "dynamicToolCall", ""), completed("call_8", "dynamicToolCall", ""))
	if len(s.m.st.Calls) != 0 || len(s.m.st.Open) != 0 {
		t.Errorf("calls %+v, requests %+v are open", s.m.st.Calls, s.m.st.Open)
	}
	s.hear(turnDone("completed", ""))
	if got := delivered(t, s.result(TurnEnded), "d"); got != protocol.Acknowledged {
		t.Errorf("the answer is %s", got)
	}
}

func TestAPumpThatIsCalledBackLeavesTheCallToTheNextOne(t *testing.T) {
	s := perform(t, offering(running()), Options{Tool: (&bench{}).tool})
	s.hear(callsTool(7, "deliver", `{"path":"a"}`))
	s.m.cancel(0)
	if r := s.result(PumpCancelled); len(r.State.Calls) != 1 {
		t.Errorf("calls %+v", r.State.Calls)
	}
	s.reply("7", ToolReply{Text: "too late", OK: true}, nil)
	s.heard()
}

func TestOurToolsAreGivenToThreadsThatBegin(t *testing.T) {
	in := PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never", Tools: protocol.Tools}}
	s := perform(t, in, Options{})
	s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`)
	for _, tool := range protocol.Tools {
		if !strings.Contains(s.said[2], `{"type":"function","name":"`+tool+`","description":"`) {
			t.Errorf("%s is not in %s", tool, s.said[2])
		}
	}
	in.State.ThreadID, in.Resume = ourThread, true
	s = perform(t, in, Options{})
	s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`)
	if strings.Contains(s.said[2], "dynamicTools") {
		t.Errorf("codex takes none at a resume: %s", s.said[2])
	}
	in.Thread.Tools = []string{"deliver", "deliver"}
	in.Prefix = "p"
	if _, err := newMachine(in, newKeeper(), Options{}, 0); err == nil {
		t.Error("a tool may be named twice")
	}
	in.Thread.Tools = []string{"rm"}
	if _, err := newMachine(in, newKeeper(), Options{}, 0); err == nil {
		t.Error("a tool of somebody else's may be named")
	}
}

func TestHumanQuestions(t *testing.T) {
	qs, err := humanQuestion([]byte(`{"question":"Which?","choices":["a","b"],"many":true}`))
	if err != nil || len(qs) != 1 || qs[0].Other || !qs[0].Many || len(qs[0].Options) != 2 || qs[0].Options[1].Label != "b" {
		t.Errorf("%+v, %v", qs, err)
	}
	qs, err = humanQuestion([]byte(`{"question":"Why?","many":true}`))
	if err != nil || !qs[0].Other || qs[0].Many {
		t.Errorf("%+v, %v", qs, err)
	}
	for _, bad := range []string{`{}`, `{"question":" "}`, `7`, `{"question":"q","choices":["a","a"]}`, `{"question":"q","choices":[""]}`, `{"question":"` + strings.Repeat("q", maxQuestion+1) + `"}`} {
		if _, err := humanQuestion([]byte(bad)); err == nil {
			t.Errorf("%.60s passes", bad)
		}
	}
	if r := humanAnswer(map[string][]string{"answer": {"a", "b"}}); r.Text != "a\nb" || !r.OK {
		t.Errorf("%+v", r)
	}
	if r := humanSilence("it expired"); r.OK || !strings.Contains(r.Text, "it expired") {
		t.Errorf("%+v", r)
	}
}

// A team's tools stand beside ours when the thread begins. A call of one is carried out; a
// call of a tool that the session does not have is refused.
func TestToolsOfATeamAreOfferedAndCarriedOut(t *testing.T) {
	team := []protocol.TeamTool{{Name: "lookup", Description: "Look up.", Schema: json.RawMessage(`{"type":"object"}`)}}
	s := perform(t, PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, Thread: ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never", Tools: []string{protocol.ToolProgress}, Team: team}}, Options{})
	s.hear(`{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`)
	if all := strings.Join(s.said, "\n"); !strings.Contains(all, `"name":"report_progress"`) || !strings.Contains(all, `{"type":"function","name":"lookup","description":"Look up.","inputSchema":{"type":"object"}}`) {
		t.Errorf("the thread begins with %s", all)
	}
	in := PumpInput{State: running(), Thread: ThreadSpec{Team: team}}
	n := perform(t, in, Options{Tool: (&bench{}).tool})
	n.hear(callsTool(7, "lookup", `{"id":"a"}`), callsTool(8, "deliver", `{"path":"a"}`))
	if len(n.m.calls.due) != 1 || n.m.calls.due[0].Tool != "lookup" || string(n.m.calls.due[0].Args) != `{"id":"a"}` {
		t.Errorf("to be carried out: %+v", n.m.calls.due)
	}
}
