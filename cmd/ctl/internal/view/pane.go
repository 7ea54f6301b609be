package view

import (
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/protocol"
)

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// spinEvery is how long a picture of the spinner stays.
const spinEvery = 120 * time.Millisecond

// Pane returns the lines of the pane: what is being said, the end of the output of a command
// that runs, what sub-agents do, and the status.
func (c *Conversation) Pane(now time.Time, width int) (all []term.Line) {
	if c.finished {
		return nil
	}
	if c.message.item != "" {
		all = append(all, tail(strings.Trim(string(c.message.rest), "\n"), "", "", 0, mostText, width)...)
	}
	if c.command != nil {
		all = append(all, term.Line{Style: core.Cyan, Text: term.Fit("$ "+core.OneLine(c.command.line, 4*width), width)})
		all = append(all, tail(c.command.tail, core.Dim, "  ", c.command.lines, mostOutput, width)...)
	}
	all = append(all, c.agents.Pane(width)...)
	return append(all, term.Line{Style: core.Dim, Text: term.Fit(c.status(now), width)})
}

// tail returns the last lines of a text, after a line that counts those before.
func tail(text string, style core.Style, margin string, before, most, width int) (all []term.Line) {
	if text == "" {
		return nil
	}
	if over := len(text) - 8*width*most; over > 0 { // more than fits
		before += strings.Count(text[:over], "\n")
		text = strings.ToValidUTF8(text[over:], "")
	}
	lines := term.Wrap(term.Lines(style, margin, text), width)
	if n := len(lines) - most; n > 0 {
		before, lines = before+n, lines[n:]
	}
	if before > 0 {
		all = append(all, term.Line{Style: core.Dim, Text: fmt.Sprintf("%s… %d lines before", margin, before)})
	}
	return append(all, lines...)
}

// status says what goes on, for how long, and what was used.
func (c *Conversation) status(now time.Time) string {
	doing, works := c.doing()
	mark := "·"
	if works {
		mark = spinner[int(now.UnixMilli()/spinEvery.Milliseconds())%len(spinner)]
	}
	parts := []string{mark + " " + doing}
	if c.turn > 0 && works {
		turn := fmt.Sprintf("turn %d", c.turn)
		if took := now.Sub(c.began); !c.began.IsZero() && took >= 0 {
			turn += ", " + elapsed(took)
		}
		parts = append(parts, turn)
	}
	if c.step != "" && works {
		parts = append(parts, "plan "+c.planned+": "+core.OneLine(c.step, 40))
	}
	if n := c.used.Input + c.used.Output; n > 0 {
		parts = append(parts, count(n)+" tokens")
	}
	if x := c.used.Context; x != nil && x.Window > 0 {
		parts = append(parts, fmt.Sprintf("context %d %%", 100*x.Used/x.Window))
	}
	return strings.Join(append(parts, "^C leaves, it goes on"), " · ")
}

// doing says what the session does, and whether codex is at work.
func (c *Conversation) doing() (what string, works bool) {
	switch {
	case c.silent:
		return "no worker answers; waiting for one", false
	case len(c.open) == 1:
		return "waiting for approval " + c.open[0], false
	case len(c.open) > 1:
		return fmt.Sprintf("waiting for %d approvals, %s first", len(c.open), c.open[0]), false
	case c.command != nil:
		return "running a command", true
	case c.message.item != "":
		return "answering", true
	case len(c.agents) > 0:
		return "sub-agents are at work", true
	case c.state == protocol.Running:
		return "thinking", true
	case c.state == "":
		return "looking", true
	}
	text := string(c.state)
	if c.waits != "" {
		text += ", waits for " + core.OneLine(c.waits, 80)
	}
	return text, c.state == protocol.Preparing || c.state == protocol.Starting || c.state == protocol.Resuming || c.state == protocol.Closing
}

// elapsed formats a time that grows.
func elapsed(d time.Duration) string {
	switch s := int(d.Seconds()); {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d:%02d min", s/60, s%60)
	default:
		return fmt.Sprintf("%d:%02d h", s/3600, s/60%60)
	}
}

// count formats a number of tokens.
func count(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 10_000_000:
		return fmt.Sprintf("%d k", n/1000)
	}
	return fmt.Sprintf("%d M", n/1_000_000)
}
