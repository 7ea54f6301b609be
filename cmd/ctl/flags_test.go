package main

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag that every command has means the same everywhere. The one exception
// is the contract's, and takes both.
func TestNoCommandHasAFlagOfCtlsOwnInAnotherSense(t *testing.T) {
	root := newRoot(&app{})
	var twice []string
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			child.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				if root.PersistentFlags().Lookup(f.Name) != nil {
					twice = append(twice, child.CommandPath()+" --"+f.Name)
				}
			})
			look(child)
		}
	}
	look(root)
	if want := []string{"ctl session list --state"}; !slices.Equal(twice, want) {
		t.Errorf("flags in two senses: %q, want %q", twice, want)
	}
}
