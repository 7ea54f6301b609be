package start

import (
	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// placeFlags select hosts and the order in line.
type placeFlags struct {
	labels, prefer []string
	tenant         string
	priority       int
}

func (f *placeFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringArrayVar(&f.labels, "label", nil, "any host that meets this `SELECTOR`: k=v, k!=v, k>=n, k<=n, k>n, k<n, k (it has the label) or !k; repeatable, all hold")
	fl.StringArrayVar(&f.prefer, "prefer", nil, "prefer a free host that meets this `SELECTOR`; repeatable")
	fl.StringVar(&f.tenant, "tenant", "", "`NAME` of the team for which it counts where slots are shared out (ctl pool set)")
	fl.IntVar(&f.priority, "priority", protocol.DefaultPriority, "order among waiting sessions: `N` from 1 (first) to 5 (last)")
}

func (f *placeFlags) set(opt *session.Options) error {
	if f.tenant != "" {
		if err := core.CheckName("tenant", f.tenant); err != nil {
			return err
		}
	}
	if f.priority < protocol.FirstPriority || f.priority > protocol.LastPriority {
		return core.Usage("--priority %d: want %d (first) to %d (last)", f.priority, protocol.FirstPriority, protocol.LastPriority)
	}
	if f.priority != protocol.DefaultPriority {
		opt.Priority = f.priority
	}
	if err := flows.SetLabels(opt, f.labels); err != nil {
		return core.Usage("--label: %v", err)
	}
	if _, err := protocol.ParseSelectors(f.prefer); err != nil {
		return core.Usage("--prefer: %v", err)
	}
	opt.Rather, opt.Tenant = f.prefer, f.tenant
	return nil
}
