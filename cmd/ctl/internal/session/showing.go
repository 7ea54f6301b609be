package session

import (
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/ctl/internal/view"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// A showing shows a conversation: on a terminal with a pane, or else in lines.
type showing struct {
	lines interface {
		Event(api.Event)
		Progress(*protocol.ProgressView)
		EndLine()
	}
	live  *view.Live // nil for lines
	quiet bool       // entries are not shown
}

func newShowing(a *core.App, p *core.Printer, skipOwn, quiet bool) *showing {
	s := &showing{quiet: quiet}
	if live, ok := view.Open(a, skipOwn); ok && !quiet {
		s.lines, s.live = live, live
	} else {
		s.lines = &show.Renderer{P: p, Quiet: quiet, SkipOwn: skipOwn}
	}
	return s
}

func (s *showing) event(ev api.Event)                  { s.lines.Event(ev) }
func (s *showing) progress(now *protocol.ProgressView) { s.lines.Progress(now) }

// endLine ends the line of a text that is still streamed. A pane needs no end: it keeps the text,
// so that the whole message is printed as one.
func (s *showing) endLine() {
	if s.live == nil {
		s.lines.EndLine()
	}
}

// detail takes what the session says of itself. silent says that no worker answers.
func (s *showing) detail(d protocol.SessionDetail, silent bool) {
	switch {
	case s.live == nil:
	case silent:
		s.live.Silent()
	default:
		s.live.Detail(d)
	}
}

// aside gives the terminal to ask, which asks the person something.
func (s *showing) aside(ask func() error) error {
	s.lines.EndLine()
	if s.live == nil {
		return ask()
	}
	s.live.Hide()
	defer s.live.Resume()
	return ask()
}

func (s *showing) close() {
	s.endLine()
	if s.live != nil {
		s.live.Close()
	}
}
