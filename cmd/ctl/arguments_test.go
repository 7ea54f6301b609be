package main

import (
	"testing"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

func TestWhatIsWrongWithArgumentsIsSaidInTheWordsOfTheUseLine(t *testing.T) {
	for _, c := range []struct {
		use  string
		rule cobra.PositionalArgs
		args []string
		want string // empty if nothing is wrong
		hint string
	}{
		{"run PROMPT|-", cobra.ExactArgs(1), nil, "the prompt is missing", "run PROMPT|-; see `run --help`"},
		{"run PROMPT|-", cobra.ExactArgs(1), []string{"run", "tests"}, `"tests" is one argument too many`, "a text of several words is put in quotes; run PROMPT|-; see `run --help`"},
		{"run PROMPT|-", cobra.ExactArgs(1), []string{"a"}, "", ""},
		{"send ID PROMPT|-", cobra.ExactArgs(2), nil, "the id and the prompt are missing", "send ID PROMPT|-; see `send --help`"},
		{"send ID PROMPT|-", cobra.ExactArgs(2), []string{"s1"}, "the prompt is missing", "send ID PROMPT|-; see `send --help`"},
		{"exec NAME -- COMMAND...", cobra.MinimumNArgs(2), []string{"web-1"}, "the command is missing", "exec NAME -- COMMAND...; see `exec --help`"},
		{"fetch ID PATH...", cobra.MinimumNArgs(2), nil, "the id and the path are missing", "fetch ID PATH...; see `fetch --help`"},
		{"list [ID]", cobra.MaximumNArgs(1), []string{"a", "b", "c"}, `"b" and "c" are arguments too many`, "list [ID]; see `list --help`"},
		{"status", cobra.NoArgs, []string{"extra"}, `"extra" is one argument too many`, "status; see `status --help`"},
		{"push ID --branch B", cobra.ExactArgs(1), nil, "the id is missing", "push ID --branch B; see `push --help`"},
		{"diff ID [--turn N|last]", cobra.ExactArgs(1), nil, "the id is missing", "diff ID [--turn N|last]; see `diff --help`"},
	} {
		cmd := &cobra.Command{Use: c.use, Args: c.rule, DisableFlagsInUseLine: true, Run: func(*cobra.Command, []string) {}}
		sayArguments(cmd)
		err := cmd.ValidateArgs(c.args)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s with %q: %v", c.use, c.args, err)
			}
			continue
		}
		e := core.AsError(t.Context(), err, false, "x")
		if e.Code != core.ExitUsage || e.Message != c.want || e.Hint != c.hint {
			t.Errorf("%s with %q: exit %d, %s (%s)\nwant %s (%s)", c.use, c.args, e.Code, e.Message, e.Hint, c.want, c.hint)
		}
	}
}

// Every command names the arguments that are missing.
func TestEveryCommandNamesItsArguments(t *testing.T) {
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			look(child)
		}
		if c.Args == nil || c.Name() == "create" && c.Parent().Name() == "schedule" {
			return
		}
		err := c.ValidateArgs(nil)
		if err == nil {
			return
		}
		if len(neededArguments(c)) == 0 || core.ExitCode(err) != core.ExitUsage {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
	}
	look(newRoot(&core.App{}))
}
