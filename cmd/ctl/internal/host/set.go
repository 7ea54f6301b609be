package host

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func setCommand(a *core.App) *cobra.Command {
	var zone string
	var change []string
	var slots int
	c := &cobra.Command{
		Use: "set NAME", Short: "change a host's labels and slots", Args: cobra.ExactArgs(1),
		Long: `Changes the labels that people gave a host, and how many sessions it takes. What is not
named stays. Labels that a probe found (ctl host show) cannot be taken away, but those that
people give win over them. Fewer slots end no session: the host takes none until enough left.`,
		Example: "  ctl host set web-1 --label gpu=no --label team- --slots 8",
		RunE: func(c *cobra.Command, args []string) error {
			set, err := hostChange(args[0], change, slots, c.Flags().Changed("slots"))
			if err != nil {
				return err
			}
			return changeHost(c.Context(), a, zone, args[0], protocol.UpdateSetHost, set, "changed")
		},
	}
	f := c.Flags()
	f.StringArrayVar(&change, "label", nil, "`key=value` gives a label, key- takes it away; repeatable")
	f.IntVar(&slots, "slots", 0, "how many sessions at once")
	f.StringVar(&zone, "zone", "", "the host's zone")
	return c
}

// hostChange checks all arguments, and sends nothing.
func hostChange(name string, change []string, slots int, given bool) (protocol.SetHost, error) {
	set := protocol.SetHost{Name: name, Slots: slots}
	var put []string
	for _, l := range change {
		if key, gone := strings.CutSuffix(l, "-"); gone && key != "" && !strings.Contains(l, "=") {
			set.Unlabel = append(set.Unlabel, key)
		} else {
			put = append(put, l)
		}
	}
	var err error
	set.Labels, err = pairs("--label", put)
	switch {
	case err != nil:
		return set, err
	case given && slots < 1:
		return set, core.Usage("--slots %d: at least 1 (`ctl host cordon` keeps new sessions out)", slots)
	case len(change) == 0 && !given:
		return set, core.Usage("there is nothing to change").Hinted("give --label or --slots")
	}
	for _, key := range set.Unlabel {
		if _, both := set.Labels[key]; both {
			return set, core.Usage("--label %s is both set and removed", key)
		}
	}
	return set, nil
}

// healthText says since when and why a host gets no sessions, and until when.
func healthText(host string, h *protocol.HostHealth) string {
	if h == nil {
		return ""
	}
	text := fmt.Sprintf("%s since %s: %s; a probe that finds it well ends that: the next is at %s, `ctl host check %s` is one now",
		h.State, h.Since.Local().Format("2006-01-02 15:04:05"), h.Reason, h.NextAt.Local().Format("15:04:05"), host)
	if h.Hint != "" {
		text += " (" + h.Hint + ")"
	}
	return core.Clean(text)
}
