package site

import (
	"context"
	"errors"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// TellFlood tells the zone's pool that a host sent more than it may. The pool quarantines
// the host.
func (s *Site) TellFlood(ctx context.Context, host string, p protocol.Problem) {
	s.Logger.Warn("host sends too much", "host", host, "error", p.Message)
	if s.Temporal == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.Temporal.SignalWorkflow(ctx, protocol.PoolID(s.Zone), "", protocol.SignalHostAway, protocol.HostAway{Host: host, Problem: p})
	if err != nil {
		// The next read of the host tells it again.
		s.Logger.Warn("pool not told that a host sends too much", "host", host, "error", err)
	}
}

// IfFlood calls TellFlood if err says that a host sent too much. It is for work that is no
// activity.
func (s *Site) IfFlood(ctx context.Context, err error) {
	var flood *hostexec.FloodError
	if errors.As(err, &flood) && flood.Host != "" {
		kind, hint, _ := kit.Failing{}.Classify(flood)
		s.TellFlood(ctx, flood.Host, protocol.Problem{Kind: kind, Message: flood.Error(), Hint: hint})
	}
}
