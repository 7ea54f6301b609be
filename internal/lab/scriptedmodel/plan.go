package scriptedmodel

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// plan is the answer to a request.
type plan struct {
	rule    string
	step    int
	actions Step
	calls   map[int][]map[string]any // by the index of their first action
	poll    []map[string]any         // instead of actions
	dialect dialect
	view    View
	size    int // of the request, for the estimate of tokens
	pace    time.Duration
}

// decide finds the rule and step for a request and renders the templates. An
// error is a surprise.
func (p *program) decide(r *request, conversation, response string, size int) (plan, error) {
	h := readHistory(r.sinceUser())
	out := plan{step: h.step, dialect: r.dialect(), size: size, pace: p.pace, view: View{Model: r.Model, Conversation: conversation}}
	if len(h.running) > 0 {
		out.poll = h.pollItems(response)
		out.step--
		return out, nil
	}
	v := View{
		Conversation: conversation,
		Model:        r.Model,
		Cwd:          r.cwd(),
		UserMessages: r.userMessages(),
		Results:      h.results,
	}
	v.Turn = len(v.UserMessages)
	if v.Turn > 0 {
		v.FirstUser, v.LastUser = v.UserMessages[0], v.UserMessages[v.Turn-1]
	}
	if n := len(h.results); n > 0 {
		v.LastToolOutput = h.results[n-1].Output
	}

	i := slices.IndexFunc(p.rules, func(c rule) bool { return c.holds(v) })
	if i < 0 {
		return out, fmt.Errorf("no rule matches turn %d of model %s: %q", v.Turn, v.Model, excerpt(v.LastUser))
	}
	c := p.rules[i]
	out.rule = c.name
	if h.step >= len(c.steps) {
		return out, fmt.Errorf("rule %s has %d steps and was asked for step %d: the last one should ask for no tool",
			c.name, len(c.steps), h.step+1)
	}
	if c.matches != nil {
		v.Match = c.matches.FindStringSubmatch(v.LastUser)
	}
	out.view = v
	actions, err := p.render(c.steps[h.step], v)
	if err != nil {
		return out, fmt.Errorf("rule %s, step %d: %w", c.name, h.step+1, err)
	}
	out.actions = actions
	if err := out.makeCalls(response); err != nil {
		return out, fmt.Errorf("rule %s, step %d: %w", c.name, h.step+1, err)
	}
	return out, nil
}

func (c rule) holds(v View) bool {
	w := c.When
	for _, text := range w.Contains {
		if !strings.Contains(v.LastUser, text) {
			return false
		}
	}
	return (c.matches == nil || c.matches.MatchString(v.LastUser)) &&
		(w.Exact == "" || w.Exact == v.LastUser) &&
		(w.Turn == 0 || w.Turn == v.Turn) &&
		(w.Model == "" || w.Model == v.Model)
}

// makeCalls turns the step's tool actions into items of the response. The items
// of consecutive actions are stored at the index of the first.
func (p *plan) makeCalls(response string) error {
	p.calls = map[int][]map[string]any{}
	made := 0
	for i := 0; i < len(p.actions); i++ {
		n := i
		for n < len(p.actions) && p.actions[n].isTool() {
			n++
		}
		if n == i {
			continue
		}
		items, err := p.dialect.callItems(p.actions[i:n], p.step, response, made)
		if err != nil {
			return err
		}
		p.calls[i] = items
		made += len(items)
		i = n
	}
	return nil
}

// estimate assumes four characters a token.
func (p plan) estimate(s *stream) *Usage { return &Usage{Input: p.size/4 + 1, Output: s.sent/4 + 1} }

func excerpt(text string) string {
	const most = 200
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
