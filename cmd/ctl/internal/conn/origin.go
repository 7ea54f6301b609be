package conn

import (
	"fmt"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// OriginFlags narrow a list to what one batch or schedule started.
type OriginFlags struct{ batch, Schedule string }

func (f *OriginFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.batch, "batch", "", "only those of this `batch`")
	c.Flags().StringVar(&f.Schedule, "schedule", "", "only those that this `schedule` started")
}

// Narrow adds the condition for the flags to a list's query.
func (f OriginFlags) Narrow(q *[]string) error {
	if f.batch != "" && f.Schedule != "" {
		return core.Usage("--batch and --schedule: give one of them")
	}
	for _, o := range []struct {
		what, name string
		of         func(string) string
	}{{"batch id", f.batch, protocol.OriginBatch}, {"schedule name", f.Schedule, protocol.OriginSchedule}} {
		if o.name == "" {
			continue
		}
		if err := core.CheckName(o.what, o.name); err != nil {
			return err
		}
		*q = append(*q, fmt.Sprintf("FairleadOrigin = '%s'", o.of(o.name)))
	}
	return nil
}
