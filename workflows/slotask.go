package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// checkPlace refuses what no pool would accept in a request for a slot.
func (o SessionOptions) checkPlace() error {
	for _, list := range [][]string{o.Select, o.Rather} {
		if _, err := protocol.ParseSelectors(list); err != nil {
			return err
		}
	}
	switch {
	case o.Tenant != "" && !protocol.NamePattern.MatchString(o.Tenant):
		return fmt.Errorf("tenant %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", excerpt(o.Tenant, maxWord))
	case o.Priority < 0 || o.Priority > protocol.LastPriority:
		return fmt.Errorf("priority %d is none of %d (first) to %d (last)", o.Priority, protocol.FirstPriority, protocol.LastPriority)
	}
	return nil
}

func (s *leasesPart) wantsSlot() acquire {
	return acquire{
		Holder: s.id, Host: s.opt.Host, Labels: s.opt.Labels, Select: s.opt.Select, Rather: s.opt.Rather, Seed: s.opt.Seed,
		Tenant: s.opt.Tenant, Priority: s.opt.Priority, AskedAt: workflow.Now(s.ctx), Generation: s.st.Generation + 1,
	}
}
