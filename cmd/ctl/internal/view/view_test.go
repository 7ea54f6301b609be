package view

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

func conversation() (*Conversation, *bytes.Buffer) {
	var out bytes.Buffer
	return New(core.NewPrinter(&out, false), true, true, func() int { return 60 }), &out
}

func delta(kind protocol.EntryType, item, text string) api.Event {
	return api.Event{Kind: api.KindDelta, Delta: &protocol.Delta{Type: kind, Item: item, Text: text, Command: "make test"}}
}

func entry(e protocol.Entry) api.Event { return api.Event{Kind: api.KindEntry, Entry: &e} }

func paneOf(c *Conversation, now time.Time, width int) string {
	var out []string
	for _, l := range c.Pane(now, width) {
		out = append(out, l.Text)
	}
	return strings.Join(out, "\n")
}

// What is complete is printed as Markdown at once, the rest is in the pane until it is, and
// nothing is printed twice.
func TestAMessageIsPrintedOnceItsBlocksAreComplete(t *testing.T) {
	c, out := conversation()
	c.Event(delta(protocol.EntryAssistant, "m", "First **words**.\n\nThen a li"))
	if got := out.String(); got != "First words.\n\n" {
		t.Errorf("printed is %q", got)
	}
	if got := paneOf(c, time.Now(), 60); !strings.HasPrefix(got, "Then a li\n") || !strings.Contains(got, "answering") {
		t.Errorf("the pane is\n%s", got)
	}
	out.Reset()
	c.Event(delta(protocol.EntryAssistant, "m", "st"))
	c.Event(entry(protocol.Entry{Type: protocol.EntryAssistant, Item: "m", Text: "First **words**.\n\nThen a list:\n\n- one\n"}))
	if got := out.String(); got != "Then a list:\n\n• one\n\n" {
		t.Errorf("then it is %q", got)
	}
	if got := paneOf(c, time.Now(), 60); strings.Contains(got, "list") {
		t.Errorf("the pane is\n%s", got)
	}
	out.Reset()
	c.Event(entry(protocol.Entry{Type: protocol.EntryAssistant, Item: "n", Text: "whole"}))
	c.Event(delta(protocol.EntryAssistant, "late", "end of it"))
	c.Event(entry(protocol.Entry{Type: protocol.EntryAssistant, Item: "late", Text: "begin and end of it"}))
	if got := out.String(); got != "whole\n\nbegin and end of it\n\n" {
		t.Errorf("then it is %q", got)
	}
}

// TestALongMessageWithoutABlankLineIsBounded: an agent may write one fence without an end.
func TestALongMessageWithoutABlankLineIsBounded(t *testing.T) {
	c, out := conversation()
	piece := strings.Repeat("x", 50) + "\n"
	all := "```\n"
	c.Event(delta(protocol.EntryAssistant, "m", all))
	for range 8 << 10 {
		c.Event(delta(protocol.EntryAssistant, "m", piece))
		all += piece
	}
	if len(c.message.rest) > keepText || out.Len() < keepText {
		t.Errorf("%d bytes are kept, and %d printed", len(c.message.rest), out.Len())
	}
	c.Event(entry(protocol.Entry{Type: protocol.EntryAssistant, Item: "m", Text: all}))
	if n := strings.Count(out.String(), strings.Repeat("x", 50)); n != 8<<10 {
		t.Errorf("%d of %d lines are printed", n, 8<<10)
	}
}

// The pane shows the end of a command's output, however much comes, and counts the rest.
func TestTheOutputOfACommandIsBounded(t *testing.T) {
	c, out := conversation()
	for i := range 10_000 {
		c.Event(delta(protocol.EntryCommand, "c", fmt.Sprintf("line %d\x1b[2J\n", i)))
	}
	got := strings.Split(paneOf(c, time.Now(), 60), "\n")
	if len(got) != 1+1+mostOutput+1 || got[0] != "$ make test" || got[1] != "  … 9992 lines before" || got[9] != `  line 9999\x1b[2J` || !strings.Contains(got[10], "running a command") {
		t.Errorf("the pane is %q", got)
	}
	if out.Len() > 0 || len(c.command.tail) > keepTail {
		t.Errorf("printed is %q; %d bytes are kept", out, len(c.command.tail))
	}
	one := 1
	c.Event(entry(protocol.Entry{Type: protocol.EntryCommand, Item: "c", Command: "make test", Text: "bad\n", ExitCode: &one}))
	if got := out.String(); got != "$ make test  exit 1\n  bad\n" {
		t.Errorf("printed is %q", got)
	}
	if got := paneOf(c, time.Now(), 60); strings.Contains(got, "make") {
		t.Errorf("the pane is\n%s", got)
	}
}

// The unfinished items of sub-agents are in the pane, each below the name of its sub-agent, and are
// printed when they are finished.
func TestSubAgentsAreAtWorkInThePane(t *testing.T) {
	c, out := conversation()
	of := func(n int, kind protocol.EntryType, item, text string) {
		ev := delta(kind, item, text)
		ev.Delta.Agent = &protocol.Agent{Thread: fmt.Sprint("thread-", n), Name: fmt.Sprint("agent ", n)}
		c.Event(ev)
	}
	of(1, protocol.EntryCommand, "c", "first\nsecond\x1b[2J\n")
	of(2, protocol.EntryAssistant, "m", "I look at it.")
	of(2, protocol.EntryAssistant, "m", "\n\nIt is wrong")
	of(3, protocol.EntryReasoning, "r", "hm")
	got := strings.Split(paneOf(c, time.Now(), 60), "\n")
	if want := []string{"agent 1: $ make test", `  second\x1b[2J`, "agent 2:", "  It is wrong"}; len(got) != 5 || !slices.Equal(got[:4], want) || !strings.Contains(got[4], "sub-agents are at work") {
		t.Errorf("the pane is %q", got)
	}
	of(2, protocol.EntryAssistant, "next", "Next")
	c.Event(entry(protocol.Entry{Type: protocol.EntryCommand, Item: "c", Command: "make test", Agent: &protocol.Agent{Thread: "thread-1", Name: "agent 1"}}))
	if got := paneOf(c, time.Now(), 60); strings.Contains(got, "agent 1") || strings.Contains(got, "It is wrong") || !strings.Contains(got, "agent 2:\n  Next\n") {
		t.Errorf("the pane is %q", got)
	}
	if got := out.String(); !strings.Contains(got, "agent 1:\n") || strings.Contains(got, "agent 2") {
		t.Errorf("printed is %q", got)
	}
	for n := range 2 * keepAgents {
		of(n, protocol.EntryAssistant, "x", "word")
	}
	if got := paneOf(c, time.Now(), 60); !strings.Contains(got, fmt.Sprintf("… and %d more sub-agents", keepAgents-mostAgents)) || strings.Count(got, "\n") != 2*mostAgents+1 {
		t.Errorf("the pane is\n%s", got)
	}
	c.Event(api.Event{Kind: api.KindVoid})
	if got := paneOf(c, time.Now(), 60); strings.Contains(got, "agent") {
		t.Errorf("the pane is %q", got)
	}
}

func TestAPlanIsAChecklist(t *testing.T) {
	c, out := conversation()
	c.Event(entry(protocol.Entry{Type: protocol.EntryPlan, Data: map[string]string{"count": "1 of 3"}, Plan: []protocol.PlanStep{
		{Text: "read", Status: "completed"}, {Text: "write\u202e", Status: "inProgress"}, {Text: "test", Status: "pending"}}}))
	if got := out.String(); got != "Plan 1 of 3\n  ✔ read\n  ▸ write\\u202e\n  ☐ test\n" {
		t.Errorf("printed is\n%s", got)
	}
	c.Detail(protocol.SessionDetail{View: protocol.SessionView{State: protocol.Running}})
	if got := paneOf(c, time.Now(), 80); !strings.Contains(got, `plan 1/3: write\u202e`) {
		t.Errorf("the pane is\n%s", got)
	}
}

func TestTheStatusSaysWhatGoesOn(t *testing.T) {
	now := time.UnixMilli(0).Add(95 * time.Second)
	c, _ := conversation()
	if got := paneOf(c, now, 100); !strings.Contains(got, "looking") {
		t.Errorf("at first it is %q", got)
	}
	d := protocol.SessionDetail{View: protocol.SessionView{State: protocol.Running, Turn: &protocol.TurnBrief{N: 2, StartedAt: time.UnixMilli(0)},
		Usage: protocol.UsageView{Input: 12_000, Output: 345, Context: &protocol.ContextView{Used: 12_345, Window: 100_000}}}}
	c.Detail(d)
	if got, want := paneOf(c, now, 100), " thinking · turn 2, 1:35 min · 12 k tokens · context 12 % · ^C leaves, it goes on"; !strings.HasSuffix(got, want) {
		t.Errorf("the status is %q, want %q", got, want)
	}
	if a, b := paneOf(c, now, 100), paneOf(c, now.Add(spinEvery), 100); a == b {
		t.Error("the spinner stands still")
	}
	if got := paneOf(c, now, 30); len([]rune(got)) > 30 || !strings.HasSuffix(got, "…") {
		t.Errorf("in a narrow window it is %q", got)
	}
	d.View.State, d.Approvals = protocol.Waiting, []protocol.Approval{{ID: "s.1", State: protocol.ApprovalDecided}, {ID: "s.2", State: protocol.ApprovalOpen}}
	c.Detail(d)
	if got := paneOf(c, now, 100); !strings.HasPrefix(got, "· waiting for approval s.2 · ") {
		t.Errorf("the status is %q", got)
	}
	c.Silent()
	if got := paneOf(c, now, 100); !strings.HasPrefix(got, "· no worker answers") {
		t.Errorf("the status is %q", got)
	}
}

// A pane that begins anew after a loss shows nothing of what is void.
func TestWhatIsVoidLeavesThePane(t *testing.T) {
	c, out := conversation()
	c.Event(delta(protocol.EntryAssistant, "m", "lost"))
	c.Event(api.Event{Kind: api.KindVoid, Void: 3})
	if got := paneOf(c, time.Now(), 60); strings.Contains(got, "lost") || !strings.Contains(out.String(), "void") {
		t.Errorf("the pane is\n%s\nprinted is %q", got, out)
	}
}
