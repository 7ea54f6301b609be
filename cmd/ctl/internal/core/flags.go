package core

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Durations adds a repeatable flag for a duration.
func Durations(c *cobra.Command, to *[]time.Duration, name, help string) {
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

// A StateFlag is the flag --state where it means a session's state. Elsewhere --state is
// the folder of a local stack, and scripts append it to any command. So a value with a
// slash, which no state has, is taken as that folder.
type StateFlag struct {
	Word   string
	Given  bool
	Folder *string
}

func (f *StateFlag) Set(s string) error {
	if strings.Contains(s, "/") {
		*f.Folder = s
		return nil
	}
	f.Word, f.Given = s, true
	return nil
}

func (f *StateFlag) String() string { return f.Word }
func (f *StateFlag) Type() string   { return "state" }
