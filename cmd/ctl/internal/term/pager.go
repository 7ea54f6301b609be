package term

import (
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// A Scroll is a part of a text that a screen shows.
type Scroll struct{ Top int }

// Move scrolls by a key, and reports whether it is one of a pager's. n is the number of
// lines, rows that of a page.
func (s *Scroll) Move(key string, n, rows int) bool {
	switch key {
	case "j", "down", "enter":
		s.Top++
	case "k", "up":
		s.Top--
	case "space", "f", "pgdown", "ctrl+f":
		s.Top += max(rows-1, 1)
	case "b", "pgup", "ctrl+b":
		s.Top -= max(rows-1, 1)
	case "g", "home":
		s.Top = 0
	case "G", "end":
		s.Top = n
	default:
		return false
	}
	s.Clamp(n, rows)
	return true
}

// Clamp keeps a page within the text.
func (s *Scroll) Clamp(n, rows int) { s.Top = max(min(s.Top, n-rows), 0) }

// A pager shows a text page by page.
type pager struct {
	title         string
	text          []Line
	colour        bool
	width, height int
	scroll        Scroll
	wrapped       []Line // text in that width
}

func newPager(title string, text []Line, colour bool, width, height int) *pager {
	g := &pager{title: title, text: text, colour: colour}
	g.resize(width, height)
	return g
}

func (g *pager) resize(width, height int) {
	g.width, g.height = width, height
	g.wrapped = Wrap(g.text, width)
	g.scroll.Clamp(len(g.wrapped), g.rows())
}

func (g *pager) rows() int { return max(g.height-1, 1) }

func (g *pager) Init() tea.Cmd { return nil }

func (g *pager) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		g.resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		switch key := msg.String(); key {
		case "q", "v", "esc", "ctrl+c":
			return g, tea.Quit
		default:
			g.scroll.Move(key, len(g.wrapped), g.rows())
		}
	}
	return g, nil
}

// page returns the lines of the screen.
func (g *pager) page() []string {
	end := min(g.scroll.Top+g.rows(), len(g.wrapped))
	lines := core.Styled(g.colour, func(p *core.Printer) { Print(p, g.wrapped[g.scroll.Top:end]) })
	for len(lines) < g.rows() {
		lines = append(lines, "")
	}
	where := fmt.Sprintf("%s · lines %d–%d of %d · space, j, k · q back", g.title, min(g.scroll.Top+1, len(g.wrapped)), end, len(g.wrapped))
	return append(lines, core.Styled(g.colour, func(p *core.Printer) { p.Printf("%s", p.Paint(core.Bold, Fit(core.OneLine(where, 400), g.width))) })...)
}

func (g *pager) View() tea.View {
	v := tea.NewView(strings.Join(g.page(), "\n"))
	v.AltScreen = true
	return v
}

// Page shows a text page by page until the person has seen enough. If there is no terminal that
// can show pages, it prints the text.
func Page(ctx context.Context, a *core.App, title string, text []Line) error {
	out, ok := core.TerminalFile(a.Err)
	if !ok || core.Accessible() {
		Print(core.NewPrinter(a.Err, false), text)
		return nil
	}
	width, height := core.TerminalSize(a.Err)
	a.Lend()
	_, err := tea.NewProgram(newPager(title, text, core.Colours(a.Err), width, height), Options(ctx, a, out)...).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Options are those of each program with a screen of its own at ctl's terminal.
func Options(ctx context.Context, a *core.App, out interface{ Write([]byte) (int, error) }) []tea.ProgramOption {
	return []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(a.In), tea.WithOutput(out), tea.WithoutSignalHandler()}
}
