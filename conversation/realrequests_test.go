package conversation

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// These tests make the real codex, in each version, send every family of requests that it
// can be made to send. Each test has the lines of config.toml that switch on the needed
// features of codex.

// outside returns a folder that is not writable in any sandbox.
func outside(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/srv", "fairlead-outside-") // below /tmp it would be writable
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // leftovers do no harm
	return dir
}

func exists(name string) bool { _, err := os.Lstat(name); return err == nil }

// one returns the only request of a result.
func one(t *testing.T, r PumpResult, kind protocol.RequestKind, offered string) protocol.Request {
	t.Helper()
	if len(r.Requests) != 1 || r.Requests[0].Kind != kind || strings.Join(r.Requests[0].Offered, " ") != offered {
		t.Fatalf("requests %+v", r.Requests)
	}
	return r.Requests[0]
}

func permissionsAreAskedFor(t *testing.T, c *codex) {
	given, kept := outside(t), outside(t)
	k := c.talk(t, scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - when: {contains: ask}
    steps:
      - call: {name: request_permissions, arguments: {reason: need it, permissions: {network: {enabled: true}, file_system: {write: [%q, %q]}}}}
      - say: "{{ .LastToolOutput }}"
  - steps:
      - shell: {cmd: "touch %s/{{ .LastUser }} %s/{{ .LastUser }}"}
      - say: done
`, given, kept, given, kept)))
	k.configure("…\nrequest_permissions_tool = true\n")
	r := k.pump(RequestsOpen, turn(1, "m-1", "ask"))
	q := one(t, r, protocol.KindPermissions, "accept accept_for_session grant decline")
	if q.Reason != "need it" || q.CWD != k.h.work || !strings.Contains(q.Summary, "use the network") || !strings.Contains(q.Summary, "write "+given) {
		t.Errorf("asked %+v", q)
	}
	grant, err := Part{Write: []string{given}}.Of(q.Permissions)
	if err != nil {
		t.Fatal(err)
	}
	d := decide("d-1", q, protocol.Grant)
	d.Grant, d.ForSession = grant, true
	r = k.pump(TurnEnded, d)
	if got := r.Turn.FinalText; !strings.Contains(got, given) || strings.Contains(got, kept) || !strings.Contains(got, `"scope":"session"`) || strings.Contains(got, `"enabled":true`) {
		t.Errorf("the model had %q", got)
	}
	k.pump(TurnEnded, turn(2, "m-2", "mark"))
	if !exists(filepath.Join(given, "mark")) || exists(filepath.Join(kept, "mark")) {
		t.Error("the grant is not what codex lets happen")
	}
	// The first answer grants everything, the second nothing.
	r = k.pump(RequestsOpen, turn(3, "m-3", "ask"))
	if again := one(t, r, protocol.KindPermissions, "accept accept_for_session grant decline"); again.Digest != q.Digest {
		t.Error("the same ask has another digest")
	}
	if r = k.pump(TurnEnded, decide("d-3", r.Requests[0], protocol.Accept)); !strings.Contains(r.Turn.FinalText, kept) || !strings.Contains(r.Turn.FinalText, `"enabled":true`) {
		t.Errorf("the model had %q", r.Turn.FinalText)
	}
	r = k.pump(RequestsOpen, turn(4, "m-4", "ask"))
	if r = k.pump(TurnEnded, decide("d-4", r.Requests[0], protocol.Decline)); !strings.Contains(r.Turn.FinalText, `"file_system":null`) {
		t.Errorf("the model had %q", r.Turn.FinalText)
	}
}

func permissionsBesideACommand(t *testing.T, c *codex) {
	dir := outside(t)
	k := c.talk(t, scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - steps:
      - call: {name: exec_command, arguments: {cmd: "touch %[1]s/made", sandbox_permissions: with_additional_permissions, justification: why, additional_permissions: {file_system: {write: [%[1]q]}}}}
      - say: done
`, dir)))
	k.configure("…\nexec_permission_approvals = true\nrequest_permissions_tool = true\n")
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	q := one(t, r, protocol.KindCommand, "accept accept_for_session decline cancel")
	if len(q.Permissions) == 0 || !strings.Contains(q.Summary, "being allowed to write "+dir) {
		t.Errorf("asked %+v", q)
	}
	k.pump(TurnEnded, decide("d", q, protocol.Accept))
	if !exists(filepath.Join(dir, "made")) {
		t.Error("it was not run, or not with what was asked for")
	}
}

func questionsAreAnswered(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - call: {name: request_user_input, arguments: {questions: [{id: colour, header: Colour, question: "Which colour?", options: [{label: red, description: is red}, {label: blue, description: is blue}]}]}}
      - say: "{{ .LastToolOutput }}"
`))
	k.configure("…\ndefault_mode_request_user_input = true\n")
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	q := one(t, r, protocol.KindUserInput, "answer decline")
	want := []protocol.Question{{ID: "colour", Header: "Colour", Text: "Which colour?", Other: true, Options: []protocol.Choice{{Label: "red", Description: "is red"}, {Label: "blue", Description: "is blue"}}}}
	if string(canonical(q.Questions)) != string(canonical(want)) || q.Summary != "Which colour?" {
		t.Errorf("asked %+v", q)
	}
	d := decide("d-1", q, protocol.Answer)
	d.Answers = map[string][]string{"colour": {"violet"}}
	if r = k.pump(TurnEnded, d); r.Turn.FinalText != `{"answers":{"colour":{"answers":["violet"]}}}` {
		t.Errorf("the model had %q", r.Turn.FinalText)
	}
	r = k.pump(RequestsOpen, turn(2, "m-2", "go"))
	if r = k.pump(TurnEnded, decide("d-2", r.Requests[0], protocol.Decline)); r.Turn.FinalText != `{"answers":{}}` {
		t.Errorf("the model had %q", r.Turn.FinalText)
	}
}

func humanIsAsked(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - call: {name: ask_human, arguments: {question: "Ship it?", choices: ["yes", "no"]}}
      - say: "{{ .LastToolOutput }}"
`))
	k.spec.Tools = []string{protocol.ToolAskHuman}
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	q := one(t, r, protocol.KindUserInput, "answer decline")
	if q.Tool != protocol.ToolAskHuman || q.Summary != "Ship it?" {
		t.Errorf("asked %+v", q)
	}
	d := decide("d-1", q, protocol.Answer)
	d.Answers = map[string][]string{"answer": {"no"}}
	if r = k.pump(TurnEnded, d); r.Turn.FinalText != "no" || len(r.Deliveries) != 1 || r.Deliveries[0].State != protocol.Acknowledged {
		t.Errorf("the model had %q, and the answer is %+v", r.Turn.FinalText, r.Deliveries)
	}
	if got := delivered(t, r, "d-1"); got != protocol.Acknowledged {
		t.Errorf("the answer is %s", got)
	}
	r = k.pump(RequestsOpen, turn(2, "m-2", "go"))
	d = decide("d-2", r.Requests[0], protocol.Decline)
	d.Reason = "I am away"
	if r = k.pump(TurnEnded, d); len(r.Deliveries) != 1 || r.Deliveries[0].State != protocol.Acknowledged || !strings.Contains(r.Turn.FinalText, "not answered: I am away") {
		t.Errorf("the model had %q", r.Turn.FinalText)
	}
}

// desk returns a codex with the MCP server. The model calls its tool with the words
// of each message.
func (c *codex) desk(t *testing.T, ask string) (*talk, *mcpServer) {
	t.Helper()
	space := "mcp__desk"
	if v, _ := wire.Numbers(c.version); wire.Older(v, [3]int{0, 140, 0}) {
		space += "__"
	}
	m := serveMCP(t, ask)
	k := c.talk(t, scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - steps:
      - call: {name: book, namespace: %s, arguments: {for: "{{ .LastUser }}"}}
      - say: "{{ .LastToolOutput }}"
`, space)))
	k.configure("…\n" + m.config())
	return k, m
}

func toolsOfServersNeedAYes(t *testing.T, c *codex) {
	k, m := c.desk(t, "")
	const offered = "accept accept_for_session decline cancel"
	for n, o := range []protocol.Outcome{protocol.Decline, protocol.Cancel, protocol.Accept, protocol.Accept} {
		r := k.pump(RequestsOpen, turn(n+1, fmt.Sprint("m-", n), fmt.Sprint("guest ", n)))
		q := one(t, r, protocol.KindElicitation, offered)
		if q.Server != "desk" || q.Tool != "book" || q.Args != fmt.Sprintf(`{"for":"guest %d"}`, n) || r.Busy {
			t.Errorf("asked %+v, busy %v", q, r.Busy)
		}
		d := decide(fmt.Sprint("d-", n), q, o)
		d.ForSession = true // codex is told to accept only this call: it still asks for the next one
		before := m.called()
		r = k.pump(TurnEnded, d)
		if got := m.called() - before; (o == protocol.Accept) != (got == 1) || r.Turn.Status != "completed" {
			t.Errorf("%s: called %d times, turn %+v", o, got, r.Turn)
		}
	}
}

func formsOfServersAreFilledIn(t *testing.T, c *codex) {
	k, _ := c.desk(t, `{"message":"For whom?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Name","description":"your name","minLength":2},"seats":{"type":"integer","minimum":1,"maximum":8},"window":{"type":"boolean","default":true},"meal":{"type":"string","enum":["fish","meat"]}},"required":["name","seats"]}}`)
	fill := func(n int, o protocol.Outcome, answers map[string][]string) string {
		r := k.pump(RequestsOpen, turn(n, fmt.Sprint("m-", n), "go"))
		r = k.pump(RequestsOpen, decide(fmt.Sprint("a-", n), one(t, r, protocol.KindElicitation, "accept accept_for_session decline cancel"), protocol.Accept))
		q := one(t, r, protocol.KindElicitation, "answer decline cancel")
		if q.Server != "desk" || q.Reason != "For whom?" || len(q.Questions) != 4 || q.Questions[2].Type != "integer" || q.Questions[0].Options[1].Label != "meat" {
			t.Errorf("asked %+v", q)
		}
		d := decide(fmt.Sprint("d-", n), q, o)
		d.Answers = answers
		return k.pump(TurnEnded, d).Turn.FinalText
	}
	got := fill(1, protocol.Answer, map[string][]string{"name": {"Ann"}, "seats": {"2"}, "meal": {"fish"}})
	if !strings.Contains(plain(got), `{"action":"accept","content":{"meal":"fish","name":"Ann","seats":2,"window":true}}`) {
		t.Errorf("the server had %q", got)
	}
	for n, o := range []protocol.Outcome{protocol.Decline, protocol.Cancel} {
		if got := fill(n+2, o, nil); !strings.Contains(plain(got), fmt.Sprintf(`"action":"%s"`, o)) {
			t.Errorf("the server had %q", got)
		}
	}
}

// plain undoes the quoting of JSON within JSON.
func plain(s string) string { return strings.ReplaceAll(s, `\`, "") }

func pagesOfServersAreShown(t *testing.T, c *codex) {
	k, _ := c.desk(t, `{"mode":"url","message":"Sign in","url":"https://example.com/sign-in","elicitationId":"e-1"}`)
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	r = k.pump(RequestsOpen, decide("a-1", r.Requests[0], protocol.Accept))
	q := one(t, r, protocol.KindElicitation, "accept decline cancel")
	if q.URL != "https://example.com/sign-in" || q.Reason != "Sign in" {
		t.Errorf("asked %+v", q)
	}
	if r = k.pump(TurnEnded, decide("d-1", q, protocol.Accept)); !strings.Contains(plain(r.Turn.FinalText), `"action":"accept"`) {
		t.Errorf("the server had %q", r.Turn.FinalText)
	}
}

// amendmentsAreRules shows that after an amendment codex does not ask again in any thread
// of the home. Therefore amendments must be permitted explicitly.
func amendmentsAreRules(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "touch {{ .LastUser }}", escalate: true, justification: why, prefix_rule: [touch]}
      - say: done
`))
	amend := func(in PumpInput, want PumpReason) PumpResult {
		in.Amend = true
		r := k.run(t.Context(), in)
		if r.Reason != want {
			t.Fatalf("the pump returned for %s: %+v", r.Reason, r)
		}
		return r
	}
	r := k.pump(RequestsOpen, turn(1, "m-1", "one"))
	one(t, r, protocol.KindCommand, "accept accept_for_session decline cancel")
	k.pump(TurnEnded, decide("d-1", r.Requests[0], protocol.Decline))
	r = amend(k.input(turn(2, "m-2", "two")), RequestsOpen)
	q := one(t, r, protocol.KindCommand, "accept accept_for_session decline cancel amend")
	if !slices.Equal(q.Amendment, []string{"run whatever begins with: touch"}) {
		t.Errorf("amendment %q", q.Amendment)
	}
	amend(k.input(decide("d-2", q, protocol.Amend)), TurnEnded)
	rules, err := os.ReadFile(filepath.Join(k.h.dir, "rules", "default.rules"))
	if err != nil || !strings.Contains(string(rules), `prefix_rule(pattern=["touch"], decision="allow")`) {
		t.Errorf("rules %q, %v", rules, err)
	}
	k.pump(TurnEnded, turn(3, "m-3", "three"))
	if exists(filepath.Join(k.h.work, "one")) || !exists(filepath.Join(k.h.work, "two")) || !exists(filepath.Join(k.h.work, "three")) {
		t.Error("not what was decided is there")
	}
}

// firstAnswerCounts shows that a second answer to the same request changes nothing,
// whatever it says.
func firstAnswerCounts(t *testing.T, c *codex) {
	type try struct {
		k           *talk
		first, then string
		want        string
	}
	asks := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - when: {contains: more}
    steps:
      - call: {name: request_permissions, arguments: {reason: r, permissions: {network: {enabled: true}}}}
      - say: "{{ .LastToolOutput }}"
  - when: {contains: human}
    steps:
      - call: {name: ask_human, arguments: {question: "Ship it?"}}
      - say: "{{ .LastToolOutput }}"
  - steps:
      - call: {name: request_user_input, arguments: {questions: [{id: a, header: A, question: "A?", options: [{label: x, description: y}, {label: z, description: y}]}]}}
      - say: "{{ .LastToolOutput }}"
`))
	asks.spec.Tools = []string{protocol.ToolAskHuman}
	asks.configure("…\nrequest_permissions_tool = true\ndefault_mode_request_user_input = true\n")
	desk, m := c.desk(t, "")
	n := 0
	for text, try := range map[string]try{
		"more":      {asks, `{"permissions":{"network":{"enabled":true}},"scope":"turn"}`, `{"permissions":{},"scope":"turn"}`, `"enabled":true`},
		"human":     {asks, `{"success":true,"contentItems":[{"type":"inputText","text":"first"}]}`, `{"success":true,"contentItems":[{"type":"inputText","text":"then"}]}`, "first"},
		"questions": {asks, `{"answers":{"a":{"answers":["x"]}}}`, `{"answers":{"a":{"answers":["z"]}}}`, `["x"]`},
		"desk":      {desk, `{"action":"decline"}`, `{"action":"accept"}`, "rejected"},
	} {
		n++
		r := try.k.pump(RequestsOpen, turn(n, fmt.Sprint("m-", n), text))
		id, before := string(r.Requests[0].RPC), bytes.Count(try.k.p.bytes(), []byte(`"method":"turn/completed"`))
		lines := fmt.Sprintf("{\"id\":%[1]s,\"result\":%[2]s}\n{\"id\":%[1]s,\"result\":%[3]s}\n", id, try.first, try.then)
		if _, err := try.k.p.stdin.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
		try.k.sink.await(t, "the end of the turn", func() bool { return bytes.Count(try.k.p.bytes(), []byte(`"method":"turn/completed"`)) > before })
		got := try.k.pump(TurnEnded)
		if got.Turn == nil || !strings.Contains(got.Turn.FinalText, try.want) {
			t.Errorf("%s: turn %+v", text, got.Turn)
		}
	}
	if m.called() != 0 {
		t.Error("a tool was called that somebody declined first")
	}
}

// If a turn that waits for a person is interrupted, the same pump reports the turn's end,
// and codex gets no answer to the request.
func TestInterruptEndsATurnThatWaitsForAnApproval(t *testing.T) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "printf made > made", escalate: true, justification: May I?}
      - say: never
`)
	k := talkAt(t, newHome(t, s))
	k.spec.Sandbox = "read-only"
	r := k.pump(RequestsOpen, turn(1, "m-1", "make it"))
	if len(r.Requests) != 1 {
		t.Fatalf("requests %+v", r.Requests)
	}
	r = k.pump(TurnEnded, Send{ID: "i-1", Kind: SendInterrupt})
	if r.Turn.Status != "interrupted" || delivered(t, r, "i-1") != protocol.Acknowledged || len(r.State.Open) != 0 {
		t.Errorf("turn %+v, open %+v, deliveries %+v", r.Turn, r.State.Open, r.Deliveries)
	}
	if sent := string(k.p.sent.bytes()); strings.Contains(sent, `"decision"`) {
		t.Errorf("codex was sent\n%s", sent)
	}
	if _, err := os.Stat(filepath.Join(k.h.work, "made")); !os.IsNotExist(err) {
		t.Errorf("the command ran all the same (%v)", err)
	}
}
