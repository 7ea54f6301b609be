package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// sayArguments makes commands report missing or extra arguments by the names in their use
// lines.
func sayArguments(c *cobra.Command) {
	for _, child := range c.Commands() {
		sayArguments(child)
	}
	rule := c.Args
	if rule == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := rule(c, args)
		if err == nil {
			return nil
		}
		hint := fmt.Sprintf("%s; see `%s --help`", usedAs(c), c.CommandPath())
		needed := neededArguments(c)
		if n := len(args); n < len(needed) {
			return core.Usage("%s missing", listed(needed[n:], "the ", "is", "are")).Hinted("%s", hint).Because(err)
		}
		if most := mostArguments(c); len(args) > most && most >= 0 {
			var more []string
			for _, arg := range args[most:] {
				more = append(more, fmt.Sprintf("%q", core.OneLine(arg, 40)))
			}
			if len(needed) > 0 && takesText(needed[len(needed)-1]) {
				hint = "a text of several words is put in quotes; " + hint
			}
			return core.Usage("%s too many", listed(more, "", "is one argument", "are arguments")).Hinted("%s", hint).Because(err)
		}
		return err
	}
}

// listed joins words with the right verb: "the id and the prompt are".
func listed(words []string, before, one, many string) string {
	last := len(words) - 1
	if last == 0 {
		return before + words[0] + " " + one
	}
	return before + strings.Join(words[:last], ", "+before) + " and " + before + words[last] + " " + many
}

func takesText(name string) bool {
	return name == "prompt" || name == "text" || name == "name"
}

// usedAs returns a use line without cobra's flags.
func usedAs(c *cobra.Command) string {
	_, args, _ := strings.Cut(c.Use, " ")
	return strings.TrimSpace(c.CommandPath() + " " + args)
}

// argumentWords returns a use line's words for arguments.
func argumentWords(c *cobra.Command) (words []string) {
	for _, w := range strings.Fields(c.Use)[1:] {
		if w == "--" {
			continue
		}
		if strings.HasPrefix(w, "-") || strings.HasPrefix(w, "[-") || strings.HasPrefix(w, "(") {
			break // the rest are flags
		}
		words = append(words, w)
	}
	return words
}

func neededArguments(c *cobra.Command) (names []string) {
	for _, w := range argumentWords(c) {
		if strings.HasPrefix(w, "[") && strings.HasSuffix(strings.TrimSuffix(w, "..."), "]") {
			continue
		}
		if i := strings.LastIndex(w, "]"); i >= 0 {
			w = w[i+1:] // as in [KEY=]VALUE...
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(w, "..."), "|")
		names = append(names, strings.ToLower(name))
	}
	return names
}

// mostArguments returns -1 for no limit.
func mostArguments(c *cobra.Command) int {
	words := argumentWords(c)
	for _, w := range words {
		if strings.Contains(w, "...") {
			return -1
		}
	}
	return len(words)
}
