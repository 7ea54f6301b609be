package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// durations adds a flag that takes a duration and can be repeated.
func durations(c *cobra.Command, to *[]time.Duration, name, help string) {
	c.Flags().Var(&durationList{to}, name, help)
}

type durationList struct{ to *[]time.Duration }

func (d *durationList) String() string {
	var out []string
	if d.to != nil {
		for _, v := range *d.to {
			out = append(out, v.String())
		}
	}
	return strings.Join(out, ",")
}

func (d *durationList) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err == nil {
		*d.to = append(*d.to, v)
	}
	return err
}

func (d *durationList) Type() string { return "duration" }
