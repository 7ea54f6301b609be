package conversation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func says(item, text string) string {
	return wireEvent("item/agentMessage/delta", fmt.Sprintf(`"itemId":%q,"delta":%q`, item, text))
}

func thinks(item, text string) string {
	return wireEvent("item/reasoning/summaryTextDelta", fmt.Sprintf(`"itemId":%q,"delta":%q`, item, text))
}

func (s *stage) brokenOff() (all []protocol.Entry) {
	for _, e := range s.sink.entries {
		if e.Status == "interrupted" && e.Type != protocol.EntryState {
			all = append(all, e)
		}
	}
	return all
}

func TestWhatWasSaidBeforeAnInterruptIsOnRecord(t *testing.T) {
	lines := []string{
		started("r-1", "reasoning", ""), thinks("r-1", "Let me "), thinks("r-1", "see."),
		started("a-0", "agentMessage", ""), says("a-0", "whole"), completed("a-0", "agentMessage", `,"text":"whole"`),
		started("a-1", "agentMessage", ""), says("a-1", "Größe"), says("a-1", "r, 更"),
		started("a-2", "agentMessage", ""),
	}
	check := func(how string, s *stage, last protocol.EntryType) {
		t.Helper()
		got := s.brokenOff()
		if len(got) != 2 {
			t.Fatalf("%s: %+v", how, s.sink.entries)
		}
		if r, a := got[0], got[1]; r.Type != protocol.EntryReasoning || r.Text != "Let me see." || a.Type != protocol.EntryAssistant || a.Text != "Größer, 更" || a.Item != "a-1" || a.Turn != 4 || a.Data["cut"] != "" {
			t.Errorf("%s: %+v", how, got)
		}
		all := s.sink.entries
		if all[len(all)-1].Type != last || all[len(all)-1].Seq != s.m.result.State.Seq {
			t.Errorf("%s: the last entry is %+v", how, all[len(all)-1])
		}
	}
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(lines...)
	s.hear(turnDone("interrupted", ""))
	s.result(TurnEnded)
	check("interrupted", s, protocol.EntryState)

	s = perform(t, PumpInput{State: running()}, Options{})
	s.hear(lines...)
	s.m.ended(time.Second)
	if r := s.result(ProcessEnded); len(r.State.Items) != 0 {
		t.Errorf("%+v", r.State.Items)
	}
	check("dead", s, protocol.EntryAssistant)

	// A later pump does not record the text again.
	s = perform(t, PumpInput{State: s.m.result.State}, Options{})
	s.m.ended(time.Second)
	if len(s.sink.entries) != 0 {
		t.Errorf("told again: %+v", s.sink.entries)
	}
}

// The recorded part of a text is the same wherever pumps take over.
func TestUnfinishedTextIsTheSameHoweverTheJournalIsSplit(t *testing.T) {
	piece := strings.Repeat("größer and ", 3000) // a delta of 36 kB
	var lines []string
	lines = append(lines, started("a-1", "agentMessage", ""))
	for i := range 300 {
		lines = append(lines, says("a-1", fmt.Sprint(i, " ", piece)))
	}
	end := turnDone("interrupted", "")
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(append(lines, end)...)
	s.result(TurnEnded)
	want := s.brokenOff()
	if len(want) != 1 || len(want[0].Text) > maxUnfinished || len(want[0].Text) < maxUnfinished-100 || !strings.HasSuffix(want[0].Text, "größer and ") || want[0].Data["cut"] == "" {
		t.Fatalf("%d entries, the first %d bytes, cut %q", len(want), len(want[0].Text), want[0].Data)
	}
	splits := []int{40, 150, 299}
	if testing.Short() {
		splits = splits[1:2] // the race detector makes it slow
	}
	for _, every := range splits {
		st, from := running(), 0
		journal := append(append([]string(nil), lines...), end)
		for {
			at := st.Rewind
			first := from - countBack(journal[:from], st.Cursor.Offset-at)
			s := perform(t, PumpInput{State: st}, Options{}, journal[first:from]...)
			stop := min(from+every, len(journal))
			s.hear(journal[from:stop]...)
			if s.m.result == nil {
				s.m.cancel(time.Second)
			}
			from, st = stop, s.m.result.State
			if st.Cursor.Offset-st.Rewind > keepBehind {
				t.Fatalf("the next pump reads %d bytes again", st.Cursor.Offset-st.Rewind)
			}
			if from == len(journal) {
				got := s.brokenOff()
				if len(got) != 1 || got[0].Text != want[0].Text || got[0].ID != want[0].ID || got[0].Seq != want[0].Seq || got[0].Data["cut"] != want[0].Data["cut"] {
					t.Errorf("split every %d lines: %d entries", every, len(got))
				}
				break
			}
		}
	}
}

// countBack returns how many lines at the end make up n bytes.
func countBack(lines []string, n int64) (count int) {
	for ; n > 0; count++ {
		n -= int64(len(lines[len(lines)-1-count])) + 1
	}
	return count
}

func TestTextThatLiesTooFarBehindIsSaidToBeCut(t *testing.T) {
	noise := wireEvent("item/commandExecution/outputDelta", fmt.Sprintf(`"itemId":"c","delta":%q`, strings.Repeat("x", 1<<20)))
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("a-1", "agentMessage", ""), says("a-1", "long ago"), started("c", "commandExecution", ""))
	for range 13 {
		s.hear(noise)
	}
	s.hear(says("a-1", "and now"), turnDone("interrupted", ""))
	s.wait(time.Minute)
	got := s.brokenOff()
	if len(got) != 1 || got[0].Text != "now" || !strings.Contains(got[0].Data["cut"], "12 bytes") {
		t.Errorf("%+v", got)
	}
}

func TestUnfinishedTextHoldsNoSecretAndNoHalfOfOne(t *testing.T) {
	opt := Options{Redactor: NewRedactor("sk-secret-0123456789")}
	for _, text := range []string{"key sk-secret-", "key sk-secret-0123456789 and sk-se"} {
		s := perform(t, PumpInput{State: running()}, opt)
		s.hear(started("a-1", "agentMessage", ""))
		for _, r := range text {
			s.hear(says("a-1", string(r)))
		}
		s.hear(turnDone("interrupted", ""))
		if got := s.brokenOff(); len(got) != 1 || strings.Contains(got[0].Text, "sk-") || !strings.HasPrefix(got[0].Text, "key ") {
			t.Errorf("%+v", got)
		}
	}
	// The cut goes through a secret.
	s := perform(t, PumpInput{State: running()}, opt)
	s.hear(started("a-1", "agentMessage", ""))
	for range 40_000 {
		s.hear(says("a-1", "sk-secret-0123456789 "))
	}
	s.hear(turnDone("interrupted", ""))
	if got := s.brokenOff(); len(got) != 1 || strings.Contains(got[0].Text, "0123456789") || len(got[0].Text) < maxUnfinished/2 {
		t.Errorf("%d entries, %q", len(got), got[0].Text[:100])
	}
}

// A pump may take over in the middle of a secret that is being streamed.
func TestASecretSaidAcrossTwoPumpsIsNotShown(t *testing.T) {
	opt := Options{Redactor: NewRedactor(secret)}
	first := perform(t, PumpInput{State: running()}, opt)
	first.hear(started("a", "agentMessage", ""), says("a", "it is "+secret[:6]))
	first.m.cancel(0)
	st := first.result(PumpCancelled).State
	next := perform(t, PumpInput{State: st}, opt, says("a", "it is "+secret[:6]))
	if next.at != st.Cursor.Offset {
		t.Fatalf("at %d, want %d", next.at, st.Cursor.Offset)
	}
	next.hear(says("a", secret[6:]+" and more"))
	shown := ""
	for _, d := range append(first.sink.deltas, next.sink.deltas...) {
		if int(d.At) != len(shown) {
			t.Errorf("delta %+v behind %q", d, shown)
		}
		shown += d.Text
	}
	if want := "it is " + mask(len(secret)) + " and more"; shown != want {
		t.Errorf("shown %q, want %q", shown, want)
	}
}

// The kept part of a long text may begin in the middle of a secret, or of a key with
// several lines.
func TestTheEndOfASecretIsNotOnRecord(t *testing.T) {
	key := "-----BEGIN KEY-----\nline one of it\nline two of it\n-----END KEY-----"
	for kept, want := range map[string]string{
		secret[6:]:                     "",
		secret[6:] + " and more":       "and more",
		key[30:] + " and more, " + key: "and more, " + mask(len(key)),
		"word and more":                "and more",
	} {
		s := perform(t, PumpInput{State: running()}, Options{Redactor: NewRedactor(secret, key)})
		s.hear(started("a", "agentMessage", ""), says("a", "x"))
		s.m.st.Items[0].Pos, s.m.items.texts[itemKey{id: "a"}] = 1<<20, &unfinished{newer: []byte(kept)}
		s.hear(turnDone("interrupted", ""))
		if got := s.brokenOff(); len(got) != 1 || got[0].Text != want {
			t.Errorf("of %q there is %+v on record, want %q", kept, got, want)
		}
	}
}

// A line over the bound ends the item that it completes, wherever the item's id is in the
// line, and does not affect other items. If the item cannot be determined, no item is
// finished, and no item counts as work of the turn.
func TestALineOverTheBoundTakesNoOtherItemsText(t *testing.T) {
	big := strings.Repeat(`\"},{\"id\":\"a-1`, 100)
	for name, c := range map[string]struct {
		params string
		left   string
	}{
		"id first":      {`"item":{"id":"c","type":"commandExecution","aggregatedOutput":"` + big + `"}`, "a-1 a-2"},
		"id last":       {`"item":{"aggregatedOutput":"` + big + `","type":"commandExecution","id":"c"}`, "a-1 a-2"},
		"of a message":  {`"item":{"text":"` + big + `","id":"a-1"}`, "a-2 c"},
		"of none of us": {`"item":{"text":"` + big + `","id":"other"}`, "a-1 a-2 c"},
		"id too long":   {`"item":{"id":"` + strings.Repeat("i", 2*wire.PeekMax) + `"}`, "a-1 a-2 c"},
		"no id":         {`"item":{"text":"` + big + `"},"id":"a-2","more":{"item":{"id":"a-1"}}`, "a-1 a-2 c"},
	} {
		s := perform(t, PumpInput{State: running(), Limits: Limits{Line: 1000}}, Options{})
		s.hear(started("a-1", "agentMessage", ""), says("a-1", "one "), started("a-2", "agentMessage", ""), says("a-2", "two "),
			started("c", "commandExecution", ""), wireEvent("item/completed", c.params))
		var left []string
		for _, it := range s.m.st.Items {
			left = append(left, it.ID)
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("%s: open are %q, want %q", name, got, c.left)
		}
		if name == "no id" && s.m.st.working() {
			t.Errorf("%s: the turn counts as working", name)
		}
		s.hear(says("a-1", "more"), says("a-2", "more"), turnDone("interrupted", ""))
		said := map[string]string{}
		for _, e := range s.brokenOff() {
			said[e.Item] = e.Text
		}
		for item, text := range map[string]string{"a-1": "one more", "a-2": "two more"} {
			if !strings.Contains(c.left, item) {
				text = ""
			}
			if said[item] != text {
				t.Errorf("%s: of %s there is %q on record, want %q", name, item, said[item], text)
			}
		}
	}
}

// A lost wire may be restored, so unfinished text is not recorded when the wire is lost. It
// is passed to Options.Lost, for the case that the wire is not restored.
func TestWhatWasSaidBeforeTheWireWasLostIsTold(t *testing.T) {
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(completed("a-0", "agentMessage", `,"text":"whole"`), started("a-1", "agentMessage", ""), says("a-1", "I began"))
	seq := s.m.st.Seq
	got := s.m.lost()
	if len(got.Unfinished) != 1 || got.Unfinished[0].Text != "I began" || got.Unfinished[0].Seq != seq+1 {
		t.Errorf("unfinished is %+v", got.Unfinished)
	}
	if st := got.Result.State; st.Seq != seq || st.TurnID == "" || len(st.Items) != 1 || len(s.brokenOff()) != 0 {
		t.Errorf("state is %+v, on record %+v", st, s.sink.entries)
	}
	s = perform(t, PumpInput{State: running()}, Options{})
	s.hear(turnDone("completed", ""))
	if got := s.m.lost(); got.Result.Turn == nil || got.Result.Turn.Status != "completed" || len(got.Unfinished) != 0 {
		t.Errorf("the turn had ended: %+v", got)
	}
}

// The lines are of a stream that the provider cut after some words, until codex's retries
// were used up.
func TestFailedTurnKeepsWhatWasSaid(t *testing.T) {
	lines := []string{
		completed("a-0", "agentMessage", `,"text":"First."`),
		started("a-1", "agentMessage", ""), says("a-1", "I was about "), says("a-1", "to say"),
		wireEvent("error", `"error":{"message":"Reconnecting... 1/1","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}},"additionalDetails":"stream disconnected before completion"},"willRetry":true`),
		wireEvent("thread/status/changed", `"status":{"type":"systemError"}`),
		wireEvent("error", `"error":{"message":"stream disconnected before completion","codexErrorInfo":"other"},"willRetry":false`),
	}
	failed := turnDone("failed", `,"items":[],"error":{"message":"stream disconnected before completion","codexErrorInfo":"other"}`)
	for how, end := range map[string]func(s *stage){
		"failed":      func(s *stage) { s.hear(failed) },
		"interrupted": func(s *stage) { s.hear(turnDone("interrupted", "")); s.wait(cleanGrace) },
		"dead":        func(s *stage) { s.m.ended(time.Second) },
	} {
		s := perform(t, PumpInput{State: running()}, Options{})
		s.hear(lines...)
		end(s)
		const want = "First.\n\nI was about to say"
		if how == "dead" {
			if r := s.result(ProcessEnded); r.State.FinalText != want {
				t.Errorf("%s: %q", how, r.State.FinalText)
			}
		} else if r := s.result(TurnEnded); r.Turn.Status != how || r.Turn.FinalText != want || how == "failed" && r.Turn.Problem.Kind != "network" {
			t.Errorf("%s: %+v", how, r.Turn)
		}
		if got := s.brokenOff(); len(got) != 1 || got[0].Text != "I was about to say" || got[0].Type != protocol.EntryAssistant {
			t.Errorf("%s: on record %+v", how, got)
		}
	}
	// What was finished later is said once.
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(append(lines, completed("a-1", "agentMessage", `,"text":"I was about to say it."`), failed)...)
	if r := s.result(TurnEnded); r.Turn.FinalText != "First.\n\nI was about to say it." || len(s.brokenOff()) != 0 {
		t.Errorf("%+v, %+v", r.Turn, s.brokenOff())
	}
}
