package term

import (
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

func texts(all []Line) (out []string) {
	for _, l := range all {
		out = append(out, l.Text)
	}
	return out
}

// For a new file codex gives its text. A line of it that begins with - would look like a
// deletion if it had no sign of its own.
func TestANewFileIsShownAsAddedLines(t *testing.T) {
	got := Change("add", "one\n- two\n\nlast\n\n")
	if want := []string{"+one", "+- two", "+", "+last", "+"}; !slices.Equal(texts(got), want) {
		t.Errorf("lines are %q, want %q", texts(got), want)
	}
	for _, l := range got {
		if l.Style != core.Green {
			t.Errorf("%q is not green", l.Text)
		}
	}
	if got := Change("delete", "x"); got[0] != (Line{core.Red, "-x"}) || len(got) != 2 {
		t.Errorf("a deleted file is %+v", got)
	}
	if got := Change("update", "@@ -1 +1 @@\n-a\n+b\n c\n"); !slices.Equal(got, []Line{{core.Cyan, "@@ -1 +1 @@"}, {core.Red, "-a"}, {core.Green, "+b"}, {"", " c"}}) {
		t.Errorf("an update is %+v", got)
	}
	if got := Change("add", ""); len(got) != 1 || !strings.Contains(got[0].Text, "empty file") {
		t.Errorf("an empty file is %+v", got)
	}
}

// What is wrapped has the width that a terminal gives it, whatever the host wrote.
func TestWrappedLinesFitAndLoseNothing(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("x", 100), "日本語" + strings.Repeat("字", 40), "  indented " + strings.Repeat("word ", 30), "a\tb\x1b[2J" + strings.Repeat("é", 50), ""} {
		var all strings.Builder
		for _, l := range Wrap([]Line{{"", text}}, 20) {
			if Width(l.Text) > 20 {
				t.Errorf("%q is %d wide", l.Text, Width(l.Text))
			}
			all.WriteString(strings.ReplaceAll(l.Text, " ", ""))
		}
		if want := strings.ReplaceAll(untab(core.Clean(text)), " ", ""); all.String() != want {
			t.Errorf("%q became %q", want, all.String())
		}
	}
}

func TestALongTextIsBoundedAndSaysHowMuchIsLeft(t *testing.T) {
	var all []Line
	for range 50 {
		all = append(all, Line{"", "x"})
	}
	some, more := Bounded(all, 10, 80)
	if len(some) != 10 || more != 40 {
		t.Errorf("%d lines are shown, %d left out", len(some), more)
	}
	if some, more := Bounded(all[:11], 10, 80); len(some) != 10 || more != 1 {
		if len(some) != 11 || more != 0 { // to say that one is left out takes a line as well
			t.Errorf("%d lines are shown, %d left out", len(some), more)
		}
	}
	some, more = Bounded([]Line{{"", strings.Repeat("y", 10000)}}, 10, 80)
	if len(some) != 4 || more != 0 || !strings.Contains(some[3].Text, "more characters") {
		t.Errorf("one long line is %q", texts(some))
	}
}

func key(s string) tea.KeyPressMsg {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "space": tea.KeySpace, "tab": tea.KeyTab}
	if code, ok := named[s]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: []rune(s)[0], Text: s}
}

func TestThePagerShowsPagesAndFitsANewSize(t *testing.T) {
	var all []Line
	for i := range 30 {
		all = append(all, Line{"", strings.Repeat(string(rune('a'+i%26)), 15)})
	}
	g := newPager("s.1", all, false, 20, 6)
	press := func(keys ...string) (quit bool) {
		for _, k := range keys {
			_, cmd := g.Update(key(k))
			quit = cmd != nil
		}
		return quit
	}
	if page := g.page(); len(page) != 6 || page[0] != strings.Repeat("a", 15) || !strings.HasPrefix(page[5], "s.1 · lines 1–5") {
		t.Errorf("the first page is %q", page)
	}
	press("space", "j")
	if page := g.page(); page[0] != strings.Repeat("f", 15) {
		t.Errorf("then it shows %q", page)
	}
	press("G")
	if page := g.page(); page[4] != strings.Repeat("d", 15) {
		t.Errorf("the end is %q", page)
	}
	g.Update(tea.WindowSizeMsg{Width: 10, Height: 100})
	if page := g.page(); len(page) != 100 || page[0] != "aaaaaaaaaa" || page[59] == "" || page[60] != "" {
		t.Errorf("in a narrow, high window it is %q", page)
	}
	if !press("q") {
		t.Error("q does not leave")
	}
}
