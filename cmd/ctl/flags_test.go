package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// A global flag means the same in every command. The one exception, `ctl session list
// --state`, accepts both meanings.
func TestNoCommandHasAFlagOfCtlsOwnInAnotherSense(t *testing.T) {
	root := newRoot(&core.App{})
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

// cobra uses a word in back-quotes in a flag's usage as the name of the flag's value. A
// flag without a value has none, and no value is named like a command.
func TestNoFlagHasAGarbledValueName(t *testing.T) {
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		check := func(f *pflag.Flag) {
			name, _ := pflag.UnquoteUsage(f)
			switch quoted := strings.Contains(f.Usage, "`"); {
			case f.Value.Type() == "bool" && quoted, f.NoOptDefVal != "" && quoted:
				t.Errorf("%s --%s takes no value, and its usage names one: %q", c.CommandPath(), f.Name, name)
			case strings.HasPrefix(name, "ctl "):
				t.Errorf("%s --%s: its value is called %q", c.CommandPath(), f.Name, name)
			}
		}
		c.LocalFlags().VisitAll(check)
		for _, child := range c.Commands() {
			look(child)
		}
	}
	look(newRoot(&core.App{}))
}
