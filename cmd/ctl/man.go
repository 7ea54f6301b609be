package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// manCommand returns the hidden command that writes manual pages, for releases.
func manCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "write a manual page for each command", Hidden: true, Args: cobra.ExactArgs(1),
		Example: "  ctl man ./man1",
		RunE: func(c *cobra.Command, args []string) error {
			pages := manPages(c.Root(), core.Version())
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return core.Failed("write manual pages: %v", err)
			}
			for name, page := range pages {
				if err := os.WriteFile(filepath.Join(args[0], name), page, 0o644); err != nil {
					return core.Failed("write manual pages: %v", err)
				}
			}
			a.Note("%s in %s", core.CountOf(len(pages), "manual page"), args[0])
			return nil
		},
	}
}

// manPages returns the pages of a command and of those below it, by file name.
//
// Help texts are plain text with tables of their own. The generator that comes with cobra
// reads them as Markdown, which joins lines and drops what looks like HTML, so it is not used.
func manPages(c *cobra.Command, version string) map[string][]byte {
	pages := map[string][]byte{}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		pages[manName(c)+".1"] = manPage(c, version)
		for _, child := range c.Commands() {
			add(child)
		}
	}
	add(c)
	return pages
}

// manName is the name of a command's page, such as ctl-session-start.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func manPage(c *cobra.Command, version string) []byte {
	var b bytes.Buffer
	inherited := c.InheritedFlags() // the use line says that there are flags once they are known
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s Fairlead\n", roffArg(strings.ToUpper(manName(c))), roffArg("Fairlead "+version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n%s\n", roff(c.UseLine()))
	if c.Long != "" {
		asItIs(&b, "DESCRIPTION", c.Long)
	}
	if c.HasExample() {
		asItIs(&b, "EXAMPLES", strings.TrimRight(c.Example, "\n"))
	}
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "OPTIONS OF EVERY COMMAND", inherited)
	var related []string
	if c.HasParent() {
		related = append(related, manName(c.Parent()))
	}
	for _, child := range c.Commands() {
		if !child.Hidden {
			related = append(related, manName(child))
		}
	}
	if len(related) > 0 {
		fmt.Fprintln(&b, ".SH SEE ALSO")
		for i, name := range related {
			comma := ","
			if i == len(related)-1 {
				comma = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), comma)
		}
	}
	return b.Bytes()
}

// asItIs writes a section whose lines stay as they are.
func asItIs(b *bytes.Buffer, title, text string) {
	fmt.Fprintf(b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
}

func manFlags(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	begun := false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if !begun {
			fmt.Fprintf(b, ".SH %s\n", title)
			begun = true
		}
		value, usage := pflag.UnquoteUsage(f)
		name := strings.TrimSpace("--" + f.Name + " " + value)
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		switch f.DefValue {
		case "", "[]", "false", "0s":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", roff(name), roff(usage))
	})
}

// roff returns text that a formatter of manual pages prints as it is.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line // otherwise it is a request
		}
	}
	return strings.Join(lines, "\n")
}

// roffArg returns text as one argument of a macro.
func roffArg(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `""`) + `"` }
