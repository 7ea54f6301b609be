package start

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/workflows/session"
)

type toolFlags struct{ names string }

func (f *toolFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.names, "tools", "none", "tools of ours that codex may call: `NAMES` of ask_human (asks you a question), deliver (hands over a file), report_progress (says how far it is), with commas; all or none")
}

func (f *toolFlags) set(opt *session.Options) error {
	switch f.names {
	case "none", "":
	case "all":
		opt.Tools = pumps.Tools()
	default:
		names := strings.Split(f.names, ",")
		for i := range names {
			names[i] = strings.TrimSpace(names[i])
		}
		if err := pumps.CheckTools(names); err != nil {
			return core.Usage("--tools: %v", err).Hinted("or all, or none")
		}
		slices.Sort(names) // equal sets are equal requests
		opt.Tools = names
	}
	return nil
}
