package session

import (
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// reportsTo returns the workflow to which a pump reports progress, or "" if codex has no
// such tool.
func (s *processPart) reportsTo() string {
	if !slices.Contains(s.opt.Tools, protocol.ToolProgress) {
		return ""
	}
	return protocol.SessionID(s.id)
}

// drainProgress takes progress reports of pumps. They are rare (see
// protocol.SignalProgress) and change only the view.
func (s *processPart) drainProgress() {
	news := false
	for _, p := range kit.Unread[protocol.Progress](s.reports) {
		was := s.st.Progress
		if !s.st.Running || p.Turn != s.st.TurnN || was != nil && was.Turn == p.Turn && p.AtMS < was.AtMS {
			continue // out of date
		}
		p.Text, p.Step = strings.ToValidUTF8(kit.Cut(p.Text, 500), ""), kit.Cut(p.Step, kit.MaxWord)
		s.st.Progress, news = &p, true
	}
	if news {
		s.publish()
	}
}
