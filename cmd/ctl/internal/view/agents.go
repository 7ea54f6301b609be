package view

import (
	"cmp"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// mostAgents bounds the sub-agents in the pane, and keepAgents those that are followed.
	mostAgents = 3
	keepAgents = 32
)

// Agents are the sub-agents with an unfinished message or command, in the order in which those began.
// A pane shows the end of each. An item is printed when it is finished, because pieces of several
// would mix.
type Agents []*agent

type agent struct {
	thread, name string
	running      // line is empty for a message
}

// Delta takes a piece of an item of a sub-agent.
func (all *Agents) Delta(d protocol.Delta) {
	if d.Type != protocol.EntryAssistant && d.Type != protocol.EntryCommand {
		return
	}
	i := slices.IndexFunc(*all, func(a *agent) bool { return a.thread == d.Agent.Thread })
	if i >= 0 && (*all)[i].item != d.Item {
		*all = slices.Delete(*all, i, i+1)
		i = -1
	}
	if i < 0 {
		if len(*all) == keepAgents {
			return
		}
		a := &agent{thread: d.Agent.Thread, name: cmp.Or(d.Agent.Name, d.Agent.Thread), running: running{item: d.Item}}
		if d.Type == protocol.EntryCommand {
			a.line = cmp.Or(d.Command, "…")
		}
		i = len(*all)
		*all = append(*all, a)
	}
	(*all)[i].add(d.Text)
}

// Entry takes an item of a sub-agent that is finished.
func (all *Agents) Entry(e protocol.Entry) {
	*all = slices.DeleteFunc(*all, func(a *agent) bool { return a.thread == e.Agent.Thread && a.item == e.Item })
}

// Pane returns two lines for each of the first sub-agents: whose item it is, and its end.
func (all Agents) Pane(width int) (lines []term.Line) {
	for _, a := range all[:min(len(all), mostAgents)] {
		head := core.OneLine(a.name, 40) + ":"
		if a.line != "" {
			head += " $ " + core.OneLine(a.line, 4*width)
		}
		lines = append(lines, term.Line{Style: core.Cyan, Text: term.Fit(head, width)})
		if end := tail(a.tail, core.Dim, "  ", 0, 1, width); len(end) > 0 {
			lines = append(lines, end[len(end)-1])
		}
	}
	if more := len(all) - mostAgents; more > 0 {
		lines = append(lines, term.Line{Style: core.Dim, Text: fmt.Sprintf("… and %d more sub-agents", more)})
	}
	return lines
}
