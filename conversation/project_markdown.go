package conversation

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

// Markdown returns a transcript for people. Hidden characters are escapes, so nothing in it
// can move a terminal's cursor or reverse the direction of text. Nothing ends a code block
// early.
func Markdown(title string, entries []protocol.Entry) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", line1(title))
	for _, e := range Tree(entries) {
		if e.Depth == 0 {
			markdownEntry(&b, e.Entry)
			continue
		}
		// Sub-agents are quoted, once for each level.
		var own bytes.Buffer
		if e.First {
			fmt.Fprintf(&own, "\n**%s**\n", line1(e.AgentName()))
		}
		markdownEntry(&own, e.Entry)
		quote := strings.Repeat("> ", e.Depth)
		b.WriteByte('\n')
		for line := range strings.SplitSeq(strings.Trim(own.String(), "\n"), "\n") {
			b.WriteString(strings.TrimRight(quote+line, " ") + "\n")
		}
	}
	return b.Bytes()
}

func markdownEntry(b *bytes.Buffer, e protocol.Entry) {
	switch e.Type {
	case protocol.EntryUser:
		fmt.Fprintf(b, "\n## %d. %s\n\n", e.Turn, e.At.UTC().Format("2006-01-02 15:04:05"))
		fmt.Fprintf(b, "> %s\n", strings.ReplaceAll(strings.TrimRight(escape.Text(e.Text), "\n")+unsure(e), "\n", "\n> "))
	case protocol.EntryAssistant:
		fmt.Fprintf(b, "\n%s\n", escape.Text(e.Text))
	case protocol.EntryCommand:
		fence(b, "sh", "$ "+orWord(e.Command, e.Text))
		if e.Command != "" {
			fence(b, "", e.Text)
		}
	case protocol.EntryFileChange:
		for _, c := range e.Changes {
			fmt.Fprintf(b, "\n%s `%s` %s\n", line1(c.Kind), line1(c.Path), line1(e.Status))
			fence(b, "diff", c.Diff)
		}
	case protocol.EntryPlan:
		fmt.Fprintf(b, "\n*plan: %s*\n\n", line1(e.Data["count"]))
		for _, s := range e.Plan {
			fmt.Fprintf(b, "- [%s] %s\n", planMark(s.Status), line1(s.Text))
		}
	default:
		what := string(e.Type)
		if e.Tool != "" {
			what += " " + e.Tool
		}
		fmt.Fprintf(b, "\n*%s: %s%s*\n", line1(what), escape.Text(e.Text), factsOf(e.Data))
	}
}

// planMark says in a list of tasks whether one is completed.
func planMark(status string) string {
	if status == "completed" {
		return "x"
	}
	return " "
}

func unsure(e protocol.Entry) string {
	if e.Data["delivery"] == string(protocol.Sent) {
		return " (whether it reached codex is not known)"
	}
	return ""
}

func fence(b *bytes.Buffer, lang, text string) {
	text = strings.TrimRight(escape.Text(text), "\n")
	if text == "" {
		return
	}
	mark := "```"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	fmt.Fprintf(b, "\n%s%s\n%s\n%s\n", mark, lang, text, mark)
}

func factsOf(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] != "" {
			out = append(out, line1(k+"="+m[k]))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}

func line1(s string) string { return strings.ReplaceAll(escape.Text(s), "\n", " ") }
