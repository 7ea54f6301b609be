package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// Tools are the names of our tools for codex.
func Tools() []string { return slices.Clone(protocol.Tools) }

// CheckTools returns an error if a session cannot offer these tools.
func CheckTools(names []string) error { return conversation.CheckTools(names) }

// A toolShop carries out the calls that one pump's codex makes of our tools.
type toolShop struct {
	site    *site
	session string
	spec    protocol.HostSpec
	layout  protocol.Layout
	hide    secrets
	limits  DeliverLimits

	mu   sync.Mutex
	past []handover // guarded by mu: the session's handovers, after they were read
}

// toolsOf returns nil for a session that offers no tools.
func toolsOf(s *site, in RunPumpInput, hide secrets) conversation.Tooler {
	if len(in.Pump.Thread.Tools) == 0 {
		return nil
	}
	t := &toolShop{site: s, session: in.Claim.Session, spec: in.Claim.Host, layout: in.Layout, hide: hide, limits: s.Deliver.orDefaults()}
	return t.call
}

func (t *toolShop) call(ctx context.Context, call conversation.ToolCall) (conversation.ToolReply, error) {
	if call.Tool != protocol.ToolDeliver {
		return conversation.ToolReply{Text: fmt.Sprintf("Nobody knows how to carry out %q.", call.Tool)}, nil
	}
	return t.deliver(ctx, call)
}
