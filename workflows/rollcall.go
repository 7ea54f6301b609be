package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// A pool that starts without a former run may replace one that was terminated, so
// sessions may hold slots that it does not know of. It lists all sessions that run,
// however long that takes, asks them, and grants no slot before they have answered
// or answersWithin has passed since they were asked. If the run ends before that,
// the next run asks again.

// answerCall tells a pool which of its slots the session holds, or on which of its
// hosts the session is parked.
func (s *leasesPart) answerCall(c rollCall) {
	if c.From != protocol.PoolID(s.opt.Zone) {
		return
	}
	h := holds{Holder: s.id, Run: s.firstRun(), Tenant: s.opt.Tenant}
	if l := s.st.Lease; l != nil {
		h.Host, h.Epoch, h.Since = l.Spec.Name, l.Epoch, workflow.Now(s.ctx)
	}
	for _, a := range s.st.Answers { // a grant that the session has not taken yet
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
	s.answers = append(slices.DeleteFunc(s.answers, workflow.Future.IsReady), workflow.SignalExternalWorkflow(s.ctx, c.From, "", signalHolds, h))
}

// answered reports whether the server has taken all answers to pools, so that the
// run may end. A pool does not ask twice, so no answer is sent again.
func (s *leasesPart) answered() bool {
	return !slices.ContainsFunc(s.answers, func(f workflow.Future) bool { return !f.IsReady() })
}
