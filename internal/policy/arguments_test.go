package policy

import "testing"

// The arguments of an MCP tool are a separate fact. A rule that looks at them accepts no
// request that has none, and a call that hides them does not pass such a rule.
func TestArgumentsOfAToolAreJudged(t *testing.T) {
	p, err := Parse([]byte(`
rules:
  - name: not the big table
    when: tool == "book" && arguments.contains("\"table\":1,")
    outcome: decline
    reason: it is taken
  - name: the small one
    when: server == "desk" && tool == "book" && arguments == '{"for":2,"table":3}'
    outcome: accept
  - name: no secrets
    when: server == "desk" && !arguments.contains("secret")
    outcome: accept
`))
	if err != nil {
		t.Fatal(err)
	}
	call := func(arguments string) Request {
		return Request{Kind: Elicitation, Server: "desk", Tool: "book", Arguments: arguments, Host: Host{Name: "box"}}
	}
	for name, c := range map[string]struct {
		r    Request
		want Outcome
		rule string
	}{
		"the whole":     {call(`{"for":2,"table":3}`), Accept, "the small one"},
		"declined":      {call(`{"for":2,"table":1,"x":0}`), Decline, "not the big table"},
		"others":        {call(`{"for":3,"table":3}`), Accept, "no secrets"},
		"not said":      {call(""), Ask, RuleUnknown},
		"of no tool":    {Request{Kind: Elicitation, Server: "desk"}, Ask, RulePerson},
		"of a command":  {Request{Kind: Command, Server: "desk", Command: "ls"}, Ask, RuleUnknown},
		"of another":    {Request{Kind: Command, Command: "ls"}, Ask, RuleDefault},
		"too much":      {call(string(make([]byte, maxOne+1))), Decline, RuleRequest},
		"no kind of it": {Request{Kind: "tool", Tool: "book"}, Decline, RuleRequest},
	} {
		if v := p.Decide(c.r); v.Outcome != c.want || v.Rule != c.rule {
			t.Errorf("%s: %+v, want %s by %s", name, v, c.want, c.rule)
		}
	}
	if len(p.Warnings) != 1 {
		t.Errorf("warned of %q", p.Warnings)
	}
}
