package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/workflows"
)

// originFlags narrow a list to the sessions or batches that one batch or schedule started.
type originFlags struct{ batch, schedule string }

func (f *originFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.batch, "batch", "", "only those of this `batch`")
	c.Flags().StringVar(&f.schedule, "schedule", "", "only those that this `schedule` started")
}

// narrow adds the condition to a list's query.
func (f originFlags) narrow(q *[]string) error {
	if f.batch != "" && f.schedule != "" {
		return usage("--batch and --schedule: give one of them")
	}
	for _, o := range []struct {
		what, name string
		of         func(string) string
	}{{"batch id", f.batch, workflows.OriginBatch}, {"schedule name", f.schedule, workflows.OriginSchedule}} {
		if o.name == "" {
			continue
		}
		if err := checkName(o.what, o.name); err != nil {
			return err
		}
		*q = append(*q, fmt.Sprintf("FairleadOrigin = '%s'", o.of(o.name)))
	}
	return nil
}
