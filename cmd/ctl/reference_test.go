package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

var update = flag.Bool("update", false, "write docs/reference/ctl.md anew")

// The page docs/reference/ctl.md matches the help texts of the commands.
func TestReferenceIsCurrent(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "reference", "ctl.md")
	var want bytes.Buffer
	writeReference(&want, newRoot(&core.App{}))
	if *update {
		if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not current at %s: run go test ./cmd/ctl -run TestReferenceIsCurrent -update", page, firstDifference(string(got), want.String()))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("line %d: one of the two ends", min(len(g), len(w)))
}

// writeReference writes the page: the flags of all commands, a list of the commands, and a
// section for each.
func writeReference(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "# Commands of ctl\n\nMade from the commands themselves by `go test ./cmd/ctl -run TestReferenceIsCurrent -update`.\n")
	fmt.Fprintf(w, "See also [exit codes](exit-codes.md).\n\nFlags of every command:\n\n")
	writeFlags(w, root.PersistentFlags())
	all := leaves(root)
	fmt.Fprint(w, "\n| command | what it does |\n| --- | --- |\n")
	for _, c := range all {
		anchor := strings.ReplaceAll(c.CommandPath(), " ", "-")
		fmt.Fprintf(w, "| [%s](#%s) | %s |\n", c.CommandPath(), anchor, tableCell(c.Short))
	}
	for _, c := range all {
		fmt.Fprintf(w, "\n## %s\n\n", c.CommandPath())
		text := c.UseLine() + "\n"
		if c.Long != "" {
			text += "\n" + c.Long + "\n"
		} else {
			text += "\n" + c.Short + "\n"
		}
		if c.HasExample() {
			text += "\nExamples:\n" + strings.TrimRight(c.Example, "\n") + "\n"
		}
		fmt.Fprintf(w, "```text\n%s\n```\n", strings.TrimSpace(text))
		if flags := c.NonInheritedFlags(); flags.HasAvailableFlags() {
			fmt.Fprintln(w)
			writeFlags(w, flags)
		}
	}
}

// writeFlags writes a table of flags, without --help.
func writeFlags(w io.Writer, flags *pflag.FlagSet) {
	fmt.Fprint(w, "| flag | what it does | default |\n| --- | --- | --- |\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := strings.TrimSpace("--" + f.Name + " " + value)
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		def := f.DefValue
		if def == "[]" || def == "false" {
			def = ""
		}
		row := fmt.Sprintf("| `%s` | %s | %s |", tableCell(name), tableCell(usage), tableCell(def))
		fmt.Fprintln(w, strings.TrimSpace(row))
	})
}

// tableCell escapes text so that it stays in its table cell and is not read as HTML.
func tableCell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

// leaves returns the commands that have no subcommands, in the order of --help.
func leaves(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		switch {
		case sub.Hidden:
		case sub.HasSubCommands():
			all = append(all, leaves(sub)...)
		default:
			all = append(all, sub)
		}
	}
	return all
}
