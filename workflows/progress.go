package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// ProgressView is the newest report of the model about its work.
type ProgressView struct {
	Turn    int       `json:"turn"`
	Text    string    `json:"text"`
	Percent *int      `json:"percent,omitempty"`
	Step    string    `json:"step,omitempty"`
	At      time.Time `json:"at"`
}

// ViewOfProgress returns the view of a report; nil for nil.
func ViewOfProgress(p *protocol.Progress) *ProgressView {
	if p == nil {
		return nil
	}
	return &ProgressView{Turn: p.Turn, Text: p.Text, Percent: p.Percent, Step: p.Step, At: time.UnixMilli(p.AtMS).UTC()}
}

// String returns a report in one line.
func (p *ProgressView) String() string {
	if p == nil {
		return ""
	}
	s := p.Text
	if p.Step != "" {
		s = p.Step + ": " + s
	}
	if p.Percent != nil {
		s = fmt.Sprintf("%d %%, %s", *p.Percent, s)
	}
	return s
}

// reportsTo returns the workflow that a pump tells of progress, or "" if codex has
// no tool to report any.
func (s *processPart) reportsTo() string {
	if !slices.Contains(s.opt.Tools, protocol.ToolProgress) {
		return ""
	}
	return protocol.SessionID(s.id)
}

// drainProgress takes what attached pumps report of a running turn. Reports are
// rare (see protocol.SignalProgress) and change only the view.
func (s *processPart) drainProgress() {
	news := false
	for _, p := range unread[protocol.Progress](s.reports) {
		was := s.st.Progress
		if !s.st.Running || p.Turn != s.st.TurnN || was != nil && was.Turn == p.Turn && p.AtMS < was.AtMS {
			continue // it is out of date
		}
		p.Text, p.Step = strings.ToValidUTF8(excerpt(p.Text, 500), ""), excerpt(p.Step, maxWord)
		s.st.Progress, news = &p, true
	}
	if news {
		s.publish()
	}
}
