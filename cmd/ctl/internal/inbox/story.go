package inbox

import (
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/cmd/ctl/internal/view"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// mostEntries bounds the entries of a story.
const mostEntries = 100

// A story is the newest part of the transcript of the session under the cursor.
type story struct {
	session string
	lines   []term.Line // of each entry, one after the other
	counts  []int       // how many lines each entry has
	saying  strings.Builder
	item    string // whose text saying has
	agents  view.Agents
}

// take takes an event of the session; one of another session comes too late.
func (s *story) take(h heard) {
	if h.session != s.session {
		return
	}
	switch h.event.Kind {
	case api.KindEntry:
		s.entry(*h.event.Entry)
	case api.KindDelta:
		s.delta(*h.event.Delta)
	case api.KindVoid:
		*s = story{session: s.session}
	}
}

func (s *story) entry(e protocol.Entry) {
	switch {
	case e.Agent != nil:
		s.agents.Entry(e)
	case e.Item != "" && e.Item == s.item:
		s.saying.Reset()
		s.item = ""
	case e.Type == protocol.EntryState && turnEnds[e.Status]:
		s.saying.Reset()
		s.item, s.agents = "", nil // an item without an end has no entry
	}
	var lines []term.Line
	for _, line := range core.Styled(false, func(p *core.Printer) { (&show.Renderer{P: p}).Entry(e) }) {
		lines = append(lines, term.Line{Text: line})
	}
	s.lines, s.counts = append(s.lines, lines...), append(s.counts, len(lines))
	if len(s.counts) > mostEntries {
		s.lines, s.counts = s.lines[s.counts[0]:], s.counts[1:]
	}
}

func (s *story) delta(d protocol.Delta) {
	if d.Agent != nil {
		s.agents.Delta(d)
		return
	}
	if d.Type != protocol.EntryAssistant && d.Type != protocol.EntryCommand {
		return
	}
	if s.item != d.Item {
		s.saying.Reset()
		s.item = d.Item
	}
	if s.saying.Len() < 16<<10 {
		s.saying.WriteString(d.Text)
	}
}

// turnEnds are the states of a turn that has ended.
var turnEnds = map[string]bool{"completed": true, "interrupted": true, "failed": true, "unknown": true}

// last returns the last rows of the story: what is finished, then what is in progress.
func (s *story) last(width, rows int) []term.Line {
	all := s.lines[max(len(s.lines)-rows, 0):]
	if s.item != "" {
		all = append(all[:len(all):len(all)], term.Lines(core.Dim, "", s.saying.String())...)
	}
	wrapped := append(term.Wrap(all, width), s.agents.Pane(width)...)
	return wrapped[max(len(wrapped)-rows, 0):]
}
