package scriptedmodel

import (
	"fmt"
	"strings"
	"text/template"
)

// View is what templates see of a conversation.
type View struct {
	Conversation string // the thread's id
	Model        string
	Cwd          string // of the thread, as codex told the model; may be empty
	UserMessages []string
	LastUser     string
	FirstUser    string
	Turn         int // number of user messages so far
	// Match holds what the rule's regular expression matched in LastUser: the
	// whole at 0, then its groups.
	Match []string
	// Results holds the outputs of the tools called since LastUser.
	Results []Result
	// LastToolOutput is the output of the last result.
	LastToolOutput string
}

// Result is the output of one tool call.
type Result struct {
	// Output is what a command printed, or otherwise codex's whole answer, such
	// as the text of a refusal.
	Output string
	// ExitCode is the command's, or -1 if there is none.
	ExitCode int
}

var functions = template.FuncMap{
	"sh":     func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"trim":   strings.TrimSpace,
	"join":   strings.Join,
	"repeat": strings.Repeat,
}

func (p *program) render(step Step, v View) (Step, error) {
	out := make(Step, len(step))
	var failed error
	for i, a := range step {
		out[i] = a.mapTexts(func(text string) string {
			t, ok := p.templates[text]
			if !ok {
				return text
			}
			var b strings.Builder
			if err := t.Execute(&b, v); err != nil && failed == nil {
				failed = fmt.Errorf("action %d: %w", i+1, err)
			}
			return b.String()
		})
	}
	return out, failed
}
