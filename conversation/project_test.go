package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// projected is a transcript with everything that a projection has to handle.
func projected() []protocol.Entry {
	at := time.Date(2026, 11, 21, 9, 45, 3, 0, time.UTC)
	two := 2
	entries := []protocol.Entry{
		{Turn: 1, Type: protocol.EntryState, Status: "started", Text: "thread started", Data: map[string]string{"thread": "t", "model": "m"}},
		{Turn: 1, Type: protocol.EntryUser, Text: "Build it.\nAnd test it."},
		{Turn: 1, Type: protocol.EntryReasoning, Text: "Let me see."},
		{Turn: 1, Type: protocol.EntryAssistant, Text: "I shall look first: größer, 更大."},
		{Turn: 1, Type: protocol.EntryRequest, Status: "open", Text: "run make"},
		{Turn: 1, Type: protocol.EntryDecision, Status: "accept", Text: "accepted"},
		{Turn: 1, Type: protocol.EntryCommand, Command: "make", CWD: "/w", ExitCode: &two, Status: "failed", Text: "make: *** no rule\n```\n"},
		{Turn: 1, Type: protocol.EntryTool, Tool: "server/find", Text: `{"found":1}`, Data: map[string]string{"arguments": `{"z":1,"a":{"d":12345678901234567890,"c":"<&>"}}`}},
		{Turn: 1, Type: protocol.EntryAssistant, Text: "A rule is missing."},
		{Turn: 1, Type: protocol.EntryUser, Text: "Then write one."}, // a steer
		{Turn: 1, Type: protocol.EntryFileChange, Status: "completed", Text: "1 file", Changes: []protocol.Change{{Path: "Makefile", Kind: "add", Diff: "+all:\n"}}},
		{Turn: 1, Type: protocol.EntryState, Status: "completed", Text: "turn completed"},
		{Turn: 2, Type: protocol.EntryUser, Text: "Anything else?"},
		{Turn: 2, Type: protocol.EntryError, Text: "the usage limit is reached"},
		{Turn: 2, Type: protocol.EntryState, Status: "failed", Text: "turn failed: the usage limit is reached"},
		{Turn: 3, Type: protocol.EntryUser, Text: "\x1b[31mred\u202e"},
		{Turn: 3, Type: protocol.EntryTool, Tool: "t", Data: map[string]string{"arguments": `[1]`}},
		{Turn: 3, Type: protocol.EntryAssistant, Text: "Done."},
		{Turn: 4, Type: protocol.EntryUser, Text: "Dig."},
		{Turn: 4, Type: protocol.EntryMCPServer, Status: "failed", Text: "MCP server desk failed to start: no", Data: map[string]string{"server": "desk"}},
		{Turn: 4, Type: protocol.EntryPlan, Text: "[x] look\n[ ] dig", Plan: []protocol.PlanStep{{Text: "look", Status: "completed"}, {Text: "dig\n# deep", Status: "pending"}}, Data: map[string]string{"count": "1 of 2 steps completed"}},
		{Turn: 4, Type: protocol.EntryHook, Status: "blocked", Text: "hook preToolUse blocked\nfeedback: no", Data: map[string]string{"event": "preToolUse"}},
		{Turn: 4, Type: protocol.EntryReroute, Text: "model b answers in place of a"},
		{Turn: 4, Type: protocol.EntryContext, Text: "520 of 1000 tokens of the context are used (52 %)"},
		{Turn: 4, Type: protocol.EntryToolProgress, Item: "c", Text: "half"},
		{Turn: 4, Type: protocol.EntryItem, Text: "light", Data: map[string]string{"type": "hologram"}},
		{Turn: 4, Type: protocol.EntryAssistant, Text: "Dug."},
	}
	for i := range entries {
		entries[i].Seq, entries[i].ID, entries[i].At = int64(i+1), fmt.Sprintf("e-%d", i+1), at.Add(time.Duration(i)*time.Second)
	}
	return entries
}

// A steer comes between a thought and the message that it belongs to. The thought of another turn
// belongs to no message of this one.
func TestAThoughtStaysWithItsMessageOverASteer(t *testing.T) {
	n := 0
	says := func(turn int, kind protocol.EntryType, text string) protocol.Entry {
		n++
		return protocol.Entry{ID: fmt.Sprintf("e-%d", n), Turn: turn, Type: kind, Text: text}
	}
	chat := Chat([]protocol.Entry{
		says(1, protocol.EntryUser, "begin"), says(1, protocol.EntryReasoning, "hm"), says(1, protocol.EntryUser, "faster"), says(1, protocol.EntryAssistant, "done"),
		says(2, protocol.EntryUser, "again"), says(2, protocol.EntryReasoning, "lost"), says(3, protocol.EntryUser, "and again"), says(3, protocol.EntryAssistant, "yes"),
	})
	thoughts := map[string]string{}
	for _, m := range chat {
		if m.Role == RoleAssistant {
			thoughts[m.Content] = m.Reasoning
		}
	}
	if thoughts["done"] != "hm" || thoughts["yes"] != "" || len(thoughts) != 2 {
		t.Errorf("%q", thoughts)
	}
}

func TestProjectionsAreTheGoldenOnes(t *testing.T) {
	for name, got := range map[string][]byte{
		"chat.jsonl":    ChatLines(projected()),
		"transcript.md": Markdown("Session a", projected()),
		"entries.jsonl": JSONLines(projected()),
	} {
		file := filepath.Join("testdata", "project", name)
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
}

func TestChatHasWhatWasSaidCalledAndFound(t *testing.T) {
	var all []string
	for _, m := range Chat(projected()) {
		all = append(all, fmt.Sprintf("%s %d %s", m.Role, len(m.Calls), strings.ReplaceAll(m.Content, "\n", "¶")))
	}
	want := []string{
		"user 0 Build it.¶And test it.",
		"assistant 2 I shall look first: größer, 更大.",
		"tool 0 make: *** no rule¶```¶[exit code 2]",
		`tool 0 {"found":1}`,
		"assistant 0 A rule is missing.",
		"user 0 Then write one.",
		"assistant 1 ",
		"tool 0 [completed]",
		"assistant 0 ",
		"user 0 Anything else?",
		"assistant 0 the usage limit is reached",
		"user 0 \x1b[31mred\u202e",
		"assistant 1 ",
		"tool 0 ",
		"assistant 0 Done.",
		"user 0 Dig.",
		"assistant 0 Dug.",
	}
	if !slices.Equal(all, want) {
		t.Errorf("messages\n%s, want\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
	}
	calls := Chat(projected())[1].Calls
	if calls[1].Arguments != `{"a":{"c":"<&>","d":12345678901234567890},"z":1}` {
		t.Errorf("arguments %s", calls[1].Arguments)
	}
}

// sound reports what is wrong with a chat.
func sound(all []ChatMessage) error {
	ids := map[string]bool{}
	var open []string // calls without a result yet
	last := ChatRole("")
	for i, m := range all {
		if ids[m.ID] || m.ID == "" {
			return fmt.Errorf("message %d: its id %q is not its own", i, m.ID)
		}
		ids[m.ID] = true
		ok := false
		switch m.Role {
		case RoleUser:
			ok = (last == "" || last == RoleAssistant) && len(open) == 0 && m.CallID == "" && m.Calls == nil
		case RoleAssistant:
			ok = (last == RoleUser || last == RoleTool) && len(open) == 0 && m.CallID == ""
			for _, c := range m.Calls {
				var object map[string]json.RawMessage
				if ids[c.ID] || json.Unmarshal([]byte(c.Arguments), &object) != nil {
					return fmt.Errorf("message %d: call %+v", i, c)
				}
				if again := sortedArguments(c.Arguments); again != c.Arguments {
					return fmt.Errorf("message %d: %s is not sorted: %s", i, c.Arguments, again)
				}
				ids[c.ID] = true
				open = append(open, c.ID)
			}
		case RoleTool:
			ok = len(open) > 0 && m.CallID == open[0] && m.Calls == nil
			if ok {
				open = open[1:]
			}
		}
		if !ok {
			return fmt.Errorf("message %d is a %s after a %s: %+v", i, m.Role, last, m)
		}
		last = m.Role
	}
	if last == RoleTool || len(open) > 0 {
		return fmt.Errorf("it ends with a %s, %q are open", last, open)
	}
	return nil
}

func anyEntries(r *rand.Rand) []protocol.Entry {
	types := []protocol.EntryType{protocol.EntryUser, protocol.EntryAssistant, protocol.EntryReasoning, protocol.EntryCommand, protocol.EntryFileChange, protocol.EntryTool, protocol.EntryRequest, protocol.EntryDecision, protocol.EntryState, protocol.EntryError, "new"}
	all := make([]protocol.Entry, r.IntN(12))
	for i := range all {
		all[i] = protocol.Entry{Seq: int64(i + 1), ID: fmt.Sprint("e", i), Turn: r.IntN(4), Type: types[r.IntN(len(types))], Text: []string{"", "a", "b\n"}[r.IntN(3)],
			Status: []string{"", "completed", "declined"}[r.IntN(3)], Data: map[string]string{"arguments": []string{"", "{", `{"b":1,"a":[{"d":1,"c":2}]}`, "null", "{} {}"}[r.IntN(5)]}}
	}
	return all
}

func TestEveryChatAlternatesAndItsOrderMattersNot(t *testing.T) {
	seeds := uint64(3000)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		entries := anyEntries(r)
		if err := sound(Chat(entries)); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, JSONLines(entries))
		}
		chat, text, lines := ChatLines(entries), Markdown("x", entries), JSONLines(entries)
		// Readers may get entries again, and in another order.
		for range r.IntN(5) {
			if len(entries) > 0 {
				entries = append(entries, entries[r.IntN(len(entries))])
			}
		}
		r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		if !bytes.Equal(ChatLines(entries), chat) || !bytes.Equal(Markdown("x", entries), text) || !bytes.Equal(JSONLines(entries), lines) {
			t.Fatalf("seed %d: another order gives other bytes", seed)
		}
	}
}

func TestChatGrowsAtItsEnd(t *testing.T) {
	// Messages do not change when more entries follow.
	entries := projected()
	whole := Chat(entries)
	for n := range entries {
		if entries[n].Type != protocol.EntryUser || n == 0 {
			continue
		}
		head := Chat(entries[:n])
		for i, m := range head {
			if a, b := string(canonical(m)), string(canonical(whole[i])); a != b {
				t.Errorf("after %d entries message %d is %s, in the end %s", n, i, a, b)
			}
		}
	}
}

func TestMarkdownCannotBeBrokenOutOf(t *testing.T) {
	text := string(Markdown("x\n# y", projected()))
	for _, bad := range []string{"\x1b", "\u202e", "\n# y"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in it", bad)
		}
	}
	lost := protocol.Entry{Seq: 1, ID: "e", Type: protocol.EntryUser, Text: "hello\n", Data: map[string]string{"delivery": string(protocol.Sent)}}
	if got := string(Markdown("x", []protocol.Entry{lost})); !strings.Contains(got, "> hello (whether it reached codex is not known)\n") {
		t.Errorf("%q", got)
	}
	if !strings.Contains(text, "\n````\nmake: *** no rule\n```\n````\n") {
		t.Errorf("a fence in an output ends its block:\n%s", text)
	}
}

func FuzzProjections(f *testing.F) {
	for _, e := range projected() {
		f.Add(canonical(e))
	}
	f.Add(JSONLines(projected()))
	f.Fuzz(func(t *testing.T, text []byte) {
		var entries []protocol.Entry
		d := json.NewDecoder(bytes.NewReader(text))
		for len(entries) < 50 {
			var e protocol.Entry
			if d.Decode(&e) != nil {
				break
			}
			entries = append(entries, e)
		}
		// Entries without an id, or with the id of another entry, cannot be distinguished.
		for i := range entries {
			entries[i].ID += fmt.Sprint("#", i)
		}
		if err := sound(Chat(entries)); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		md := Markdown("x", entries)
		slices.Reverse(entries)
		if !bytes.Equal(md, Markdown("x", entries)) {
			t.Fatal("another order gives other bytes")
		}
	})
}
