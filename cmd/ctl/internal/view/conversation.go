package view

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"strings"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds of the pane: the lines that it shows of unfinished output, and the part of a text that
// it keeps.
const (
	mostOutput = 8
	mostText   = 6
	keepTail   = 16 << 10
	keepText   = 256 << 10 // of a message that has no whole block
)

// A Conversation is what is known of a session that goes on. It makes no requests and knows
// no terminal.
type Conversation struct {
	print show.Renderer
	width func() int // columns, for Markdown
	plain bool       // no Markdown, because there are no colours

	message streamed // of the agent, not yet printed
	command *running
	agents  Agents
	step    string // of the plan that is in progress
	planned string // how many steps are done

	state    protocol.SessionStatus
	waits    string
	open     []string // ids of open approvals
	turn     int
	began    time.Time // of the turn
	used     protocol.UsageView
	silent   bool // no worker answers
	finished bool // nothing goes on any more
}

// streamed is a text whose pieces come one by one.
type streamed struct {
	item   string
	rest   []byte       // what is not printed
	blocks term.Growing // of rest
	all    hash.Hash    // of all pieces
	bytes  int          // of all pieces
}

func (s *streamed) begin(item string) {
	if s.item != item {
		*s = streamed{item: item, all: sha256.New()}
	}
}

// add takes a piece, and returns what is to be printed now.
func (s *streamed) add(text string) string {
	s.all.Write([]byte(text)) // never fails
	s.bytes += len(text)
	s.rest = append(s.rest, text...)
	n := s.blocks.Whole(s.rest)
	if len(s.rest)-n > keepText {
		n = len(s.rest)
		s.blocks = term.Growing{}
	} else {
		s.blocks.Forget(n)
	}
	if n == 0 {
		return ""
	}
	whole := string(s.rest[:n])
	s.rest = append(s.rest[:0], s.rest[n:]...)
	return whole
}

// after returns what of the whole text is not printed. That is all of it if the pieces are not its
// beginning.
func (s *streamed) after(item, text string) string {
	if s.item == "" || s.item != item || len(text) < s.bytes {
		return text
	}
	if sum := sha256.Sum256([]byte(text[:s.bytes])); !bytes.Equal(sum[:], s.all.Sum(nil)) {
		return text
	}
	return text[s.bytes-len(s.rest):]
}

// running is a command whose output comes.
type running struct {
	item, line string
	tail       string
	lines      int // lines that the tail has lost
}

func (c *running) add(text string) {
	c.tail += text
	if over := len(c.tail) - keepTail; over > 0 {
		c.lines += strings.Count(c.tail[:over], "\n")
		c.tail = strings.ToValidUTF8(c.tail[over:], "")
	}
}

// New returns a conversation that prints with p. skipOwn leaves out the person's messages.
func New(p *core.Printer, colours, skipOwn bool, width func() int) *Conversation {
	return &Conversation{print: show.Renderer{P: p, SkipOwn: skipOwn}, plain: !colours, width: width}
}

// Event takes an event of the session's feed.
func (c *Conversation) Event(ev api.Event) {
	switch ev.Kind {
	case api.KindDelta:
		c.delta(*ev.Delta)
	case api.KindEntry:
		c.entry(*ev.Entry)
	case api.KindVoid:
		c.message, c.command, c.agents = streamed{}, nil, nil
		c.print.Event(ev)
	case api.KindState:
		if u := ev.State.Use; u != nil {
			c.used = show.LineOf(*u).Usage
		}
		c.print.Event(ev)
	default:
		c.print.Event(ev)
	}
}

// Detail takes what the session says of itself.
func (c *Conversation) Detail(d protocol.SessionDetail) {
	v := d.View
	c.state, c.waits, c.silent = v.State, v.Waits, false
	if c.state != protocol.Running && c.state != protocol.Waiting {
		c.agents = nil // an item without an end has no entry
	}
	if v.Turn != nil {
		c.turn = v.Turn.N
		c.began = v.Turn.StartedAt
	}
	if v.Usage.Input+v.Usage.Output > c.used.Input+c.used.Output || c.used.Context == nil {
		c.used = v.Usage
	}
	c.open = nil
	for _, ap := range d.Approvals {
		if ap.State == protocol.ApprovalOpen {
			c.open = append(c.open, ap.ID)
		}
	}
}

// Silent notes that no worker answers; the next Detail says that one does.
func (c *Conversation) Silent() { c.silent = true }

func (c *Conversation) delta(d protocol.Delta) {
	if d.Agent != nil {
		c.agents.Delta(d)
		return
	}
	switch d.Type {
	case protocol.EntryAssistant:
		c.message.begin(d.Item)
		c.say(c.message.add(d.Text))
	case protocol.EntryCommand:
		if c.command == nil || c.command.item != d.Item {
			c.command = &running{item: d.Item, line: cmp.Or(d.Command, "…")}
		}
		c.command.add(d.Text)
	}
}

// say prints the next part of the message, which is whole blocks.
func (c *Conversation) say(text string) {
	if text = strings.Trim(text, "\n"); text == "" {
		return
	}
	if c.plain {
		c.print.P.Printf("%s\n\n", core.Clean(text))
		return
	}
	term.Markdown(c.print.P, text, c.width())
	c.print.P.Printf("\n")
}

func (c *Conversation) entry(e protocol.Entry) {
	if e.Agent != nil {
		c.agents.Entry(e)
		c.print.Entry(e)
		return
	}
	switch e.Type {
	case protocol.EntryAssistant:
		text := c.message.after(e.Item, e.Text)
		c.message = streamed{}
		c.say(text)
	case protocol.EntryCommand:
		if c.command != nil && c.command.item == e.Item {
			c.command = nil
		}
		c.print.Entry(e)
	case protocol.EntryPlan:
		c.plan(e)
	default:
		c.print.Entry(e)
	}
}

var marks = map[string]string{"completed": "✔", "inProgress": "▸", "pending": "☐"}

// plan prints the model's plan as a checklist.
func (c *Conversation) plan(e protocol.Entry) {
	if len(e.Plan) == 0 { // of an older worker
		c.print.Entry(e)
		return
	}
	p := c.print.P
	p.Printf("%s\n", p.Paint(core.Bold, strings.TrimSpace("Plan "+core.Clean(e.Data["count"]))))
	done := 0
	c.step = ""
	for _, s := range e.Plan {
		style := map[string]core.Style{"completed": core.Green, "inProgress": core.Yellow}[s.Status]
		p.Printf("  %s\n", p.Paint(style, cmp.Or(marks[s.Status], "☐")+" "+core.OneLine(s.Text, 200)))
		switch s.Status {
		case "completed":
			done++
		case "inProgress":
			c.step = s.Text
		}
	}
	c.planned = fmt.Sprintf("%d/%d", done, len(e.Plan))
}

// Progress shows a progress report.
func (c *Conversation) Progress(now *protocol.ProgressView) { c.print.Progress(now) }

// EndLine prints what was streamed and has no end.
func (c *Conversation) EndLine() {
	text := string(c.message.rest)
	c.message.rest, c.message.blocks = nil, term.Growing{}
	c.say(text)
}
