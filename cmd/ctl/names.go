package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// rename makes the help of a command, and of those below it, call the program by its name.
func rename(a *core.App, c *cobra.Command) {
	for _, text := range []*string{&c.Short, &c.Long, &c.Example} {
		*text = a.Renamed(*text)
	}
	for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage = a.Renamed(f.Usage) })
	}
	for _, child := range c.Commands() {
		rename(a, child)
	}
}
