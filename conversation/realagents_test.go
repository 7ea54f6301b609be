package conversation

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// The recordings agents-VERSION.jsonl have sub-agents that codex begins with its tools of the
// second kind (multi_agent_v2) and names. agents-VERSION.* are what must become of them.

const agentsScript = `
rules:
  - when: {contains: do it all}
    steps:
      - - think: Others shall look.
        - call: {name: spawn_agent, SPACE arguments: {task_name: scout, message: look around, fork_turns: none}}
      - call: {name: wait_agent, SPACE arguments: {timeout_ms: 60000}}
      - - think: They have looked.
        - say: Done.
  - steps: # codex gives a sub-agent its task in an item that is no user message
      - - think: I shall look.
        - shell: "echo seen"
      - say: "The scout saw {{ trim .LastToolOutput }}"
`

// tellsOfAgents reports whether a version has an item for what a sub-agent does. Older ones
// have the calls of tools alone, which do not name the sub-agent.
func tellsOfAgents(version string) bool {
	v, _ := wire.Numbers(version)
	return !wire.Older(v, [3]int{0, 140, 0})
}

func subAgentsHaveNames(t *testing.T, c *codex) {
	space := ""
	if v, _ := wire.Numbers(c.version); !wire.Older(v, [3]int{0, 155, 0}) {
		space = "namespace: collaboration,"
	}
	k := c.talk(t, scriptedmodel.Serve(t, strings.ReplaceAll(agentsScript, "SPACE", space)))
	k.configure("…multi_agent_v2 = true\n")
	k.spec.Mark = ""
	rec := &recorder{p: k.p}
	l := &leader{state: k.state, spec: k.spec}
	l.pump = func(in PumpInput) (PumpResult, error) {
		return Run(t.Context(), k.p.attach(in.From(), rec), in, k.sink, Options{})
	}
	if err := l.lead([]string{"do it all"}); err != nil {
		t.Fatal(err)
	}
	namesAgents(t, c.version, k.sink.entries)
	if *update {
		saveRecording(t, "agents-"+c.version+".jsonl", rec.steps(cleaner(k)))
	}
}

// namesAgents checks that the entries tell the sub-agents apart, and that a chat has the
// session's own messages alone.
func namesAgents(t *testing.T, version string, entries []protocol.Entry) {
	t.Helper()
	scout := "scout"
	if !tellsOfAgents(version) {
		scout = "agent 1"
	}
	said := map[string]string{}
	var told []string
	for _, e := range entries {
		switch e.Type {
		case protocol.EntryAssistant:
			said[nameOf(e.Agent)] = e.Text
		case protocol.EntryItem:
			told = append(told, strings.TrimSpace(nameOf(e.Agent)+" "+e.Text))
		}
	}
	if said[""] != "Done." || said[scout] != "The scout saw seen" || len(said) != 2 {
		t.Errorf("%s: said is %q", version, said)
	}
	if want := tellsOfAgents(version); want != slices.Contains(told, "scout: started") {
		t.Errorf("%s: of sub-agents it told %q", version, told)
	}
	for _, m := range Chat(entries) {
		if strings.Contains(m.Content+m.Reasoning, "I shall look") || m.Role == RoleAssistant && strings.Contains(m.Content, "The scout saw") {
			t.Errorf("%s: the chat of the session has what a sub-agent said: %+v", version, m)
		}
		for _, call := range m.Calls {
			if call.Name == "subAgentActivity" {
				t.Errorf("%s: an activity has become a call: %+v", version, m)
			}
		}
	}
	if last := Chat(entries); last[len(last)-1].Content != "Done." || last[len(last)-1].Reasoning != "They have looked." {
		t.Errorf("%s: the chat ends with %+v", version, last[len(last)-1])
	}
	all := ChatWithAgents(entries)
	if !slices.ContainsFunc(all, func(m ChatMessage) bool {
		return m.Thread != "" && m.Content == "The scout saw seen" && m.Reasoning == "" && m.Role == RoleAssistant
	}) {
		t.Errorf("%s: the chat with sub-agents lacks one: %+v", version, all)
	}
}

func nameOf(a *protocol.Agent) string {
	if a == nil {
		return ""
	}
	return a.Name
}

func TestReplayOfEveryVersionTellsSubAgentsApart(t *testing.T) {
	for _, v := range published() {
		name := "agents-" + v
		entries, _ := replayOf(t, name)
		namesAgents(t, v, entries)
		goldens(t, name, entries)
	}
}

// goldens compares what becomes of entries with the files of a name.
func goldens(t *testing.T, name string, entries []protocol.Entry) {
	t.Helper()
	for ending, got := range map[string][]byte{
		".entries.jsonl": JSONLines(entries), ".md": Markdown("Session a", entries), ".chat.jsonl": ChatLines(entries), ".agents.jsonl": ChatLinesWithAgents(entries),
	} {
		golden(t, name+ending, got)
	}
	if !bytes.HasPrefix(ChatLinesWithAgents(entries), ChatLines(entries)) {
		t.Errorf("%s: the chat with sub-agents is another one", name)
	}
}

// replayOf runs one turn of a recording.
func replayOf(t *testing.T, name string) ([]protocol.Entry, []protocol.Delta) {
	t.Helper()
	sink := newKeeper()
	r := newReplayer(loadRecording(t, name+".jsonl"), eager)
	l := &leader{state: PumpState{Cursor: protocol.Cursor{Incarnation: 1}}, spec: ThreadSpec{CWD: "/srv/work", Sandbox: "workspace-write", ApprovalPolicy: "on-request", Model: functions}}
	k := *noKnife
	l.pump = func(in PumpInput) (PumpResult, error) { return attempts(r, in, sink, &k) }
	if err := l.lead([]string{"do it all"}); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", name, err))
	}
	return sink.entries, sink.deltas
}
