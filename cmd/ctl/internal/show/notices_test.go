package show

import (
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestNoticesAreSaidInALine(t *testing.T) {
	for what, c := range map[string]struct {
		of   *protocol.Notices
		want [3]string // the plan, the reroute, the MCP servers
	}{
		"nothing":     {nil, [3]string{}},
		"none of all": {&protocol.Notices{}, [3]string{}},
		"a plan":      {&protocol.Notices{Plan: &protocol.Plan{Steps: []protocol.PlanStep{{Text: "read", Status: "completed"}, {Text: "write", Status: "inProgress"}}, More: 3}}, [3]string{"1 of 5 steps completed; now: write"}},
		"a plan that has not begun": {&protocol.Notices{Plan: &protocol.Plan{Steps: []protocol.PlanStep{{Text: "read", Status: "pending"}}}},
			[3]string{"0 of 1 steps completed"}},
		"a reroute":                  {&protocol.Notices{Rerouted: &protocol.Reroute{From: "big", To: "small", Reason: "capacity"}}, [3]string{1: "small answers in place of big (capacity)"}},
		"a reroute without a reason": {&protocol.Notices{Rerouted: &protocol.Reroute{From: "big", To: "small"}}, [3]string{1: "small answers in place of big"}},
		"MCP servers": {&protocol.Notices{MCPServers: []protocol.MCPServer{{Name: "docs", Status: "ready"}, {Name: "tickets", Status: "failed", Error: "exit status 1"}}},
			[3]string{2: "docs ready; tickets failed (exit status 1)"}},
	} {
		if got := [3]string{PlanLine(c.of), RerouteText(c.of), MCPServersText(c.of)}; got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
