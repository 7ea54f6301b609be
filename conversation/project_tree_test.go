package conversation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// nested is a transcript with a sub-agent, one of its own, and one of an older worker.
func nested() []protocol.Entry {
	scout := &protocol.Agent{Thread: "t-1", Name: "scout"}
	entries := []protocol.Entry{
		{Type: protocol.EntryUser, Text: "go"},
		{Type: protocol.EntryUser, Text: "look", Agent: scout},
		{Type: protocol.EntryReasoning, Text: "Hm."},
		{Type: protocol.EntryTool, Tool: "spawnAgent", Status: "completed", Data: map[string]string{"agents": "t-1", "arguments": `{"prompt":"look"}`}},
		{Type: protocol.EntryAssistant, Text: "deep", Agent: &protocol.Agent{Thread: "t-2", Name: "agent 2", Of: scout}},
		{Type: protocol.EntryReasoning, Text: "It looks."},
		{Type: protocol.EntryAssistant, Text: "seen\n```", Agent: scout},
		{Type: protocol.EntryAssistant, Text: "old", Data: map[string]string{"thread": "t-3"}},
		{Type: protocol.EntryAssistant, Text: "Done."},
		{Type: protocol.EntryState, Status: "started", Text: "resumed", Data: map[string]string{"thread": "own"}},
	}
	for i := range entries {
		entries[i].Seq, entries[i].ID, entries[i].Turn = int64(i+1), fmt.Sprint("e", i+1), 1
	}
	return entries
}

func TestSubAgentsAreATree(t *testing.T) {
	var got []string
	for _, e := range Tree(nested()) {
		got = append(got, strings.Repeat(">", e.Depth)+orWord(e.Text, e.Tool))
	}
	want := []string{"go", "Hm.", "spawnAgent", ">look", ">>deep", ">seen\n```", "It looks.", ">old", "Done.", "resumed"}
	if !slices.Equal(got, want) {
		t.Errorf("tree %q, want %q", got, want)
	}
	md := string(Markdown("x", nested()))
	for _, part := range []string{"\n> **scout**\n", "\n> > deep\n", "\n> seen\n> ```\n", "\nDone.\n"} {
		if !strings.Contains(md, part) {
			t.Errorf("no %q in\n%s", part, md)
		}
	}
	if line := string(canonical(nested()[4])); !strings.Contains(line, `"agent":{"thread":"t-2","name":"agent 2","of":{"thread":"t-1","name":"scout"}}`) {
		t.Errorf("JSON %s", line)
	}
}

func TestChatHasSubAgentsOnlyIfAsked(t *testing.T) {
	told := func(all []ChatMessage) (out []string) {
		for _, m := range all {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s%s[%s] %s", m.Thread, m.Role, m.Reasoning, m.Content)))
		}
		return out
	}
	own := []string{"user[] go", "assistant[Hm.]", "tool[] [completed]", "assistant[It looks.] Done."}
	if got := told(Chat(nested())); !slices.Equal(got, own) {
		t.Errorf("chat %q, want %q", got, own)
	}
	all := append(slices.Clone(own), "t-1user[] look", "t-1assistant[] seen\n```", "t-2user[]", "t-2assistant[] deep", "t-3user[]", "t-3assistant[] old")
	if got := told(ChatWithAgents(nested())); !slices.Equal(got, all) {
		t.Errorf("chat with sub-agents %q, want %q", got, all)
	}
}

// Older workers recorded unknown items as tools. A search has its query as its argument.
func TestChatInventsNoCalls(t *testing.T) {
	chat := Chat([]protocol.Entry{
		{Seq: 1, ID: "1", Type: protocol.EntryUser, Text: "go"}, {Seq: 2, ID: "2", Type: protocol.EntryTool, Tool: "subAgentActivity"},
		{Seq: 3, ID: "3", Type: protocol.EntryItem, Data: map[string]string{"type": "sleep"}}, {Seq: 4, ID: "4", Type: protocol.EntryTool, Tool: "webSearch", Text: "tides"},
	})
	if len(chat) != 4 || len(chat[1].Calls) != 1 || chat[1].Calls[0].Arguments != `{"query":"tides"}` || chat[2].Content != "" {
		t.Errorf("chat %+v", chat)
	}
}
