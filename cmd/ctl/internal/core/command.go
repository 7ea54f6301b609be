package core

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group returns a command that only holds others. Calling it alone is a usage error.
func Group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usage("%q is not a command of %s", args[0], c.CommandPath()).Hinted("%s", meantCommand(c, args[0]))
			}
			return Usage("%s needs a command", c.CommandPath()).Hinted("see `%s --help`", c.CommandPath())
		},
	}
	c.AddCommand(children...)
	return c
}

// meantCommand returns a hint for an unknown command of c.
func meantCommand(c *cobra.Command, word string) string {
	var names, near []string
	for _, child := range c.Commands() {
		names = append(names, child.Name())
	}
	for _, name := range Meant(word, names) {
		near = append(near, fmt.Sprintf("`%s %s`", c.CommandPath(), name))
	}
	hint := fmt.Sprintf("see `%s --help`", c.CommandPath())
	if len(near) > 0 {
		hint = fmt.Sprintf("is %s meant? %s", strings.Join(near, " or "), hint)
	}
	return hint
}

// HelpCommand returns a help command that, unlike cobra's, refuses an unknown topic.
func HelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "help on a command",
		Example: "  ctl help session start",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || found == nil {
				return Usage("there is no help on %q", strings.Join(args, " ")).Hinted("see `%s --help`", c.Root().CommandPath())
			}
			if len(rest) > 0 {
				return Usage("there is no help on %q", rest[0]).Hinted("%s", meantCommand(found, rest[0]))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
