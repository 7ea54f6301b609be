package scriptedmodel

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
)

// program is a checked script. It is immutable, so requests share it without a
// lock.
type program struct {
	pace      time.Duration
	rules     []rule
	templates map[string]*template.Template
}

type rule struct {
	Rule
	name    string
	matches *regexp.Regexp // nil: no such condition
	steps   []Step
}

// compile checks the script and returns all problems.
func compile(s Script) (*program, error) {
	p := &program{pace: s.Pace, templates: map[string]*template.Template{}}
	var problems []error
	for i, r := range s.Rules {
		c, err := p.compileRule(r, i)
		if err != nil {
			problems = append(problems, err)
		}
		p.rules = append(p.rules, c)
	}
	if s.Pace < 0 {
		problems = append(problems, errors.New("pace is negative"))
	}
	return p, errors.Join(problems...)
}

func (p *program) compileRule(r Rule, i int) (rule, error) {
	c := rule{Rule: r, name: r.Name, steps: r.Steps}
	if c.name == "" {
		c.name = fmt.Sprintf("#%d", i+1)
	}
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("rule %s: "+format, append([]any{c.name}, args...)...))
	}

	if r.When.Matches != "" {
		var err error
		if c.matches, err = regexp.Compile(r.When.Matches); err != nil {
			problem("matches: %w", err)
		}
	}
	if r.When.Turn < 0 {
		problem("turn counts from 1")
	}
	switch {
	case r.Reply != "" && len(r.Steps) > 0:
		problem("it has a reply and steps; a reply is a single step")
	case r.Reply != "":
		c.steps = []Step{{Say(r.Reply)}}
	case len(r.Steps) == 0:
		problem("it has neither steps nor a reply")
	}
	for n, step := range c.steps {
		for m, a := range step {
			if err := p.compileAction(a, step[:m]); err != nil {
				problem("step %d, action %d: %w", n+1, m+1, err)
			}
		}
		if len(step) == 0 {
			problem("step %d is empty", n+1)
		}
		if n < len(c.steps)-1 && !slices.ContainsFunc(step, Action.isTool) {
			problem("step %d asks for no tool, so the turn ends with it and step %d never comes", n+1, n+2)
		}
	}
	return c, errors.Join(problems...)
}

func (p *program) compileAction(a Action, before []Action) error {
	set := 0
	for _, is := range []bool{a.Say != nil, a.Think != nil, a.Shell != nil, a.Patch != "", a.Call != nil,
		a.Wait != nil, a.Pause != 0, a.Fail != nil, a.Usage != nil, a.Served != "", a.Limits != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("an action does one thing, this does %d", set)
	}
	var problems []error
	switch {
	case a.Shell != nil && strings.TrimSpace(a.Shell.Cmd) == "":
		problems = append(problems, errors.New("shell has no cmd"))
	case a.Call != nil && a.Call.Name == "":
		problems = append(problems, errors.New("call has no name"))
	case a.Call != nil && a.Call.Arguments != nil && a.Call.Input != "":
		problems = append(problems, errors.New("call has arguments and input; a function takes the one, a custom tool the other"))
	case a.Wait != nil && a.Wait.Gate == "":
		problems = append(problems, errors.New("wait names no gate"))
	case a.Wait != nil && a.Wait.After < 0, a.Pause < 0:
		problems = append(problems, errors.New("after and pause must not be negative"))
	case a.Fail != nil:
		if err := a.Fail.check(); err != nil {
			problems = append(problems, err)
		} else if a.Fail.beforeStream() && slices.ContainsFunc(before, Action.streams) {
			problems = append(problems, fmt.Errorf("fail: %s is the whole answer and cannot follow something said or asked", a.Fail.Kind))
		}
	}
	a.mapTexts(func(text string) string {
		if _, ok := p.templates[text]; ok || !strings.Contains(text, "{{") {
			return text
		}
		t, err := template.New("text").Funcs(functions).Parse(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("template: %w", err))
			return text
		}
		p.templates[text] = t
		return text
	})
	return errors.Join(problems...)
}

func (a Action) isTool() bool { return a.Shell != nil || a.Patch != "" || a.Call != nil }

// streams reports whether the action sends something within the response.
func (a Action) streams() bool { return a.isTool() || a.Say != nil || a.Think != nil }

// deltas returns the number of deltas after which the action happens; 0 means
// in place.
func (a Action) deltas() int {
	switch {
	case a.Wait != nil:
		return a.Wait.After
	case a.Fail != nil:
		return a.Fail.After
	}
	return 0
}

// mapTexts returns a copy of the action with f applied to every text that may
// be a template.
func (a Action) mapTexts(f func(string) string) Action {
	text := func(t *Text) *Text {
		if t == nil {
			return nil
		}
		return &Text{Text: f(t.Text), Pace: t.Pace}
	}
	a.Say, a.Think = text(a.Say), text(a.Think)
	a.Patch = f(a.Patch)
	if a.Shell != nil {
		c := *a.Shell
		c.Cmd, c.Justification, c.Workdir = f(c.Cmd), f(c.Justification), f(c.Workdir)
		a.Shell = &c
	}
	if a.Call != nil {
		c := *a.Call
		c.Input = f(c.Input)
		if c.Arguments != nil {
			c.Arguments = mapTexts(c.Arguments, f).(map[string]any)
		}
		a.Call = &c
	}
	if a.Wait != nil {
		a.Wait = &Gate{Gate: f(a.Wait.Gate), After: a.Wait.After}
	}
	if a.Fail != nil {
		c := *a.Fail
		c.Message = f(c.Message)
		a.Fail = &c
	}
	return a
}

func mapTexts(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = mapTexts(e, f)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = mapTexts(e, f)
		}
		return out
	}
	return v
}
