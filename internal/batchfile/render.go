package batchfile

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// template parses a prompt, once per place in the file.
func (r *reader) template(k key, v node) *template.Template {
	if t, known := r.templates[v.at]; known {
		return t
	}
	r.templates[v.at] = nil
	if v.kind != scalar {
		r.add(v.at, "%s is %s: it takes a text", k.name, v.what())
		return nil
	}
	t, err := template.New("prompt").Option("missingkey=error").Parse(v.text)
	if err != nil {
		at, why := v.at, err.Error()
		if m := parseError.FindStringSubmatch(why); m != nil {
			line, _ := strconv.Atoi(m[1])
			if why = m[2]; line > 1 || at.column == 0 {
				at = place{at.line + line - 1, 0}
			}
		}
		r.add(at, "%s: %s", k.name, why)
		return nil
	}
	r.templates[v.at] = t
	return t
}

var (
	parseError = regexp.MustCompile(`^template: prompt:(\d+)(?::\d+)?: (?s)(.*)$`)
	execError  = regexp.MustCompile(`^template: prompt:\d+:\d+: executing "[^"]*" at <([^>]*)>: (?s)(.*)$`)
	noEntry    = regexp.MustCompile(`map has no entry for key "([^"]*)"`)
)

func whyNot(err error, vars []string) string {
	if errors.Is(err, errTooLong) {
		return errTooLong.Error()
	}
	text := err.Error()
	if m := noEntry.FindStringSubmatch(text); m != nil {
		return "its prompt wants the variable " + cut(m[1]) + ", and it has only " + cut(strings.Join(vars, ", "))
	}
	if m := execError.FindStringSubmatch(text); m != nil {
		return "its prompt, at {{" + cut(m[1]) + "}}: " + cut(m[2])
	}
	return "its prompt: " + cut(text)
}

var errTooLong = errors.New("its prompt is longer than codex takes")

type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > 4*MaxPrompt {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}
