package inbox

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
)

// beside is the least width at which the transcript is shown beside the card.
const beside = 120

// View is the whole screen.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "ctl approval watch"
	return v
}

// screen returns the rows of the screen.
func (m *Model) screen() []string {
	rows := append([]term.Line{m.header()}, m.list()...)
	lower := max(m.height-len(rows)-2, 1) // a rule and the footer
	if len(m.items) == 0 {
		return m.drawn(append(rows, make([]term.Line, lower+1)...), nil, 0)
	}
	lines, fit := m.body()
	m.scroll.Clamp(len(lines), fit)
	end := min(m.scroll.Top+fit, len(lines))
	if it := m.current(); it != nil && m.shows == card && end == len(lines) {
		m.read[it.Approval.ID] = true
	}
	rule := "── " + m.title()
	if end < len(lines) {
		rule += fmt.Sprintf(" · %d more lines: Enter opens, space pages", len(lines)-end)
	}
	rows = append(rows, term.Line{Style: core.Bold, Text: m.ruled(rule)})
	part := append(lines[m.scroll.Top:end:end], make([]term.Line, max(lower-(end-m.scroll.Top), 0))...)
	var right []term.Line
	if m.twoColumns() {
		right = m.said.last(m.width-m.left()-3, lower)
		right = append(right, make([]term.Line, max(lower-len(right), 0))...)
	}
	return m.drawn(append(rows, part...), right, len(rows))
}

// drawn returns the rows in the form that the terminal gets, with the footer. right is shown
// beside the rows that begin at from.
func (m *Model) drawn(rows, right []term.Line, from int) (out []string) {
	out = core.Styled(m.colour, func(p *core.Printer) {
		for i, row := range rows {
			width := m.width
			if right != nil && i >= from {
				width = m.left()
			}
			text := term.Fit(core.Clean(row.Text), width)
			pad := strings.Repeat(" ", max(width-term.Width(text), 0))
			p.Printf("%s", p.Paint(row.Style, text))
			if right != nil && i >= from && i-from < len(right) {
				r := right[i-from]
				p.Printf("%s %s %s", pad, p.Paint(core.Dim, "│"), p.Paint(r.Style, term.Fit(core.Clean(r.Text), m.width-width-3)))
			}
			p.Printf("\n")
		}
		f := m.footer()
		p.Printf("%s\n", p.Paint(f.Style, term.Fit(core.Clean(f.Text), m.width)))
	})
	for len(out) < len(rows)+1 { // Styled leaves out what is empty at the end
		out = append(out, "")
	}
	return out
}

func (m *Model) twoColumns() bool { return m.width >= beside && m.shows == card && !m.whole }

// left is the width of the card beside the transcript.
func (m *Model) left() int { return m.width * 6 / 10 }

// header says how many approvals wait, and how fresh that is.
func (m *Model) header() term.Line {
	if m.trouble != "" {
		since := "never"
		if m.answered {
			since = m.asOf.Format("15:04:05")
		}
		return term.Line{Style: core.Red, Text: fmt.Sprintf("CONNECTION LOST, data as of %s, no decisions: %s", since, m.trouble)}
	}
	if !m.answered {
		return term.Line{Style: core.Dim, Text: "looking for approvals …"}
	}
	n := 0
	for _, it := range m.items {
		if it.open(m.now()) {
			n++
		}
	}
	what := core.Number(n, "approval") + " wait"
	if n == 1 {
		what += "s"
	}
	return term.Line{Style: core.Bold, Text: fmt.Sprintf("%s for a decision · as of %s", what, m.asOf.Format("15:04:05"))}
}

// list returns the rows around the cursor.
func (m *Model) list() (rows []term.Line) {
	if m.whole {
		return nil
	}
	most := max(m.height/4, 3)
	at := max(m.index(m.at), 0)
	first := max(min(at-most/2, len(m.items)-most), 0)
	last := min(first+most, len(m.items))
	id, kind := 0, 0
	for _, it := range m.items[first:last] {
		id, kind = max(id, term.Width(it.Approval.ID)), max(kind, term.Width(it.Approval.Kind))
	}
	id = min(id, m.width/3)
	for i := first; i < last; i++ {
		it := &m.items[i]
		left, style := it.left(m.now())
		if m.sending[it.Approval.ID] {
			left, style = "sending", core.Cyan
		}
		mark := "  "
		if it.Approval.ID == m.at {
			mark = "> "
		}
		rows = append(rows, term.Line{Style: style, Text: fmt.Sprintf("%s%-*s  %-*s  %-9s  %s", mark, id, term.Fit(it.Approval.ID, id), kind, it.Approval.Kind, left, core.OneLine(it.Approval.Summary, 200))})
	}
	return rows
}

// title names what the lower part shows.
func (m *Model) title() string {
	switch {
	case m.shows == help:
		return "keys"
	case m.shows == transcript:
		return "transcript of " + m.said.session
	case m.current() != nil:
		return m.at + " · " + core.OneLine(m.current().Headline, 100)
	}
	return ""
}

func (m *Model) ruled(text string) string {
	text = term.Fit(text+" ", m.width)
	return text + strings.Repeat("─", max(m.width-term.Width(text), 0))
}

// body returns the lines of the lower part, and how many fit.
func (m *Model) body() (lines []term.Line, rows int) {
	rows = max(m.height-1-len(m.list())-2, 1)
	width := m.width
	if m.twoColumns() {
		width = m.left()
	}
	switch m.shows {
	case help:
		return term.Wrap(keysHelp, width), rows
	case transcript:
		return m.said.last(width, rows), rows
	}
	it := m.current()
	if it == nil {
		return nil, rows
	}
	now := m.now()
	if text := it.became(now); text != "" {
		lines = append(lines, term.Line{Style: core.Cyan, Text: text})
	}
	if it.False {
		lines = append(lines, term.Line{Style: core.Red, Text: "a false account of the request: what is shown does not give the digest. Decide nothing."})
	}
	if it.Unsure != "" {
		lines = append(lines, term.Line{Style: core.Yellow, Text: "its digest cannot be checked: " + it.Unsure})
	}
	lines = append(lines, it.Facts...)
	if m.details {
		lines = append(lines, it.Details...)
	}
	lines = append(append(lines, term.Line{}), it.Asked...)
	return term.Wrap(lines, width), rows
}

var keysHelp = []term.Line{
	{Text: "j, k      the next, the previous approval"},
	{Text: "Enter     the card alone on the screen, and back; space and b page"},
	{Text: "a, y      accept it once; where codex asks questions, answer them"},
	{Text: "s         accept some of the permissions, one by one"},
	{Text: "e         have a delivered file revised, with comments"},
	{Text: "A         accept it, and the same request later in this session"},
	{Text: "x         decline it and say why"},
	{Text: "n         decline it"},
	{Text: "c         decline it and end the turn"},
	{Text: "d         ids, the digest and what it covers"},
	{Text: "tab, t    the transcript of its session (beside the card where there is room)"},
	{Text: "q         back, or leave; approvals go on waiting"},
}

// footer is the line for keys, prompts and what is told.
func (m *Model) footer() term.Line {
	switch {
	case m.prompt != nil:
		text := m.prompt.words + " " + string(m.prompt.text)
		if over := term.Width(text) + 1 - m.width; over > 0 { // the end is what is being typed
			runes := []rune(text)
			text = "…" + string(runes[min(over+1, len(runes)):])
		}
		return term.Line{Style: core.Bold, Text: text + "▏"}
	case m.told != "" && m.bad:
		return term.Line{Style: core.Red, Text: m.told}
	case m.told != "":
		return term.Line{Style: core.Yellow, Text: m.told}
	case len(m.items) == 0:
		return term.Line{Style: core.Dim, Text: "q leave · ? keys"}
	}
	return term.Line{Style: core.Dim, Text: "a accept · x decline · j/k · Enter open · d digest · tab transcript · ? keys · q"}
}
