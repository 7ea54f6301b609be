package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// How many lines of what goes on the pane shows, and how much of a text it keeps.
const (
	mostOutput = 8
	mostText   = 6
	keepTail   = 16 << 10
)

// A Conversation is what is known of a session that goes on. It makes no requests and knows
// no terminal.
type Conversation struct {
	print show.Renderer
	width func() int // columns, for Markdown
	plain bool       // no Markdown, because there are no colours

	message streamed // of the agent, not yet printed
	thought streamed // its reasoning
	command *running
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
	item    string
	text    strings.Builder // all of it
	printed int             // bytes of text that are printed
}

func (s *streamed) begin(item string) {
	if s.item != item {
		*s = streamed{item: item}
	}
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
		c.message, c.thought, c.command = streamed{}, streamed{}, nil
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
		return // its entries are printed; its pieces would mix with the session's own
	}
	switch d.Type {
	case protocol.EntryAssistant:
		c.message.begin(d.Item)
		c.message.text.WriteString(d.Text)
		whole, _ := term.Blocks(c.message.text.String()[c.message.printed:])
		c.say(whole)
	case protocol.EntryReasoning:
		c.thought.begin(d.Item)
		c.thought.text.WriteString(d.Text)
	case protocol.EntryCommand:
		if c.command == nil || c.command.item != d.Item {
			c.command = &running{item: d.Item, line: cmp.Or(d.Command, "…")}
		}
		c.command.add(d.Text)
	}
}

// say prints the next part of the message, which is whole blocks.
func (c *Conversation) say(text string) {
	if text == "" {
		return
	}
	c.message.printed += len(text)
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
		c.print.Entry(e)
		return
	}
	switch e.Type {
	case protocol.EntryAssistant:
		text := e.Text // if what was streamed began before ctl was connected, all of it
		if c.message.item == e.Item && e.Item != "" && strings.HasPrefix(e.Text, c.message.text.String()) {
			text = e.Text[c.message.printed:]
		}
		c.message = streamed{}
		c.say(text)
		c.message = streamed{}
	case protocol.EntryReasoning:
		c.thought = streamed{}
		c.print.Entry(e)
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
	if c.message.item != "" {
		c.say(c.message.text.String()[c.message.printed:])
	}
}
