package view

import (
	"sync"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Live is a conversation on ctl's terminal.
type Live struct {
	a *core.App

	mu   sync.Mutex // guards what follows
	c    *Conversation
	pane *core.Pane // nil while hidden
	end  chan struct{}
	done chan struct{}
}

// Open shows a conversation on ctl's terminal. It returns false if standard output is not a
// terminal for that, or if ctl prints JSON or nothing.
func Open(a *core.App, skipOwn bool) (*Live, bool) {
	if a.Flags.Output == "json" || a.Flags.Quiet {
		return nil, false
	}
	l := &Live{a: a, c: New(a.Print(), core.Colours(a.Out), skipOwn, func() int { n, _ := core.TerminalSize(a.Out); return n - 1 })}
	if !l.open() {
		return nil, false
	}
	return l, true
}

// open opens the pane, and draws it until it is hidden.
func (l *Live) open() bool {
	pane, ok := l.a.OpenPane()
	if !ok {
		return false
	}
	end, done := make(chan struct{}), make(chan struct{})
	l.pane, l.end, l.done = pane, end, done
	go func() {
		defer close(done)
		tick := time.NewTicker(spinEvery)
		defer tick.Stop()
		for {
			l.mu.Lock()
			l.draw()
			l.mu.Unlock()
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return true
}

// draw needs mu.
func (l *Live) draw() {
	if l.pane == nil {
		return
	}
	columns, rows := core.TerminalSize(l.a.Out)
	lines := l.c.Pane(time.Now(), columns-1)
	lines = lines[max(len(lines)-max(rows-2, 1), 0):]
	l.pane.Show(core.Styled(core.Colours(l.a.Out), func(p *core.Printer) { term.Print(p, lines) }))
}

// Hide removes the pane, so that the person can be asked something.
func (l *Live) Hide() {
	l.mu.Lock()
	pane, end, done := l.pane, l.end, l.done
	l.pane = nil
	l.mu.Unlock()
	if pane != nil {
		close(end)
		<-done
		pane.Close()
	}
}

// Resume shows the pane again.
func (l *Live) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pane == nil {
		l.open()
	}
}

// Close prints what is left and removes the pane.
func (l *Live) Close() {
	l.EndLine()
	l.Hide()
}

func (l *Live) do(f func(c *Conversation)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.c)
	l.draw()
}

// Event takes an event of the feed.
func (l *Live) Event(ev api.Event) { l.do(func(c *Conversation) { c.Event(ev) }) }

// Detail takes what the session says of itself.
func (l *Live) Detail(d protocol.SessionDetail) { l.do(func(c *Conversation) { c.Detail(d) }) }

// Silent notes that no worker answers.
func (l *Live) Silent() { l.do(func(c *Conversation) { c.Silent() }) }

// Progress shows a progress report.
func (l *Live) Progress(now *protocol.ProgressView) { l.do(func(c *Conversation) { c.Progress(now) }) }

// EndLine prints what was streamed and has no end.
func (l *Live) EndLine() { l.do(func(c *Conversation) { c.EndLine() }) }
