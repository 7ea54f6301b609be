package pumps

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// Tools names our tools for codex.
func Tools() []string { return slices.Clone(protocol.Tools) }

// CheckTools refuses tools that a session cannot offer.
func CheckTools(names []string) error { return conversation.CheckTools(names) }

// A ToolShop carries out one pump's calls of our tools.
type ToolShop struct {
	Site    *site.Site
	Session string
	Spec    protocol.HostSpec
	Layout  protocol.Layout
	Hide    site.Secrets
	Limits  site.DeliverLimits
	Team    []protocol.TeamTool

	mu   sync.Mutex
	past []records.Handover // guarded by mu; nil until read
}

func toolsOf(s *site.Site, in RunPumpInput, hide site.Secrets) conversation.Tooler {
	if len(in.Pump.Thread.Tools)+len(in.Pump.Thread.Team) == 0 {
		return nil
	}
	t := &ToolShop{Site: s, Session: in.Claim.Session, Team: in.Pump.Thread.Team, Spec: in.Claim.Host, Layout: in.Layout, Hide: hide, Limits: s.Deliver.OrDefaults()}
	return t.Call
}

// Call carries out one call.
func (t *ToolShop) Call(ctx context.Context, call conversation.ToolCall) (conversation.ToolReply, error) {
	for _, tool := range t.Team {
		if tool.Name == call.Tool {
			return t.callTeam(ctx, tool, call)
		}
	}
	if call.Tool != protocol.ToolDeliver {
		return conversation.ToolReply{Text: fmt.Sprintf("Nobody knows how to carry out %q.", call.Tool)}, nil
	}
	return t.deliver(ctx, call)
}
