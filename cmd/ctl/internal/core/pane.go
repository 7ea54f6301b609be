package core

import (
	"io"
	"os"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"
)

// A Pane is the bottom of a terminal, whose lines are replaced in place. What ctl prints
// meanwhile stands above it.
type Pane struct {
	mu    sync.Mutex
	w     io.Writer
	size  func() int // columns
	lines []string
	drawn []string // what is on the screen
	mid   bool     // what was printed last does not end its line
	hooks []*screen
	back  func() // shows typing again
}

// OpenPane opens a pane at the terminal of standard output. It returns false if that is not a
// terminal, or one that cannot move its cursor, or if ctl runs in the background.
func (a *App) OpenPane() (*Pane, bool) {
	out, ok := a.Out.(*screen)
	if !ok || Accessible() {
		return nil, false
	}
	if f, is := TerminalFile(out); is && !foreground(f) {
		return nil, false
	}
	p := &Pane{w: out.w, size: func() int { n, _ := TerminalSize(out); return n }}
	for _, w := range []io.Writer{a.Out, a.Err} {
		if s, ok := w.(*screen); ok {
			p.hooks = append(p.hooks, s)
		}
	}
	for _, s := range p.hooks {
		s.flush()
		s.under(p)
	}
	if show, err := a.HideTyping(); err == nil { // else there is no terminal to type at
		p.back = func() {
			if f, ok := a.In.(*os.File); ok && foreground(f) {
				show()
			}
		}
	}
	return p, true
}

// Show replaces the lines, which must be from Styled and shorter than the terminal is wide.
func (p *Pane) Show(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = lines
	p.put(nil)
}

// Close removes the pane.
func (p *Pane) Close() {
	p.Show(nil)
	for _, s := range p.hooks {
		s.under(nil)
	}
	if p.back != nil {
		p.back()
		p.back = nil
	}
}

// Write prints above the pane.
func (p *Pane) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(b), p.put(b)
}

func (p *Pane) put(above []byte) error {
	var b strings.Builder
	for i := range p.rows() { // row by row: tmux keeps what is erased from the top of a screen on
		if i > 0 {
			b.WriteString(ansi.CUU1)
		}
		b.WriteString("\r" + ansi.EraseEntireLine)
	}
	p.drawn = nil
	b.Write(above)
	if len(above) > 0 {
		p.mid = above[len(above)-1] != '\n'
	}
	if !p.mid && len(p.lines) > 0 {
		b.WriteString(strings.Join(p.lines, "\r\n"))
		p.drawn = p.lines
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(p.w, b.String())
	return err
}

// rows returns how many rows of the screen the pane takes now: in a window that has become
// narrower, a line may take several.
func (p *Pane) rows() (n int) {
	columns := max(p.size(), 1)
	for _, line := range p.drawn {
		n += max((ansi.StringWidth(line)+columns-1)/columns, 1)
	}
	return n
}
