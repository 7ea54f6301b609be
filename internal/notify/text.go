package notify

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds of a text, in bytes and lines.
const (
	maxSummary = 300
	maxListed  = 20
)

// A Told is an event in a message. Summary is empty unless the rules have details.
type Told struct {
	protocol.NotifyEvent
	Summary string `json:"summary,omitempty"`
	Link    string `json:"link,omitempty"`
	// Ask is the approval as it is when the message is made; nil if it is not known, or if the
	// event has none.
	Ask *protocol.Approval `json:"-"`
}

// A Message is what is sent in one piece: one event, or several for a limit's sake.
type Message struct {
	ID     string // the same for each attempt
	Person string
	At     time.Time // of the first attempt
	Events []Told
}

// Hidden reports whether messages have no summaries.
func (r *Rules) Hidden() bool { return r.hide }

// Link returns the address of an event in the console, or "".
func (r *Rules) Link(e protocol.NotifyEvent) string {
	if r.url == "" {
		return ""
	}
	of := func(kind, id string) string { return r.url + "/" + kind + "/" + url.PathEscape(id) }
	switch {
	case e.Approval != "":
		return of("approvals", e.Approval)
	case e.Session != "":
		return of("sessions", e.Session)
	case e.Batch != "":
		return of("batches", e.Batch)
	case e.Host != "":
		return of("hosts", e.Host)
	case e.Seed != "":
		return of("seeds", e.Seed)
	}
	return r.url
}

// Inbox returns the address of all approvals, or "".
func (r *Rules) Inbox() string {
	if r.url == "" {
		return ""
	}
	return r.url + "/approvals"
}

// Subject returns what a message says in one line.
func (m Message) Subject() string {
	if len(m.Events) != 1 {
		n := map[string]int{}
		for _, e := range m.Events {
			n[e.Kind]++
		}
		if len(n) == 1 {
			return fmt.Sprintf("%d × %s", len(m.Events), headline(m.Events[0].NotifyEvent.Kind))
		}
		return fmt.Sprintf("%d events", len(m.Events))
	}
	return line(m.Events[0])
}

// Text returns the whole message.
func (m Message) Text(inbox string) string {
	var b strings.Builder
	if len(m.Events) == 1 {
		e := m.Events[0]
		b.WriteString(line(e) + "\n")
		if e.Summary != "" {
			b.WriteString(plain(e.Summary, maxSummary) + "\n")
		}
		b.WriteString(where(e) + "\n")
		return b.String()
	}
	b.WriteString(m.Subject() + ":\n")
	for i, e := range m.Events {
		if i == maxListed {
			fmt.Fprintf(&b, "and %d more\n", len(m.Events)-maxListed)
			break
		}
		b.WriteString("- " + line(e) + "\n")
	}
	if inbox != "" {
		b.WriteString(inbox + "\n")
	} else {
		b.WriteString("See them: ctl approval list, ctl session list\n")
	}
	return b.String()
}

// where says where to look.
func where(e Told) string {
	if e.Link != "" {
		return e.Link
	}
	switch {
	case e.Approval != "":
		return "See it: ctl approval show " + e.Approval
	case e.Session != "":
		return "See it: ctl session show " + e.Session
	case e.Batch != "":
		return "See it: ctl batch show " + e.Batch
	case e.Host != "":
		return "See it: ctl host show " + e.Host
	case e.Seed != "":
		return "See it: ctl seed show " + e.Seed
	}
	return "No answer is needed."
}

func headline(kind string) string {
	switch kind {
	case protocol.EventApprovalOpened:
		return "approval waits"
	case protocol.EventApprovalExpiring:
		return "approval expires soon"
	case protocol.EventTurnEnded:
		return "turn ended"
	case protocol.EventTurnFailed:
		return "turn failed"
	case protocol.EventSessionEnded:
		return "session ended"
	case protocol.EventSessionFailed:
		return "session failed"
	case protocol.EventSessionAttention:
		return "session needs attention"
	case protocol.EventBatchEnded:
		return "batch ended"
	case protocol.EventHostUnhealthy:
		return "host unhealthy"
	case protocol.EventSeedUnhealthy:
		return "seed unhealthy"
	case protocol.EventTest:
		return "test of notifications"
	}
	return kind
}

func line(e Told) string {
	var b strings.Builder
	b.WriteString(headline(e.Kind))
	add := func(format, value string) {
		if value != "" {
			fmt.Fprintf(&b, format, plain(value, 120))
		}
	}
	switch {
	case e.Approval != "":
		add(" (%s)", e.What)
		add(": %s", e.Approval)
	case e.Session != "":
		add(": session %s", e.Session)
		if e.Turn > 0 {
			fmt.Fprintf(&b, ", turn %d", e.Turn)
		}
	case e.Batch != "":
		add(": batch %s", e.Batch)
	case e.Host != "":
		add(": host %s", e.Host)
	case e.Seed != "":
		add(": seed %s", e.Seed)
	}
	add(" (%s)", e.Name)
	if e.Approval == "" {
		add(": %s", e.What)
	}
	if e.Session != "" {
		add(" on %s", e.Host)
	}
	if !e.ExpiresAt.IsZero() {
		fmt.Fprintf(&b, ", expires %s", e.ExpiresAt.UTC().Format("2006-01-02 15:04 MST"))
	}
	return b.String()
}

// plain returns one line without hidden characters.
func plain(s string, most int) string {
	s = escape.Text(strings.Join(strings.Fields(s), " "))
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
