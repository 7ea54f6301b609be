package session

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// answerCall tells a pool which of its slots the session holds, or where it is parked.
func (s *leasesPart) answerCall(c lease.RollCall) {
	if c.From != protocol.PoolID(s.opt.Zone) {
		return
	}
	h := lease.Holds{Holder: s.id, Run: s.firstRun(), Tenant: s.opt.Tenant}
	if l := s.st.Lease; l != nil {
		h.Host, h.Epoch, h.Since = l.Spec.Name, l.Epoch, workflow.Now(s.ctx)
	}
	for _, a := range s.st.Answers { // a grant not yet taken
		if s.st.Lease == nil && a.From == c.From && a.Spec != nil {
			h.Host, h.Epoch, h.Since = a.Spec.Name, a.Epoch, workflow.Now(s.ctx)
		}
	}
	if w := s.st.Warm; w != nil && h.Host == "" {
		h.Host, h.Warm, h.Since = w.Spec.Name, s.leftWarm(""), w.Since
	}
	if s.st.Seed != nil {
		h.Seed = s.st.Seed.Name
	}
	s.answers = append(slices.DeleteFunc(s.answers, workflow.Future.IsReady), workflow.SignalExternalWorkflow(s.ctx, c.From, "", lease.SignalHolds, h))
}

// answered reports whether the server has all answers to pools, so that the run may end. A
// pool does not ask twice.
func (s *leasesPart) answered() bool {
	return !slices.ContainsFunc(s.answers, func(f workflow.Future) bool { return !f.IsReady() })
}
