package conn

import (
	"fmt"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// OriginFlags narrow a list to what one batch, schedule or session started.
type OriginFlags struct{ batch, Schedule, session, parent string }

func (f *OriginFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.batch, "batch", "", "only those of this `batch`")
	c.Flags().StringVar(&f.Schedule, "schedule", "", "only those that this `schedule` started")
	c.Flags().StringVar(&f.session, "follow-ups-of", "", "only the follow-ups of this `session`")
	c.Flags().StringVar(&f.parent, "children-of", "", "only those that the agent of this `session` started")
}

// Narrow adds the condition for the flags to a list's query.
func (f OriginFlags) Narrow(q *[]string) error {
	given := 0
	for _, o := range []struct {
		what, name string
		of         func(string) string
	}{{"batch id", f.batch, protocol.OriginBatch}, {"schedule name", f.Schedule, protocol.OriginSchedule}, {"session id", f.session, protocol.OriginSession}, {"session id", f.parent, protocol.OriginParent}} {
		if o.name == "" {
			continue
		}
		if given++; given > 1 {
			return core.Usage("--batch, --schedule, --follow-ups-of and --children-of: give one of them")
		}
		if err := core.CheckName(o.what, o.name); err != nil {
			return err
		}
		*q = append(*q, fmt.Sprintf("FairleadOrigin = '%s'", o.of(o.name)))
	}
	return nil
}
