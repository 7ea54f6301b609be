package conversation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// These behaviours are tried without a pump, one request at a time, because a pump would
// never send these requests.

// A line talks to a codex request by request.
type line struct {
	*wire.Conn
	t     *testing.T
	k     *talk
	asked chan *wire.Incoming
	notes chan wire.Message
}

// line opens a conversation without a thread.
func (c *codex) line(t *testing.T, k *talk) *line {
	t.Helper()
	l := &line{t: t, k: k, asked: make(chan *wire.Incoming, 100), notes: make(chan wire.Message, 10_000)}
	l.Conn = wire.NewConn(k.p.wire(0), wire.ConnConfig{
		Ask:    func(in *wire.Incoming) { l.asked <- in },
		Notify: func(m string, p json.RawMessage) { l.notes <- wire.Message{Method: m, Params: p} },
	})
	t.Cleanup(func() { _ = l.Close() }) // it may have ended with its process
	s, err := wire.Handshake(t.Context(), l.Conn, wire.DefaultClient)
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

func (l *line) thread(more map[string]any) string {
	l.t.Helper()
	params := map[string]any{"cwd": l.k.h.work, "approvalPolicy": "on-request", "sandbox": "workspace-write", "model": functions}
	for name, v := range more {
		params[name] = v
	}
	var a wire.ThreadAnswer
	l.must(wire.MethodStart, params, &a)
	return a.Thread.ID
}

func say(thread, text string) map[string]any {
	return map[string]any{"threadId": thread, "input": []wire.TextInput{{Type: "text", Text: text}}}
}

func (l *line) turn(thread, text string) string {
	l.t.Helper()
	var a wire.TurnAnswer
	l.must(wire.MethodTurnStart, say(thread, text), &a)
	return a.Turn.ID
}

// ended waits for a turn's end and returns the text of its messages.
func (l *line) ended(turn, status string) string {
	l.t.Helper()
	late, stop := context.WithTimeout(l.t.Context(), patience)
	defer stop()
	var said []string
	for {
		select {
		case m := <-l.notes:
			var n struct {
				Turn wire.Turn `json:"turn"`
				Item wire.Item `json:"item"`
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

// streams waits for the first piece of a message.
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

// answer answers codex's next request, which must be of that method.
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
	var a wire.AccountAnswer
	l.must(wire.MethodAccountRead, nil, &a)
	if a.RequiresOpenAIAuth {
		t.Errorf("account %+v", a)
	}
	var models struct{ Data []struct{ ID, Model string } }
	l.must(wire.MethodModelList, nil, &models)
	if len(models.Data) == 0 || models.Data[0].Model == "" {
		t.Errorf("models %+v", models)
	}
	if err := l.call(wire.MethodInitialize, wire.Initialize(wire.DefaultClient), nil); err == nil || !strings.Contains(strings.ToLower(err.Error()), "already initialized") {
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
	r = k.pump(TurnEnded, decide("d", r.Requests[0], protocol.Accept))
	if r.Turn.StartedAtMS == 0 || r.Turn.EndedAtMS < r.Turn.StartedAtMS {
		t.Errorf("turn %+v", r.Turn)
	}
	for _, e := range k.sink.entries {
		if e.Turn == 1 && e.At.UnixMilli() < r.Turn.StartedAtMS {
			if e.Type == protocol.EntryUser && !c.has(wire.EventTimes) {
				continue // it has the time of the line before
			}
			t.Errorf("entry %d (%s) is of %s, the turn began at %d", e.Seq, e.Type, e.At, r.Turn.StartedAtMS)
		}
	}
	if !c.has(wire.ItemTimes) {
		c.note = "to the second, of turns"
	}
}

// messagesBearWhatTheTableSays checks the traits that are members of messages.
func messagesBearWhatTheTableSays(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, recordedScript))
	k.spec.Sandbox = "read-only"
	l := &leader{state: k.state, spec: k.spec}
	l.pump = func(in PumpInput) (PumpResult, error) {
		return Run(t.Context(), k.p.wire(in.From()), in, k.sink, Options{})
	}
	if err := l.lead(recordedTurns); err != nil {
		t.Fatal(err)
	}
	seen := map[wire.Trait][2]int{} // without, with
	note := func(trait wire.Trait, with bool) {
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
			wire.Message
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
			note(wire.ApprovalKind, m.Params["kind"] != nil)
			note(wire.ItemTimes, m.Params["startedAtMs"] != nil)
			if len(m.Params["availableDecisions"]) == 0 {
				t.Error("an approval offers nothing")
			}
		case m.Method == "":
			continue
		case m.ID == nil:
			note(wire.EventTimes, m.EmittedAtMS > 0)
		}
		switch m.Method {
		case "item/started":
			note(wire.ItemTimes, m.Params["startedAtMs"] != nil)
		case "item/completed":
			note(wire.ItemTimes, m.Params["completedAtMs"] != nil)
			if string(item["type"]) == `"userMessage"` {
				note(wire.ClientIDs, len(item["clientId"]) > 0)
			}
		case "turn/completed":
			note(wire.LastItemAtEnd, len(turn.Items) > 0)
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
	// The schema lists the requests that codex may send.
	dir := t.TempDir()
	if out, err := exec.Command(binaryOf(t, c.version), "app-server", "generate-json-schema", "--experimental", "--out", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	asks, err := os.ReadFile(filepath.Join(dir, "ServerRequest.json"))
	if err != nil {
		t.Fatal(err)
	}
	for trait, method := range map[wire.Trait]string{wire.Attestation: "attestation/generate", wire.CurrentTime: "currentTime/read"} {
		if got := bytes.Contains(asks, []byte(`"`+method+`"`)); got != c.has(trait) {
			t.Errorf("%s in its schema: %v", method, got)
		}
	}
	denial, err := os.ReadFile(filepath.Join(dir, "ExecCommandApprovalResponse.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Contains(denial, []byte(`"rejection"`)); got != c.has(wire.DenialReasons) {
		t.Errorf("a reason of a denial in its schema: %v", got)
	}
}

func compactReviewNameArchive(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `rules: [{reply: hello}]`))
	l := c.line(t, k)
	thread := l.thread(nil)
	l.ended(l.turn(thread, "hello"), "completed")
	l.must("thread/name/set", map[string]any{"threadId": thread, "name": "a name"}, nil)
	var review wire.TurnAnswer
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
	err := l.call(wire.MethodStart, map[string]any{"cwd": l.k.h.work, "approvalPolicy": "on-failure", "sandbox": "read-only"}, nil)
	if (err == nil) != c.has(wire.OnFailure) {
		t.Errorf("on-failure: %v", err)
	}
}
