package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func planLine(explanation string, steps ...string) string {
	var all []string
	for _, s := range steps {
		text, status, _ := strings.Cut(s, "|")
		all = append(all, fmt.Sprintf(`{"step":%q,"status":%q}`, text, status))
	}
	return wireEvent("turn/plan/updated", fmt.Sprintf(`"explanation":%q,"plan":[%s]`, explanation, strings.Join(all, ",")))
}

func hookLine(status, entries string) string {
	return wireEvent("hook/completed", fmt.Sprintf(`"run":{"id":"h","eventName":"preToolUse","handlerType":"command","sourcePath":"/h/hooks.json","source":"user","status":%q,"durationMs":2,"entries":[%s]}`, status, entries))
}

func serverLine(name, status, why string) string {
	return wireEvent("mcpServer/startupStatus/updated", fmt.Sprintf(`"name":%q,"status":%q,"error":%q`, name, status, why))
}

func toolSays(item, message string) string {
	return wireEvent("item/mcpToolCall/progress", fmt.Sprintf(`"itemId":%q,"message":%q`, item, message))
}

func usedLine(used int) string {
	return wireEvent("thread/tokenUsage/updated", fmt.Sprintf(`"tokenUsage":{"total":{"totalTokens":%d},"last":{"totalTokens":%[1]d},"modelContextWindow":1000}`, used))
}

const rerouteLine = `"fromModel":"m-1","toModel":"m-2","reason":"highRiskCyberActivity"`

// of returns the entries of some types, as "type status: text".
func (k *keeper) of(types ...protocol.EntryType) (all []string) {
	for _, e := range k.entries {
		if slices.Contains(types, e.Type) {
			all = append(all, strings.TrimSpace(string(e.Type)+" "+e.Status)+": "+strings.ReplaceAll(e.Text, "\n", "¶"))
		}
	}
	return all
}

func TestWhatCodexReportsBesideTheItemsIsOnRecord(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(
		serverLine("desk", "starting", ""), serverLine("broken", "starting", ""), serverLine("broken", "failed", "no such file"), serverLine("desk", "ready", ""),
		planLine("first", "look|inProgress", "book|pending"), planLine("first", "look|inProgress", "book|pending"), planLine("", "look|completed", "book|inProgress"),
		started("call-1", "mcpToolCall", `,"server":"desk","tool":"book"`), toolSays("call-1", "step 1"), toolSays("call-1", "step 2"), toolSays("call-1", "step 3"),
		completed("call-1", "mcpToolCall", `,"server":"desk","tool":"book","status":"completed"`),
		hookLine("completed", ""), hookLine("blocked", `{"kind":"feedback","text":"not that"}`),
		wireEvent("model/rerouted", rerouteLine), usedLine(100), usedLine(520),
	)
	want := []string{
		"mcp_server failed: MCP server broken failed to start: no such file", "mcp_server ready: MCP server desk is ready",
		"plan: first¶[>] look¶[ ] book", "plan: [x] look¶[>] book",
		"tool_progress: step 1", "tool_progress: step 2", "tool_progress: step 3",
		"hook completed: hook preToolUse completed", "hook blocked: hook preToolUse blocked¶feedback: not that",
		"reroute: model m-2 answers in place of m-1: highRiskCyberActivity", "context: 520 of 1000 tokens of the context are used (52 %)",
	}
	if got := s.sink.of(protocol.EntryMCPServer, protocol.EntryPlan, protocol.EntryToolProgress, protocol.EntryHook, protocol.EntryReroute, protocol.EntryContext, protocol.EntryState); !slices.Equal(got, want) {
		t.Errorf("entries\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	n := s.m.st.Notices.Newest
	if n.Plan.Count() != "1 of 2 steps completed" || n.Rerouted.To != "m-2" || len(n.MCPServers) != 2 || n.MCPServers[1] != (protocol.MCPServer{Name: "broken", Status: "failed", Error: "no such file"}) {
		t.Errorf("newest %+v", n)
	}
	var live string
	for _, d := range s.sink.deltas {
		if d.Type == protocol.EntryToolProgress {
			live += d.Text
		}
	}
	if live != "step 1\nstep 2\nstep 3\n" {
		t.Errorf("viewers saw %q", live)
	}
	s.hear(turnDone("completed", ""))
	// A new turn begins without a plan and a reroute; the servers go on.
	next := perform(t, PumpInput{State: s.result(TurnEnded).State}, Options{}, `{"method":"turn/started","params":{"threadId":"thread-1","turn":{"id":"turn-2"}}}`)
	if n := next.m.st.Notices.Newest; n == nil || n.Plan != nil || n.Rerouted != nil || len(n.MCPServers) != 2 {
		t.Errorf("in the next turn %+v", n)
	}
}

// A chatty model, server or hook makes few entries and a small state, and its last word is
// on record.
func TestReportsBesideTheItemsAreBounded(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	long := strings.Repeat("ä", 500)
	s.hear(started("call-1", "mcpToolCall", `,"server":"desk","tool":"book"`))
	for i := range 1000 {
		var steps []string
		for n := range 1 + i%50 {
			steps = append(steps, fmt.Sprintf("%d of plan %d %s|pending", n, i, long[:4*n]))
		}
		s.hear(planLine(long, steps...), toolSays("call-1", fmt.Sprint(i, long)), hookLine("completed", ""), hookLine("failed", `{"kind":"error","text":"no"}`),
			serverLine(fmt.Sprint("server ", i), "failed", fmt.Sprint(long, i)), wireEvent("model/rerouted", rerouteLine), usedLine(100+900*(i%2)))
	}
	state, err := json.Marshal(s.m.st)
	if err != nil || len(state) > 64<<10 {
		t.Errorf("the state has %d bytes, %v", len(state), err)
	}
	s.hear(completed("call-1", "mcpToolCall", `,"server":"desk","tool":"book","status":"completed"`), turnDone("completed", ""))
	s.result(TurnEnded)
	if n := len(s.sink.entries); n > 300 {
		t.Errorf("%d entries", n)
	}
	plans := s.sink.of(protocol.EntryPlan)
	if len(plans) != maxPlans+1 || !strings.Contains(plans[maxPlans], " of plan 999 ") || !strings.HasSuffix(plans[maxPlans], "and 10 more") {
		t.Errorf("%d plans, the last is %q", len(plans), plans[len(plans)-1])
	}
	if last := s.sink.of(protocol.EntryToolProgress); len(last) != 11 || !strings.HasPrefix(last[10], "tool_progress: 999") {
		t.Errorf("progress %q", last)
	}
	want := "state left_out: not on record one by one: 980 more plans, 960 more reports on MCP servers, 990 more hooks that completed, 950 more hooks, 990 more reroutes, 480 more reports on the context"
	if got := s.sink.of(protocol.EntryState); len(got) != 2 || got[0] != want {
		t.Errorf("states %q", got)
	}
}

// What a sub-agent reports names it, and is not what the session reports.
func TestReportsOfSubAgentsAreTheirs(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	other := func(line string) string { return strings.ReplaceAll(line, ourThread, "thread-2") }
	s.hear(other(planLine("", "dig|pending")), other(serverLine("desk", "ready", "")), other(serverLine("desk", "failed", "no")), other(hookLine("completed", "")), other(wireEvent("model/rerouted", rerouteLine)),
		other(completed("c-1", "contextCompaction", "")), other(completed("r-1", "enteredReviewMode", `,"review":"all"`)), other(wireEvent("warning", `"message":"slow"`)),
		other(completed("u-1", "userMessage", `,"content":[{"type":"text","text":"<turn_aborted>no</turn_aborted>"}]`)))
	for _, e := range s.sink.entries {
		if e.SubAgent() != "thread-2" || e.Agent.Name != "agent 1" {
			t.Errorf("%s is of %+v", e.Type, e.Agent)
		}
	}
	if len(s.sink.entries) != 8 || s.m.st.Notices.Newest != nil || s.m.st.TurnID != ourTurn {
		t.Errorf("%d entries, newest %+v", len(s.sink.entries), s.m.st.Notices.Newest)
	}
}

// An activity of a sub-agent names it for all that it says later, and an activity of the session's
// own thread makes no sub-agent. The fields are those of codex's schema (testdata/schema.txt).
func TestAnActivityNamesItsSubAgent(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	activity := func(id, thread string) string {
		return completed(id, "subAgentActivity", fmt.Sprintf(`,"kind":"started","agentThreadId":%q,"agentPath":"/root/scout"`, thread))
	}
	s.hear(activity("a-1", "thread-2"), strings.ReplaceAll(completed("m-1", "agentMessage", `,"text":"found it"`), ourThread, "thread-2"), activity("a-2", ourThread))
	if got, want := s.sink.of(protocol.EntryItem, protocol.EntryAssistant), []string{"item: scout: started", "assistant: found it", "item: "}; !slices.Equal(got, want) {
		t.Fatalf("entries %q, want %q", got, want)
	}
	told, said, own := s.sink.entries[0], s.sink.entries[1], s.sink.entries[2]
	if told.Data["agents"] != "thread-2" || told.SubAgent() != "" || said.SubAgent() != "thread-2" || said.Agent.Name != "scout" || own.Data["agents"] != "" {
		t.Errorf("the activity %+v, the message %+v, the session's own %+v", told, said, own)
	}
	if agents := s.m.st.Agents; len(agents) != 1 {
		t.Errorf("sub-agents %+v", agents)
	}
}

// A pump waits after a turn's end, but not for long, for what becomes of an MCP server that codex
// has begun to start: the turn may be shorter than the start.
func TestAServerThatFailsSoonAfterTheTurnIsOnRecord(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(serverLine("broken", "starting", ""), serverLine("desk", "starting", ""), serverLine("desk", "ready", ""), turnDone("completed", ""))
	s.attached()
	s.hear(serverLine("broken", "failed", "no such file"))
	r := s.result(TurnEnded)
	if got, want := s.sink.of(protocol.EntryMCPServer), []string{"mcp_server ready: MCP server desk is ready", "mcp_server failed: MCP server broken failed to start: no such file"}; !slices.Equal(got, want) {
		t.Errorf("entries %q, want %q", got, want)
	}
	if n := r.State.Notices.Newest; n == nil || len(n.MCPServers) != 2 || n.MCPServers[0].Status != "failed" {
		t.Errorf("the newest notices are %+v", n)
	}

	s = perform(t, PumpInput{State: running()}, Options{})
	s.hear(serverLine("slow", "starting", ""), turnDone("completed", ""))
	s.wait(anotherGrace - time.Millisecond)
	s.attached()
	s.wait(time.Millisecond)
	s.result(TurnEnded)
}

// Secrets in reports are hidden before they reach an entry, a viewer or the state.
func TestReportsHideSecrets(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{Redactor: NewRedactor("hunter2-hunter2")})
	s.hear(started("c-1", "commandExecution", `,"command":"echo hunter2-hunter2"`), started("call-1", "mcpToolCall", `,"server":"desk","tool":"book"`), planLine("use hunter2-hunter2", "hunter2-hunter2|pending"), serverLine("desk", "failed", "hunter2-hunter2"),
		toolSays("call-1", "hunter2-hunter2"), toolSays("call-1", "2"), toolSays("call-1", "hunter2-hunter2"), hookLine("failed", `{"kind":"error","text":"hunter2-hunter2"}`))
	text, err := json.Marshal([]any{s.m.st, s.sink.entries, s.sink.deltas})
	if err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("%v: %s", err, text)
	}
}

// A plan that no entry has yet is on record when the process ends, once, whichever pump
// sees the end.
func TestLatePlanIsOnRecordAtTheProcessEnd(t *testing.T) {
	state := running()
	state.Notices = Noticed{Newest: &protocol.Notices{Plan: &protocol.Plan{Turn: 4, Steps: []protocol.PlanStep{{Text: "look", Status: "pending"}}}}, Late: true, Plans: maxPlans + 1}
	s := perform(t, PumpInput{State: state}, Options{})
	s.m.ended(0)
	s.result(ProcessEnded)
	if got := s.sink.of(protocol.EntryPlan, protocol.EntryState); !slices.Equal(got, []string{"plan: [ ] look", "state left_out: not on record one by one: 1 more plans"}) {
		t.Errorf("entries %q", got)
	}
}

// Items that are no known ones are no tools, so no reader takes them for calls.
func TestUnknownItemsAreNoTools(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(completed("x-1", "sleep", `,"durationMs":5`), completed("x-2", "functionCallOutput", `,"name":"f","output":"o"`), completed("x-3", "hologram", `,"text":"light"`),
		completed("x-4", "hookPrompt", `,"fragments":[{"hookRunId":"h","text":"mind the gap"}]`))
	if got, want := s.sink.of(protocol.EntryItem, protocol.EntryTool, protocol.EntryHook), []string{"item: ", "item: ", "item: light", "hook prompt: mind the gap"}; !slices.Equal(got, want) {
		t.Errorf("entries %q, want %q", got, want)
	}
	if s.sink.entries[2].Data["type"] != "hologram" {
		t.Errorf("data %v", s.sink.entries[2].Data)
	}
}
