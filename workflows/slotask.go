package workflows

import (
	"go.temporal.io/sdk/workflow"
)

func (s *leasesPart) wantsSlot() acquire {
	return acquire{
		Holder: s.id, Host: s.opt.Host, Labels: s.opt.Labels, Select: s.opt.Select, Rather: s.opt.Rather, Seed: s.opt.Seed,
		Tenant: s.opt.Tenant, Priority: s.opt.Priority, AskedAt: workflow.Now(s.ctx), Generation: s.st.Generation + 1,
	}
}
