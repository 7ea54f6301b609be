package start

import (
	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
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

// set stores k=v as a label, as earlier versions did, and other forms as selectors.
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
	wants, err := protocol.ParseSelectors(f.labels)
	if err != nil {
		return core.Usage("--label: %v", err)
	}
	for _, s := range wants {
		before, twice := opt.Labels[s.Key]
		switch {
		case s.Op != "=":
			opt.Select = append(opt.Select, s.String())
		case twice && before != s.Value:
			return core.Usage("--label %s and --label %s=%s: no host has both", s, s.Key, before)
		case opt.Labels == nil:
			opt.Labels = map[string]string{s.Key: s.Value}
		default:
			opt.Labels[s.Key] = s.Value
		}
	}
	if _, err := protocol.ParseSelectors(f.prefer); err != nil {
		return core.Usage("--prefer: %v", err)
	}
	opt.Rather, opt.Tenant = f.prefer, f.tenant
	return nil
}
