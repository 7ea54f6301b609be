package hostexec

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// bootstrap is what sshd always gives the user's login shell. It means the same to sh,
// bash, zsh, csh and fish, and reveals nothing in a process listing. `read` takes exactly
// one line; a shell that reads its script from standard input would consume the command's
// input, which follows that line.
//
// Each line begins by printing a random mark on both outputs; output before the mark comes
// from rc files. Every line is wrapped in braces, so that a truncated line is a syntax
// error and not half a command.
const bootstrap = `exec /bin/sh -c 'IFS= read -r x; eval "$x"'`

const bootstrapScript = `IFS= read -r x; eval "$x"`

// streamLine returns the line that runs c in the shell itself.
func streamLine(mark string, c Command) string {
	return script.NewlineVar + `{ ` + sayBoth(mark+" b") + body(c) + "; }\n"
}

// loopLine makes a shell serve request lines until its input ends.
const loopLine = script.NewlineVar + `while IFS= read -r x; do eval "$x"; done` + "\n"

// requestLine returns the line that runs c in a subshell and prints its status after a mark
// on both outputs. So the end is seen even if a child keeps the outputs open.
//
// The input is part of the line, in base64, because not every host has a program that reads
// exactly n bytes. echo is a builtin everywhere; an external printf would show the input in
// its argv. If base64 does not work, the status is "n" and nothing was run.
func requestLine(mark string, c Command) string {
	sub := "(" + body(c) + ")"
	end := `;_r=$?;` + sayBoth(mark+" e $_r")
	open := script.NewlineVar + `{ ` + sayBoth(mark+" b")
	if len(c.Stdin) == 0 {
		return open + sub + ` </dev/null` + end + "}\n"
	}
	return open +
		`case $_b in "") case $(echo aGk= | base64 -d 2>/dev/null) in hi) _b=y;; *) _b=n;; esac;; esac;` +
		`case $_b in y) echo ` + base64.StdEncoding.EncodeToString(c.Stdin) +
		` 2>/dev/null | base64 -d 2>/dev/null | ` + sub + `;_r=$?;; *) _r=n;; esac;` +
		sayBoth(mark+" e $_r") + "}\n"
}

// onceLine is requestLine for a shell that serves only this request. The input comes from
// the channel.
func onceLine(mark string, c Command) string {
	return script.NewlineVar + `{ ` + sayBoth(mark+" b") + "(" + body(c) + `);_r=$?;` + sayBoth(mark+" e $_r") + "}\n"
}

// sayBoth prints words as a line on both outputs, in one write each.
func sayBoth(words string) string {
	return `echo "${_n}` + words + `";echo "${_n}` + words + `" >&2;`
}

func body(c Command) string {
	var b strings.Builder
	b.WriteString("unset x;") // x holds this line
	if c.Fence != nil {
		prologue := fencePrologue(*c.Fence)
		if c.FenceAtStart {
			prologue += "\n" + script.FenceEnd
		}
		b.WriteString("eval " + script.Quote(prologue) + ";")
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		b.WriteString("export " + k + "=" + script.Quote(c.Env[k]) + ";")
	}
	b.WriteString("set --")
	for _, a := range c.Args {
		b.WriteString(" " + script.Quote(a))
	}
	text := "eval " + script.Quote(c.Script)
	if c.Fence == nil || c.FenceAtStart {
		b.WriteString(";" + text)
	} else {
		// The subshell ensures that the lock is released however the script ends.
		b.WriteString(";(" + text + ");_r=$?;" + script.FenceEnd + ";exit $_r")
	}
	return b.String()
}
