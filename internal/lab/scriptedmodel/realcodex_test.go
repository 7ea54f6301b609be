package scriptedmodel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dialects has a model for each way in which codex offers tools.
var dialects = map[string]string{"functions": "gpt-5.5", "code mode": ""}

func TestMessageReachesCodexInDeltas(t *testing.T) {
	s := Serve(t, `
rules:
  - reply: one two  three
`)
	c := startCodex(t, s)
	r := c.runTurn(c.thread("", "read-only"), "hello", "decline")
	if got := texts(r.lines, "item/agentMessage/delta", "delta"); !slices.Equal(got, []string{"one ", "two  ", "three"}) {
		t.Errorf("deltas %q", got)
	}
	if got := r.messages(); !slices.Equal(got, []string{"one two  three"}) {
		t.Errorf("messages %q", got)
	}
	if r.end.Turn.Status != "completed" {
		t.Errorf("turn ended %s", r.end.Turn.Status)
	}
}

func TestReasoningReachesCodexAsSummary(t *testing.T) {
	s := Serve(t, `
rules:
  - steps:
      - - think: Let me see.
        - say: Fine.
`)
	c := startCodex(t, s)
	r := c.runTurn(c.thread("", "read-only"), "hello", "decline")
	if got := strings.Join(texts(r.lines, "item/reasoning/summaryTextDelta", "delta"), ""); got != "Let me see." {
		t.Errorf("summary %q", got)
	}
	if got := r.messages(); !slices.Equal(got, []string{"Fine."}) {
		t.Errorf("messages %q", got)
	}
}

func TestCommandAsksForApprovalAndItsOutputComesBack(t *testing.T) {
	for name, model := range dialects {
		t.Run(name, func(t *testing.T) {
			s := Serve(t, `
rules:
  - steps:
      - shell: {cmd: "printf 'it is %s' ok > made; cat made; exit 3", escalate: true, justification: May I?}
      - say: "exit {{ (index .Results 0).ExitCode }}: {{ .LastToolOutput }}"
`)
			c := startCodex(t, s)
			r := c.runTurn(c.thread(model, "read-only"), "go", "accept")
			if len(r.asks) != 1 || r.asks[0].Method != "item/commandExecution/requestApproval" {
				t.Fatalf("asks %v", r.asks)
			}
			if got := r.asks[0].field("reason"); got != "May I?" {
				t.Errorf("reason %q", got)
			}
			if got := r.messages(); !slices.Equal(got, []string{"exit 3: it is ok"}) {
				t.Errorf("messages %q", got)
			}
			// Only the functions dialect preserves our ids.
			ours := strings.HasPrefix(r.asks[0].field("itemId"), "call_s0_")
			if want := model == "gpt-5.5"; ours != want {
				t.Errorf("item id %s: is it ours? want %t", r.asks[0].field("itemId"), want)
			}
		})
	}
}

func TestRefusedCommandTellsTheModel(t *testing.T) {
	for name, model := range dialects {
		t.Run(name, func(t *testing.T) {
			s := Serve(t, `
rules:
  - steps:
      - shell: {cmd: touch made, escalate: true, justification: May I?}
      - say: "{{ .LastToolOutput }}"
`)
			c := startCodex(t, s)
			r := c.runTurn(c.thread(model, "read-only"), "go", "decline")
			if got := strings.Join(r.messages(), ""); !strings.Contains(got, "rejected by user") {
				t.Errorf("the model was told %q", got)
			}
			if _, err := os.Stat(filepath.Join(c.cwd, "made")); err == nil {
				t.Error("the refused command ran")
			}
		})
	}
}

func TestPatchAsksForApprovalWhenReadOnly(t *testing.T) {
	for name, model := range dialects {
		for _, decision := range []string{"accept", "decline"} {
			t.Run(name+"/"+decision, func(t *testing.T) {
				s := Serve(t, `
rules:
  - when: {matches: 'into (\S+)'}
    steps:
      - patch: |
          *** Begin Patch
          *** Add File: {{ index .Match 1 }}
          +hello
          *** End Patch
      - say: "patched: {{ .LastToolOutput }}"
`)
				c := startCodex(t, s)
				r := c.runTurn(c.thread(model, "read-only"), "write into new.txt please", decision)
				if len(r.asks) != 1 || r.asks[0].Method != "item/fileChange/requestApproval" {
					t.Fatalf("asks %v", r.asks)
				}
				got, err := os.ReadFile(filepath.Join(c.cwd, "new.txt"))
				if decision == "accept" && string(got) != "hello\n" {
					t.Errorf("the file has %q, %v", got, err)
				}
				if decision == "decline" && !os.IsNotExist(err) {
					t.Errorf("declined, yet there is a file: %q, %v", got, err)
				}
				last := strings.Join(r.messages(), "")
				if refused := strings.Contains(last, "rejected by user"); refused != (decision == "decline") {
					t.Errorf("the model was told %q", last)
				}
			})
		}
	}
}

func TestTwoCommandsAreAskedForAtOnce(t *testing.T) {
	for name, model := range dialects {
		t.Run(name, func(t *testing.T) {
			s := Serve(t, `
rules:
  - steps:
      - - shell: {cmd: printf one, escalate: true, justification: first}
        - shell: {cmd: printf two, escalate: true, justification: second}
      - say: "{{ range .Results }}{{ .Output }};{{ end }}"
`)
			c := startCodex(t, s)
			c.startTurn(c.thread(model, "read-only"), "go")
			first := c.until(message.isAsk)
			second := c.until(message.isAsk) // while the first is still open
			a, b := first[len(first)-1], second[len(second)-1]
			if a.field("reason") == b.field("reason") {
				t.Errorf("asked twice for %q", a.field("reason"))
			}
			c.decide(b, "accept")
			c.decide(a, "accept")
			// Outputs are in the order of the script, not of completion.
			if got := c.finish("decline").messages(); !slices.Equal(got, []string{"one;two;"}) {
				t.Errorf("messages %q", got)
			}
		})
	}
}

func TestCommandThatOutlivesItsYieldTimeIsWaitedFor(t *testing.T) {
	for name, model := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // codex takes five seconds
			s := Serve(t, `
rules:
  - steps:
      - shell: {cmd: "echo begun; until test -e go-on; do sleep 0.05; done; echo ended", yield: 250ms, escalate: true}
      - say: "{{ .LastToolOutput }}"
`)
			c := startCodex(t, s)
			c.startTurn(c.thread(model, "workspace-write"), "go")
			lines := c.until(message.isAsk)
			c.decide(lines[len(lines)-1], "accept")
			// Codex reports the poll of the command's output, so its first
			// answer came while the command still ran.
			c.untilMethod("item/commandExecution/terminalInteraction")
			if err := os.WriteFile(filepath.Join(c.cwd, "go-on"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := c.finish("decline").messages(); !slices.Equal(got, []string{"begun\nended\n"}) {
				t.Errorf("messages %q", got)
			}
		})
	}
}

func TestSecondTurnRemembersTheFirst(t *testing.T) {
	s := Serve(t, `
rules:
  - when: {contains: what was first, turn: 2}
    reply: '{{ len .UserMessages }}, first {{ .FirstUser }}'
  - when: {contains: blue}
    reply: noted
`)
	c := startCodex(t, s)
	thread := c.thread("", "read-only")
	c.runTurn(thread, "remember blue", "decline")
	if got := c.runTurn(thread, "what was first?", "decline").messages(); !slices.Equal(got, []string{"2, first remember blue"}) {
		t.Errorf("messages %q", got)
	}
	if got := s.UserMessages(thread); !slices.Equal(got, []string{"remember blue", "what was first?"}) {
		t.Errorf("UserMessages %q", got)
	}
	for _, r := range s.RequestsOf(thread) {
		if r.TokenSHA256 != tokenDigest("a-token") {
			t.Errorf("request %d came with token %s", r.Seq, r.TokenSHA256)
		}
	}
}

func TestInterruptedTurnLeavesNoTraceInTheNext(t *testing.T) {
	s := Serve(t, `
rules:
  - when: {contains: slow}
    steps: [[{say: one two three}, {wait: {gate: mid, after: 2}}]]
  - reply: '{{ len .UserMessages }}, last {{ .LastUser }}'
`)
	c := startCodex(t, s)
	thread := c.thread("", "read-only")
	c.startTurn(thread, "be slow")
	started := c.untilMethod("turn/started")
	turnID := started[len(started)-1].field("turn", "id")
	if _, err := s.AwaitWaiting(t.Context(), "mid"); err != nil {
		t.Fatal(err)
	}
	c.send(map[string]any{"id": "stop", "method": "turn/interrupt", "params": map[string]any{"threadId": thread, "turnId": turnID}})
	if got := c.finish("decline").end.Turn.Status; got != "interrupted" {
		t.Fatalf("turn ended %s", got)
	}
	if got := c.runTurn(thread, "next", "decline").messages(); !slices.Equal(got, []string{"2, last next"}) {
		t.Errorf("messages %q", got)
	}
}

func TestGateHoldsTheStreamInMidMessage(t *testing.T) {
	s := Serve(t, `
rules:
  - steps: [[{wait: {gate: "mid-{{ .LastUser }}", after: 2}}, {say: one two three four}]]
`)
	c := startCodex(t, s)
	thread := c.thread("", "read-only")
	c.startTurn(thread, "now")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := s.AwaitWaiting(ctx, "mid-now")
	if err != nil {
		t.Fatal(err)
	}
	if w.Conversation != thread {
		t.Errorf("%s waits, want %s", w.Conversation, thread)
	}
	c.untilMethod("item/agentMessage/delta")
	c.untilMethod("item/agentMessage/delta")
	s.Release("mid-now")
	r := c.finish("decline")
	if got := texts(r.lines, "item/agentMessage/delta", "delta"); !slices.Equal(got, []string{"three ", "four"}) {
		t.Errorf("deltas after the gate %q", got)
	}
}

func TestGateIsLeftWhenTheClientDies(t *testing.T) {
	s := Serve(t, `
rules:
  - steps: [[{say: one}, {wait: end}]]
`)
	c := startCodex(t, s)
	c.startTurn(c.thread("", "read-only"), "now")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.AwaitWaiting(ctx, "end"); err != nil {
		t.Fatal(err)
	}
	c.kill()
	eventually(t, func() bool { return len(s.Waiting()) == 0 })
}

func TestFailuresShowInCodexAsTheyWouldFromOpenAI(t *testing.T) {
	for _, test := range []struct {
		fail     string
		requests int // that codex makes before it gives up
		info     string
	}{
		{"{kind: unauthorized, times: -1}", 3, `{"httpConnectionFailed":{"httpStatusCode":401}}`},
		{"{kind: forbidden, times: -1}", 3, `{"httpConnectionFailed":{"httpStatusCode":403}}`},
		{"context_length", 1, `"contextWindowExceeded"`},
		{"{kind: failed, code: context_length_exceeded}", 1, `"contextWindowExceeded"`},
		{"{kind: rate_limited, times: -1}", 1, `{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`},
		{"usage_limit", 1, `"usageLimitExceeded"`},
		{"{kind: failed, code: insufficient_quota}", 1, `"usageLimitExceeded"`},
		{"{kind: failed, code: rate_limit_exceeded, message: Please try again in 0.01s., times: -1}", 3, `"rateLimitExceeded"`},
		{"{kind: server_error, times: -1}", 6, `"internalServerError"`},
		{"{kind: overloaded, times: -1}", 2, `"serverOverloaded"`},
		{"{kind: cut, times: -1}", 3, `"other"`},
		{"incomplete", 1, `"other"`},
	} {
		t.Run(test.fail, func(t *testing.T) {
			t.Parallel()
			s := Serve(t, "rules: [{steps: [[{fail: "+test.fail+"}, {say: fine}]]}]")
			c := startCodex(t, s)
			thread := c.thread("", "read-only")
			r := c.runTurn(thread, "go", "decline")
			if r.end.Turn.Status != "failed" || r.end.Turn.Error == nil {
				t.Fatalf("turn ended %+v", r.end.Turn)
			}
			if got := string(r.end.Turn.Error.CodexErrorInfo); got != test.info {
				t.Errorf("codexErrorInfo %s, want %s (%s)", got, test.info, r.end.Turn.Error.Message)
			}
			if got := len(s.RequestsOf(thread)); got != test.requests {
				t.Errorf("%d requests, want %d", got, test.requests)
			}
		})
	}
}

func TestFailureThatEndsLetsTheTurnGoOn(t *testing.T) {
	for _, fail := range []string{
		"{kind: server_error, times: 2}",
		"overloaded",
		"unauthorized",
		"{kind: failed, code: rate_limit_exceeded, message: Please try again in 0.01s.}",
		"drop",
		"cut",
		"{kind: cut, after: 2}",
	} {
		t.Run(fail, func(t *testing.T) {
			t.Parallel()
			s := Serve(t, "rules: [{steps: [[{fail: "+fail+"}, {say: one two three}]]}]")
			c := startCodex(t, s)
			r := c.runTurn(c.thread("", "read-only"), "go", "decline")
			if r.end.Turn.Status != "completed" {
				t.Fatalf("turn ended %+v", r.end.Turn)
			}
			if got := r.messages(); !slices.Equal(got, []string{"one two three"}) {
				t.Errorf("messages %q", got)
			}
		})
	}
}

func TestSurpriseFailsTheTurnAndIsKept(t *testing.T) {
	script, err := Parse([]byte("rules: [{when: {exact: known}, reply: yes}]"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(script, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := startCodex(t, s)
	thread := c.thread("", "read-only")
	r := c.runTurn(thread, "unknown", "decline")
	if r.end.Turn.Status != "failed" || !strings.Contains(r.end.Turn.Error.Message, "no rule matches turn 1") {
		t.Errorf("turn ended %+v", r.end.Turn)
	}
	got := s.Surprises()
	if len(got) != 1 || got[0].Conversation != thread || got[0].LastUser != "unknown" {
		t.Errorf("surprises %+v", got)
	}
}

func tokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func TestDemoAsksForACommandAndForAFileOutside(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "demo", "model.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// A workspace-write sandbox may write to /tmp and TMPDIR, so the path
	// outside must be elsewhere.
	outside, err := os.MkdirTemp("/var/tmp", "scriptedmodel-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	for name, model := range dialects {
		t.Run(name, func(t *testing.T) {
			c := startCodex(t, Serve(t, string(text)))
			thread := c.thread(model, "workspace-write")
			plan := filepath.Join(outside, "plan.md")
			prompt := "Write a short plan into " + plan + " and say what you did."

			c.startTurn(thread, prompt)
			lines := c.until(message.isAsk)
			first := lines[len(lines)-1]
			if first.Method != "item/commandExecution/requestApproval" {
				t.Fatalf("first ask %s", first.Method)
			}
			c.decide(first, "accept")
			r := c.finish("decline")
			if len(r.asks) != 1 || r.asks[0].Method != "item/fileChange/requestApproval" {
				t.Fatalf("second ask %+v", r.asks)
			}
			got := r.messages()
			if last := got[len(got)-1]; !strings.Contains(last, "ok") || !strings.Contains(last, "rejected by user") {
				t.Errorf("last message %q", last)
			}
			if _, err := os.Stat(plan); !os.IsNotExist(err) {
				t.Errorf("the declined file: %v", err)
			}
			got = c.runTurn(thread, "What did I say first?", "decline").messages()
			if len(got) != 1 || !strings.Contains(got[0], prompt) {
				t.Errorf("second turn %q", got)
			}
		})
	}
}

func TestAnyToolCanBeCalled(t *testing.T) {
	for name, model := range dialects {
		t.Run(name, func(t *testing.T) {
			s := Serve(t, `
rules:
  - steps:
      - call: {name: lookup_ticket, arguments: {id: "{{ .LastUser }}"}}
      - say: "{{ .LastToolOutput }}"
`)
			c := startCodex(t, s)
			params := map[string]any{"cwd": c.cwd, "approvalPolicy": "on-request", "sandbox": "read-only",
				"dynamicTools": []any{map[string]any{"type": "function", "name": "lookup_ticket", "description": "finds a ticket",
					"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{"type": "string"}}}}}}
			if model != "" {
				params["model"] = model
			}
			var r struct{ Thread struct{ ID string } }
			if err := json.Unmarshal(c.call("thread/start", params), &r); err != nil {
				t.Fatal(err)
			}
			c.startTurn(r.Thread.ID, "ABC-1")
			lines := c.until(message.isAsk)
			call := lines[len(lines)-1]
			if call.Method != "item/tool/call" || call.field("tool") != "lookup_ticket" || call.field("arguments", "id") != "ABC-1" {
				t.Fatalf("asked %s %s", call.Method, call.Params)
			}
			c.send(map[string]any{"id": call.ID, "result": map[string]any{"success": true,
				"contentItems": []any{map[string]any{"type": "inputText", "text": "it is open"}}}})
			if got := c.finish("decline").messages(); len(got) != 1 || !strings.Contains(got[0], "it is open") {
				t.Errorf("messages %q", got)
			}
		})
	}
}
