package conversation

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// The recordings says-VERSION.jsonl have each kind of report beside the items, and a
// sub-agent. says-VERSION.* are what must become of them.

const saysScript = `
rules:
  - when: {contains: look around}
    steps:
      - - think: I shall look.
        - shell: "echo seen"
      - say: "The scout saw {{ .LastToolOutput }}"
  - when: {contains: do it all}
    steps:
      - - think: First a plan.
        - call: {name: update_plan, arguments: {explanation: starting, plan: [{step: look, status: in_progress}, {step: book, status: pending}]}}
      - shell: "for i in 1 2 3; do echo line $i; sleep 0.3; done"
      - call: {name: book, namespace: DESK, arguments: {for: two}}
      - call: {name: spawn_agent, AGENTS arguments: {message: look around}}
      - call: {name: wait_agent, AGENTS arguments: {targets: ["{{ slice .LastToolOutput 13 49 }}"], timeout_ms: 60000}}
      - call: {name: update_plan, arguments: {plan: [{step: look, status: completed}, {step: book, status: completed}]}}
      - - think: All is done.
        - say: Done.
        - usage: {input: 200000, output: 100}
        - served: gpt-5.2
`

// trueHook is what codex calls the hash of a hook that runs "true" before each tool. Since
// 0.130 it runs no hook that nobody trusts.
const trueHook = "sha256:a7de97b60e1412f8e936f33ad7e97c04dfe69190d43e61d14c46265643383835"

func reportsBesideTheItems(t *testing.T, c *codex) {
	desk, agents := "mcp__desk", "namespace: multi_agent_v1,"
	if v, _ := wire.Numbers(c.version); wire.Older(v, [3]int{0, 140, 0}) {
		desk, agents = "mcp__desk__", ""
	}
	m := serveMCP(t, "")
	m.harmless, m.tells = true, true
	k := c.talk(t, scriptedmodel.Serve(t, strings.NewReplacer("DESK", desk, "AGENTS", agents).Replace(saysScript)))
	hooks := filepath.Join(k.h.dir, "hooks.json")
	if err := os.WriteFile(hooks, []byte(`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"true"}]}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	k.configure(fmt.Sprintf("…\n%s[mcp_servers.broken]\ncommand = \"/no/such/program\"\n[tools.update_plan]\nenabled = true\n[hooks.state.%q]\ntrusted_hash = %q\n", m.config(), hooks+":pre_tool_use:0:0", trueHook))
	k.spec.Mark = ""
	rec := &recorder{p: k.p}
	l := &leader{state: k.state, spec: k.spec}
	l.pump = func(in PumpInput) (PumpResult, error) {
		return Run(t.Context(), k.p.attach(in.From(), rec), in, k.sink, Options{})
	}
	if err := l.lead([]string{"do it all"}); err != nil {
		t.Fatal(err)
	}
	saysAll(t, k.sink.entries)
	// The server told how far its tool was. No version of the window passes that on.
	if bytes.Contains(k.p.bytes(), []byte(`"item/mcpToolCall/progress"`)) {
		t.Error("codex reports the progress of MCP tools by now: record it")
	}
	if *update {
		saveRecording(t, "says-"+c.version+".jsonl", rec.steps(cleaner(k)))
	}
}

// saysAll checks that the entries of a version have each kind of report.
func saysAll(t *testing.T, entries []protocol.Entry) {
	t.Helper()
	got := map[string]bool{}
	for _, e := range entries {
		word := string(e.Type)
		switch e.Type {
		case protocol.EntryMCPServer:
			word += " " + e.Data["server"] + " " + e.Status
		case protocol.EntryTool:
			word += " " + e.Tool
		}
		if e.SubAgent() != "" {
			word = "agent's " + word
		}
		got[word] = true
	}
	for _, want := range []string{"plan", "mcp_server desk ready", "mcp_server broken failed", "hook", "reroute", "context", "command", "tool desk/book",
		"tool spawnAgent", "tool wait", "agent's user", "agent's reasoning", "agent's command", "agent's assistant", "assistant"} {
		if !got[want] {
			t.Errorf("no %s among %v", want, got)
		}
	}
	chat := Chat(entries)
	for _, m := range chat {
		if strings.Contains(m.Content, "The scout saw") && m.Role == RoleAssistant {
			t.Errorf("the chat of the session has a message of a sub-agent: %+v", m)
		}
	}
	if last := chat[len(chat)-1]; last.Content != "Done." || last.Reasoning != "All is done." {
		t.Errorf("the last message is %+v", last)
	}
}

func TestReplayOfEveryVersionSaysAll(t *testing.T) {
	for _, v := range published() {
		name := "says-" + v
		entries, deltas := replayOf(t, name)
		saysAll(t, entries)
		output := false
		for _, d := range deltas {
			output = output || d.Type == protocol.EntryCommand && strings.Contains(d.Text, "line ")
		}
		if !output {
			t.Errorf("%s: no output of a command before its end", v)
		}
		goldens(t, name, entries)
	}
}

// golden compares bytes with a file of testdata, or renews it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s, want\n%s", name, got, want)
	}
}
