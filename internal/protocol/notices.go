package protocol

import (
	"fmt"
	"strings"
)

// An Agent is a sub-agent: a thread that codex began for another thread.
type Agent struct {
	Thread string `json:"thread"`
	// Name is codex's name for it, or "agent" with its number in the session.
	Name string `json:"name,omitempty"`
	// Of is the sub-agent that began it; nil if the session's own thread did.
	Of *Agent `json:"of,omitempty"`
}

// Depth is 1 for a sub-agent of the session's own thread, and 0 for nil.
func (a *Agent) Depth() (n int) {
	for ; a != nil; a = a.Of {
		n++
	}
	return n
}

// Notices are what codex last said about a turn beside its items.
type Notices struct {
	Plan *Plan `json:"plan,omitempty"`
	// MCPServers are those of the session's own thread, at most MaxMCPServers.
	MCPServers []MCPServer `json:"mcp_servers,omitempty"`
	// Rerouted is set if another model than the asked one answers in the newest turn.
	Rerouted *Reroute `json:"rerouted,omitempty"`
}

// Bounds of Notices: how many, and the longest texts in bytes.
const (
	MaxPlanSteps  = 40
	MaxPlanText   = 500
	MaxPlanStep   = 200
	MaxMCPServers = 20
)

// A Plan is the model's plan, also called its todo list.
type Plan struct {
	Turn        int        `json:"turn"`
	Explanation string     `json:"explanation,omitempty"`
	Steps       []PlanStep `json:"steps"`
	// More counts the steps beyond MaxPlanSteps.
	More int `json:"more,omitempty"`
}

// A PlanStep is a step of a plan. Status is pending, inProgress or completed.
type PlanStep struct {
	Text   string `json:"text"`
	Status string `json:"status"`
}

// Count says how many steps there are, and how many are completed.
func (p *Plan) Count() string {
	if p == nil {
		return ""
	}
	done := 0
	for _, s := range p.Steps {
		if s.Status == "completed" {
			done++
		}
	}
	return fmt.Sprintf("%d of %d steps completed", done, len(p.Steps)+p.More)
}

// String returns the plan as lines: [x] is completed, [>] in progress, [ ] pending.
func (p *Plan) String() string {
	if p == nil {
		return ""
	}
	var b strings.Builder
	if p.Explanation != "" {
		b.WriteString(p.Explanation + "\n")
	}
	for _, s := range p.Steps {
		mark := " "
		switch s.Status {
		case "completed":
			mark = "x"
		case "inProgress":
			mark = ">"
		}
		b.WriteString("[" + mark + "] " + s.Text + "\n")
	}
	if p.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", p.More)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// An MCPServer is the start of an MCP server, in codex's words: starting, ready, failed,
// cancelled.
type MCPServer struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// A Reroute says that the provider answered with another model than the asked one.
type Reroute struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason,omitempty"`
}
