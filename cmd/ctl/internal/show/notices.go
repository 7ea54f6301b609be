package show

import (
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// PlanLine says how much of the model's plan is completed, and which step it is at.
func PlanLine(n *protocol.Notices) string {
	if n == nil || n.Plan == nil {
		return ""
	}
	text := n.Plan.Count()
	for _, s := range n.Plan.Steps {
		if s.Status == "inProgress" {
			return text + "; now: " + s.Text
		}
	}
	return text
}

// RerouteText says which model answers in place of the one that was asked for.
func RerouteText(n *protocol.Notices) string {
	if n == nil || n.Rerouted == nil {
		return ""
	}
	text := n.Rerouted.To + " answers in place of " + n.Rerouted.From
	if n.Rerouted.Reason != "" {
		text += " (" + n.Rerouted.Reason + ")"
	}
	return text
}

// MCPServersText lists the MCP servers with their states.
func MCPServersText(n *protocol.Notices) string {
	if n == nil {
		return ""
	}
	var all []string
	for _, s := range n.MCPServers {
		text := s.Name + " " + s.Status
		if s.Error != "" {
			text += " (" + s.Error + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}
