package conversation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/deploy/scriptedmodel"
)

// Behaviours that are tried below the pump, one request at a time, since the
// pump would never say what is tried here.

// A line talks to a codex request by request.
type line struct {
	*Conn
	t     *testing.T
	k     *talk
	asked chan *Incoming
	notes chan message
}

// line opens a conversation without a thread.
func (c *codex) line(t *testing.T, k *talk) *line {
	t.Helper()
	l := &line{t: t, k: k, asked: make(chan *Incoming, 100), notes: make(chan message, 10_000)}
	l.Conn = NewConn(k.p.wire(0), ConnConfig{
		Ask:    func(in *Incoming) { l.asked <- in },
		Notify: func(m string, p json.RawMessage) { l.notes <- message{Method: m, Params: p} },
	})
	t.Cleanup(func() { _ = l.Close() }) // it may have ended with its process
	s, err := Handshake(t.Context(), l.Conn, DefaultClient)
	if err != nil || s.Version != c.version || s.CodexHome != k.h.dir || s.Family != "unix" || s.OS != "linux" {
		t.Fatalf("codex %s introduces itself as %+v, %v", c.version, s, err)
	}
	return l
}

func (l *line) call(method string, params any, result any) error {
	l.t.Helper()
	ctx, stop := context.WithTimeout(l.t.Context(), patience)
	defer stop()
	return l.Call(ctx, method, params, result)
}

func (l *line) must(method string, params any, result any) {
	l.t.Helper()
	if err := l.call(method, params, result); err != nil {
		l.t.Fatal(err)
	}
}

// thread starts one and returns its id.
func (l *line) thread(more map[string]any) string {
	l.t.Helper()
	params := map[string]any{"cwd": l.k.h.work, "approvalPolicy": "on-request", "sandbox": "workspace-write", "model": functions}
	for name, v := range more {
		params[name] = v
	}
	var a threadAnswer
	l.must(methodStart, params, &a)
	return a.Thread.ID
}

func say(thread, text string) map[string]any {
	return map[string]any{"threadId": thread, "input": []textInput{{Type: "text", Text: text}}}
}

// turn begins one and returns its id.
func (l *line) turn(thread, text string) string {
	l.t.Helper()
	var a turnAnswer
	l.must(methodTurnStart, say(thread, text), &a)
	return a.Turn.ID
}

// ended waits for a turn's end and returns what its messages said.
func (l *line) ended(turn, status string) string {
	l.t.Helper()
	late, stop := context.WithTimeout(l.t.Context(), patience)
	defer stop()
	var said []string
	for {
		select {
		case m := <-l.notes:
			var n struct {
				Turn wireTurn `json:"turn"`
				Item wireItem `json:"item"`
			}
			if err := json.Unmarshal(m.Params, &n); err != nil {
				l.t.Fatal(err)
			}
			if m.Method == "item/completed" && n.Item.Type == "agentMessage" {
				said = append(said, n.Item.Text)
			}
			if m.Method == "turn/completed" && n.Turn.ID == turn {
				if n.Turn.Status != status {
					l.t.Fatalf("the turn ended %s, want %s", n.Turn.Status, status)
				}
				return strings.Join(said, "\n")
			}
		case <-late.Done():
			l.t.Fatal("the turn does not end")
		}
	}
}

// streams waits for the first word of a message.
func (l *line) streams() {
	l.t.Helper()
	late, stop := context.WithTimeout(l.t.Context(), patience)
	defer stop()
	for {
		select {
		case m := <-l.notes:
			if m.Method == "item/agentMessage/delta" {
				return
			}
		case <-late.Done():
			l.t.Fatal("nothing streams")
		}
	}
}

// answer answers the next request of codex's, which must be of that method.
func (l *line) answer(method string, result any) json.RawMessage {
	l.t.Helper()
	late, stop := context.WithTimeout(l.t.Context(), patience)
	defer stop()
	select {
	case in := <-l.asked:
		if in.Method != method {
			l.t.Fatalf("codex asks %s, want %s", in.Method, method)
		}
		if err := in.Reply(result); err != nil {
			l.t.Fatal(err)
		}
		return in.Params
	case <-late.Done():
		l.t.Fatal("codex does not ask " + method)
	}
	return nil
}

func introducesItself(t *testing.T, c *codex) {
	l := c.line(t, c.talk(t, scriptedmodel.Serve(t, `rules: []`)))
	var a accountAnswer
	l.must(methodAccountRead, nil, &a)
	if a.RequiresOpenAIAuth {
		t.Errorf("account %+v", a)
	}
	var models struct{ Data []struct{ ID, Model string } }
	l.must(methodModelList, nil, &models)
	if len(models.Data) == 0 || models.Data[0].Model == "" {
		t.Errorf("models %+v", models)
	}
	if err := l.call(methodInitialize, initialize(DefaultClient), nil); err == nil || !strings.Contains(strings.ToLower(err.Error()), "already initialized") {
		t.Errorf("initialize again: %v", err)
	}
}

func turnHasTimes(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "touch made", escalate: true, justification: why}
      - say: done
`)
	k := c.talk(t, s)
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	r = k.pump(TurnEnded, decide("d", r.Requests[0], Accept))
	if r.Turn.StartedAtMS == 0 || r.Turn.EndedAtMS < r.Turn.StartedAtMS {
		t.Errorf("turn %+v", r.Turn)
	}
	for _, e := range k.sink.entries {
		if e.Turn == 1 && e.At.UnixMilli() < r.Turn.StartedAtMS {
			if e.Type == EntryUser && !c.has(EventTimes) {
				continue // its time is that of what was said before
			}
			t.Errorf("entry %d (%s) is of %s, the turn began at %d", e.Seq, e.Type, e.At, r.Turn.StartedAtMS)
		}
	}
	if !c.has(ItemTimes) {
		c.note = "to the second, of turns"
	}
}

// messagesBearWhatTheTableSays looks at the traits that are members of messages.
func messagesBearWhatTheTableSays(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, recordedScript))
	k.spec.Sandbox = "read-only"
	l := &leader{state: k.state, spec: k.spec}
	l.pump = func(in PumpInput) (PumpResult, error) {
		return Run(t.Context(), k.p.wire(in.State.Rewind), in, k.sink, Options{})
	}
	if err := l.lead(recordedTurns); err != nil {
		t.Fatal(err)
	}
	seen := map[Trait][2]int{} // without, with
	note := func(trait Trait, with bool) {
		n := seen[trait]
		if with {
			n[1]++
		} else {
			n[0]++
		}
		seen[trait] = n
	}
	lines := bufio.NewScanner(bytes.NewReader(k.p.bytes()))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			message
			Params map[string]json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		var item map[string]json.RawMessage
		_ = json.Unmarshal(m.Params["item"], &item) // most have none
		var turn struct{ Items []json.RawMessage }
		_ = json.Unmarshal(m.Params["turn"], &turn)
		switch {
		case m.Method == "item/commandExecution/requestApproval":
			note(ApprovalKind, m.Params["kind"] != nil)
			note(ItemTimes, m.Params["startedAtMs"] != nil)
			if len(m.Params["availableDecisions"]) == 0 {
				t.Error("an approval offers nothing")
			}
		case m.Method == "":
			continue
		case m.ID == nil:
			note(EventTimes, m.EmittedAtMS > 0)
		}
		switch m.Method {
		case "item/started":
			note(ItemTimes, m.Params["startedAtMs"] != nil)
		case "item/completed":
			note(ItemTimes, m.Params["completedAtMs"] != nil)
			if string(item["type"]) == `"userMessage"` {
				note(ClientIDs, len(item["clientId"]) > 0)
			}
		case "turn/completed":
			note(LastItemAtEnd, len(turn.Items) > 0)
		}
	}
	for trait, n := range seen {
		if want := c.has(trait); want && n[0] > 0 || !want && n[1] > 0 || n[0]+n[1] == 0 {
			t.Errorf("%s: %d messages without, %d with; the table says %v", trait, n[0], n[1], want)
		}
	}
	if len(seen) != 5 {
		t.Errorf("looked at %v", seen)
	}
	// What it may ask stands in its schema.
	dir := t.TempDir()
	if out, err := exec.Command(binaryOf(t, c.version), "app-server", "generate-json-schema", "--experimental", "--out", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	asks, err := os.ReadFile(filepath.Join(dir, "ServerRequest.json"))
	if err != nil {
		t.Fatal(err)
	}
	for trait, method := range map[Trait]string{Attestation: "attestation/generate", CurrentTime: "currentTime/read"} {
		if got := bytes.Contains(asks, []byte(`"`+method+`"`)); got != c.has(trait) {
			t.Errorf("%s in its schema: %v", method, got)
		}
	}
}

// asksUnderEachPolicyAndSandbox is the canary of approvals: with what we send,
// codex really asks before it does what it may not.
func asksUnderEachPolicyAndSandbox(t *testing.T, c *codex) {
	// Not below /tmp, which a sandbox leaves writable.
	outside, err := os.MkdirTemp("/srv", "fairlead-canary-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) }) // a leftover harms nobody
	if !c.has(UntrustedAsks) {
		c.note = "yes, but under untrusted leaving the sandbox is refused unasked"
	}
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: escalate}
    steps:
      - shell: {cmd: "touch `+outside+`/$(basename $(dirname $PWD))-escaped", escalate: true, justification: why}
      - say: done
  - when: {contains: plain}
    steps:
      - shell: {cmd: "touch `+outside+`/$(basename $(dirname $PWD))-touched"}
      - say: done
`)
	for _, sandbox := range []string{"read-only", "workspace-write", "danger-full-access"} {
		for _, policy := range []string{"untrusted", "on-request", "never"} {
			k := c.talk(t, s)
			k.spec.Sandbox, k.spec.ApprovalPolicy = sandbox, policy
			full := sandbox == "danger-full-access"
			for n, try := range []struct {
				text, file string
				asked      bool
			}{
				// An escalation out of no sandbox is none.
				{"escalate", "escaped", policy == "untrusted" && c.has(UntrustedAsks) || policy == "on-request" && !full},
				{"plain", "touched", policy == "untrusted"},
			} {
				r := k.run(t.Context(), k.input(turn(n+1, "m-"+try.text, try.text)))
				if got := r.Reason == RequestsOpen; got != try.asked {
					t.Errorf("%s, %s, %s: asked: %v; the pump returned for %s", sandbox, policy, try.text, got, r.Reason)
				}
				for i, q := range r.Requests {
					r = k.pump(TurnEnded, decide(fmt.Sprint("d-", n, i), q, Decline))
				}
				if r.Turn == nil || r.Turn.Status != "completed" {
					t.Errorf("%s, %s, %s: turn %+v", sandbox, policy, try.text, r.Turn)
				}
				_, err := os.Stat(filepath.Join(outside, filepath.Base(filepath.Dir(k.h.work))+"-"+try.file))
				unasked := try.text == "plain" && policy != "untrusted" || policy == "on-request"
				if did := full && unasked; did != (err == nil) {
					t.Errorf("%s, %s, %s: done, though nobody agreed, or not done: %v", sandbox, policy, try.text, err)
				}
			}
			k.p.kill()
		}
	}
}

func asksForSafeCommands(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "echo hi", escalate: true, justification: why}
      - say: done
`)
	k := c.talk(t, s)
	want := TurnEnded
	if c.has(SafeIsAsked) {
		want = RequestsOpen
	} else {
		c.note = "no: they run"
	}
	k.pump(want, turn(1, "m-1", "go"))
}

func acceptedForSessionIsNotAskedAgain(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "touch made; echo again", escalate: true, justification: why}
      - say: "{{ .LastToolOutput }}"
`)
	k := c.talk(t, s)
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	d := decide("d", r.Requests[0], Accept)
	d.ForSession = true
	k.pump(TurnEnded, d)
	if r = k.pump(TurnEnded, turn(2, "m-2", "go")); !strings.Contains(r.Turn.FinalText, "again") {
		t.Errorf("turn %+v", r.Turn)
	}
}

func cancelledApprovalEndsTheTurn(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "touch made", escalate: true, justification: why}
      - say: never
`)
	k := c.talk(t, s)
	r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
	r = k.pump(TurnEnded, decide("d", r.Requests[0], Cancel))
	if r.Turn.Status != "interrupted" || r.Turn.FinalText != "" {
		t.Errorf("turn %+v", r.Turn)
	}
	if _, err := os.Stat(filepath.Join(k.h.work, "made")); !os.IsNotExist(err) {
		t.Errorf("it was run (%v)", err)
	}
}

const toolScript = `
rules:
  - steps:
      - call: {name: lookup_ticket, arguments: {id: A1}}
      - say: "got {{ .LastToolOutput }}"
`

func ourToolIsCalled(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, toolScript))
	l := c.line(t, k)
	thread := l.thread(map[string]any{"dynamicTools": []any{map[string]any{
		"type": "function", "name": "lookup_ticket", "description": "finds a ticket",
		"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{"type": "string"}}},
	}}})
	for _, ticket := range []string{"first", "after a resume"} {
		id := l.turn(thread, "look it up")
		var p struct {
			Tool      string
			Arguments struct{ ID string }
		}
		asked := l.answer("item/tool/call", map[string]any{"success": true, "contentItems": []textInput{{Type: "inputText", Text: ticket}}})
		if err := json.Unmarshal(asked, &p); err != nil || p.Tool != "lookup_ticket" || p.Arguments.ID != "A1" {
			t.Errorf("asked %s", asked)
		}
		if got := l.ended(id, "completed"); got != "got "+ticket {
			t.Errorf("the model had %q", got)
		}
		k.restart()
		l = c.line(t, k)
		l.must(methodResume, map[string]any{"threadId": thread, "excludeTurns": true, "cwd": k.h.work, "approvalPolicy": "on-request", "sandbox": "workspace-write"}, nil)
	}
}

// configure adds to the config, where the first word of a line is a table's.
func (k *talk) configure(text string) {
	k.t.Helper()
	k.p.kill()
	name := filepath.Join(k.h.dir, "config.toml")
	old, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(strings.Replace(text, "…", string(old), 1)), 0o600)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.p = k.h.start()
}

func permissionsAreAskedFor(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - call: {name: request_permissions, arguments: {reason: need it, permissions: {network: {enabled: true}}}}
      - say: "{{ .LastToolOutput }}"
`))
	k.configure("…\nrequest_permissions_tool = true\n")
	l := c.line(t, k)
	id := l.turn(l.thread(nil), "go")
	var p struct {
		Reason, CWD string
		Permissions struct{ Network struct{ Enabled bool } }
	}
	asked := l.answer("item/permissions/requestApproval", map[string]any{"permissions": map[string]any{"network": map[string]bool{"enabled": true}}, "scope": "turn"})
	if err := json.Unmarshal(asked, &p); err != nil || p.Reason != "need it" || p.CWD != k.h.work || !p.Permissions.Network.Enabled {
		t.Errorf("asked %s, %v", asked, err)
	}
	if got := l.ended(id, "completed"); !strings.Contains(got, `"enabled":true`) || !strings.Contains(got, `"scope":"turn"`) {
		t.Errorf("the model had %q", got)
	}
}

func profileHolds(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "cat ../codex-home/secret || echo refused; echo fine > written; cat written"}
      - say: "{{ .LastToolOutput }}"
`))
	k.spec.Permissions = "fl"
	if !c.has(NamedProfiles) {
		c.note = "no session under a profile"
		if r := k.pump(Refused, turn(1, "m-1", "go")); r.Problem.Kind != "version" {
			t.Errorf("problem %+v", r.Problem)
		}
		// And rightly so: it refuses the name, or ignores it.
		l := c.line(t, c.talk(t, scriptedmodel.Serve(t, `rules: []`)))
		err := l.call(methodStart, map[string]any{"cwd": k.h.work, "approvalPolicy": "never", "permissions": "fl"}, nil)
		if ignored := c.version == OldestVersion; ignored != (err == nil) {
			t.Errorf("a thread with a profile's name: %v", err)
		}
		return
	}
	secret := filepath.Join(k.h.dir, "secret")
	if err := os.WriteFile(secret, []byte("the secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.configure(fmt.Sprintf("default_permissions = \"fl\"\n…\n[permissions.fl]\nextends = \":workspace\"\n[permissions.fl.filesystem]\n%q = \"deny\"\n", secret))
	if !c.has(ProfileInTmp) {
		c.note = "no command below /tmp"
	}
	for n := range 2 { // started, and resumed
		r := k.pump(TurnEnded, turn(n+1, fmt.Sprint("m-", n), "go"))
		got := r.Turn.FinalText
		if works := strings.Contains(got, "refused") && strings.Contains(got, "fine"); works != c.has(ProfileInTmp) || strings.Contains(got, "the secret") {
			t.Errorf("turn %d: %q", n+1, got)
		}
		k.restart()
	}
}

// slow is a model that is talking; one that a steer does not cut short comes to
// an end.
func (c *codex) slow(t *testing.T) *scriptedmodel.Server {
	t.Helper()
	end := ""
	if c.has(SteerCuts) {
		end = "\n        - wait: never"
	}
	return scriptedmodel.Serve(t, `
rules:
  - when: {contains: slow}
    steps:
      - - say: {text: "one two three four five six seven eight", pace: 250ms}`+end+`
  - reply: "you said {{ .LastUser }}"
`)
}

func steerReachesTheTurn(t *testing.T, c *codex) {
	k := c.talk(t, c.slow(t))
	in := k.input(turn(1, "m-1", "slow"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan PumpResult, 1)
	go func() { done <- k.run(ctx, in) }()
	k.sink.await(t, "the stream", func() bool { return len(k.sink.deltas) > 0 })
	cancel()
	before := (<-done).State.TurnID
	r := k.pump(TurnEnded, Send{ID: "s-1", Kind: SendSteer, Text: "faster"})
	if delivered(t, r, "s-1") != Acknowledged || r.Turn.ID != before || r.Turn.Status != "completed" || !strings.Contains(r.Turn.FinalText, "you said faster") {
		t.Errorf("turn %+v, deliveries %+v", r.Turn, r.Deliveries)
	}
}

func steerOfAnotherTurnIsRefused(t *testing.T, c *codex) {
	l := c.line(t, c.talk(t, c.slow(t)))
	thread := l.thread(nil)
	steer := func(turn string) error {
		p := say(thread, "faster")
		p["expectedTurnId"] = turn
		return l.call(methodTurnSteer, p, nil)
	}
	if err := steer("none"); err == nil || !strings.Contains(err.Error(), "no active turn") {
		t.Errorf("with no turn: %v", err)
	}
	l.turn(thread, "slow")
	l.streams()
	if err := steer("another"); err == nil || !strings.Contains(err.Error(), "expected active turn id") {
		t.Errorf("of another turn: %v", err)
	}
}

// interruptOfAnEndedTurn: older versions wait with the answer for a turn to end.
// The pump does not wait for it: the end of its turn settles it.
func interruptOfAnEndedTurn(t *testing.T, c *codex) {
	k := c.talk(t, c.slow(t))
	l := c.line(t, k)
	thread := l.thread(nil)
	id := l.turn(thread, "slow")
	l.streams()
	l.must(methodInterrupt, map[string]any{"threadId": thread, "turnId": id}, nil)
	l.ended(id, "interrupted")
	again := fmt.Sprintf(`{"id":"again-","method":"turn/interrupt","params":{"threadId":%q,"turnId":%q}}`+"\n", thread, id)
	if _, err := k.p.stdin.Write([]byte(again)); err != nil {
		t.Fatal(err)
	}
	answered := func() bool { return bytes.Contains(k.p.bytes(), []byte(`"again-"`)) }
	if c.has(EndedRefused) {
		k.sink.await(t, "the answer", answered)
		return
	}
	c.note = "it is answered late or never, and does nothing"
	for _, text := range []string{"a", "b", "c"} {
		l.ended(l.turn(thread, text), "completed")
	}
	if answered() && !bytes.Contains(k.p.bytes(), []byte(`{"id":"again-","result":{}}`)) {
		t.Error("it is refused")
	}
}

func turnStartInATurnSteers(t *testing.T, c *codex) {
	l := c.line(t, c.talk(t, c.slow(t)))
	thread := l.thread(nil)
	id := l.turn(thread, "slow")
	l.streams()
	if again := l.turn(thread, "and then"); (again == id) != c.has(SteeredTurnID) {
		t.Errorf("answered with turn %s, running is %s", again, id)
	}
	if got := l.ended(id, "completed"); !strings.Contains(got, "you said and then") {
		t.Errorf("the model said %q", got)
	}
	c.note = "yes, under its id"
	if !c.has(SteeredTurnID) {
		c.note = "yes, under another id"
	}
}

// barrierIsAnsweredBehindATurn: who finds thread/read answered and no answer to
// turn/start before it knows that codex never had that.
func barrierIsAnsweredBehindATurn(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `rules: [{reply: hello}]`))
	l := c.line(t, k)
	const rounds = 20
	for i := range rounds {
		thread := l.thread(nil)
		lines := fmt.Sprintf(`{"id":"start-%d-","method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":"x"}]}}
{"id":"read-%d-","method":"thread/read","params":{"threadId":%q,"includeTurns":false}}
`, i, thread, i, thread)
		if _, err := k.p.stdin.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(what string, i int) int {
		return bytes.Index(k.p.bytes(), []byte(fmt.Sprintf(`"id":"%s-%d-"`, what, i)))
	}
	k.sink.await(t, "the last answer", func() bool { return answers("read", rounds-1) >= 0 })
	for i := range rounds {
		if start, read := answers("start", i), answers("read", i); start < 0 || read < start {
			t.Errorf("round %d: turn/start was answered at %d, thread/read at %d", i, start, read)
		}
	}
}

func compactReviewNameArchive(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `rules: [{reply: hello}]`))
	l := c.line(t, k)
	thread := l.thread(nil)
	l.ended(l.turn(thread, "hello"), "completed")
	l.must("thread/name/set", map[string]any{"threadId": thread, "name": "a name"}, nil)
	var review turnAnswer
	l.must("review/start", map[string]any{"threadId": thread, "target": map[string]any{"type": "custom", "instructions": "look"}}, &review)
	l.ended(review.Turn.ID, "completed")
	l.must("thread/compact/start", map[string]any{"threadId": thread}, nil)
	k.sink.await(t, "the compaction", func() bool { return bytes.Contains(k.p.bytes(), []byte(`"type":"contextCompaction"`)) })
	l.must("thread/archive", map[string]any{"threadId": thread}, nil)
	if names := rollouts(t, k.h); len(names) == 0 || !strings.Contains(strings.Join(names, "\n"), "archived_sessions") {
		t.Errorf("rollouts %q", names)
	}
}

func firstProtocolIsGone(t *testing.T, c *codex) {
	l := c.line(t, c.talk(t, scriptedmodel.Serve(t, `rules: []`)))
	if err := l.call("newConversation", map[string]any{}, nil); err == nil || !strings.Contains(err.Error(), "unknown variant") {
		t.Errorf("newConversation: %v", err)
	}
	err := l.call(methodStart, map[string]any{"cwd": l.k.h.work, "approvalPolicy": "on-failure", "sandbox": "read-only"}, nil)
	if (err == nil) != c.has(OnFailure) {
		t.Errorf("on-failure: %v", err)
	}
}
