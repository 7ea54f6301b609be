package policy

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// A Verdict is a decision and the rule that made it. Names with a colon are Fairlead's own.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	Rule    string  `json:"rule"`
	Reason  string  `json:"reason,omitempty"`
	Policy  string  `json:"policy"` // digest of the file
	// Risk is RiskHigh if a person is asked, and the rule says so.
	Risk string `json:"risk,omitempty"`
}

// Rules that every policy has.
const (
	RuleDefault   = "default"
	RuleBroken    = "builtin:broken"  // the policy cannot be used
	RuleRequest   = "builtin:request" // the request cannot be judged
	RuleUnknown   = "builtin:unknown" // an accept has unknown effects, or effects that the rule did not look at
	RulePerson    = "builtin:person"  // only a person can answer it
	RulePlace     = "builtin:place"   // a rule accepts by name, but not by where the paths lead on the host
	RulePerTurn   = "limit:approvals_per_turn"
	RulePerMinute = "limit:approvals_per_minute"
)

// Decide decides a request. The verdict depends only on the policy file and the request,
// and the work is bounded. A rule that breaks declines.
func (p *Policy) Decide(r Request) Verdict {
	v, _, _ := p.decide(r)
	return v
}

// An Explanation is a verdict with the facts that the rules saw.
type Explanation struct {
	Verdict
	Words []string `json:"words"`
	Plain bool     `json:"plain"`
	Paths []string `json:"paths"`
	Cost  uint64   `json:"cost"` // of evaluated rules
	Limit uint64   `json:"cost_limit"`
}

// Explain is Decide with the facts and the cost, for authors of policies.
func (p *Policy) Explain(r Request) Explanation {
	e := Explanation{Limit: maxCost, Words: []string{}, Paths: []string{}}
	var f *facts
	if e.Verdict, e.Cost, f = p.decide(r); f == nil {
		return e
	}
	e.Plain = f.plain
	e.Words, e.Paths = append(e.Words, f.words...), append(e.Paths, f.Paths...)
	return e
}

// decide returns no facts if the request was not judged.
func (p *Policy) decide(r Request) (Verdict, uint64, *facts) {
	if why := p.Broken(); why != "" {
		v := Verdict{Outcome: Decline, Rule: RuleBroken, Reason: "the policy cannot be used: " + why}
		if p != nil {
			v.Policy = p.Digest
		}
		return v, 0, nil
	}
	if err := r.check(); err != nil {
		return Verdict{Outcome: Decline, Rule: RuleRequest, Reason: "this request cannot be judged: " + err.Error(), Policy: p.Digest}, 0, nil
	}
	f := factsOf(r)
	v, cost := p.byRules(&f)
	accepted := v.Outcome.accepts()
	v = p.limited(v, r.Counts)
	if accepted && v.Outcome == Ask {
		v.Risk = p.highest()
	}
	v.Policy = p.Digest
	return v, cost, &f
}

// byRules returns the verdict of the first rule that holds or breaks.
func (p *Policy) byRules(f *facts) (Verdict, uint64) {
	spent, unsure, risk := uint64(0), "", ""
	for i, rule := range p.Rules {
		out, details, err := p.compiled[i].Eval(f)
		if details != nil && details.ActualCost() != nil {
			spent += *details.ActualCost()
		}
		if err == nil && spent > maxCost {
			err = fmt.Errorf("the rules up to this one take too long: cost %d, limit %d", spent, uint64(maxCost))
		}
		if err != nil {
			return Verdict{Outcome: Decline, Rule: rule.Name, Reason: fmt.Sprintf("rule %q failed: %.200s", rule.Name, oneLine(err.Error()))}, spent
		}
		if out == types.True {
			v := guarded(Verdict{Outcome: rule.Outcome, Rule: rule.Name, Reason: rule.Reason, Risk: rule.Risk}, f, p.compiled[i])
			if v.Outcome == Ask && risk != "" {
				v.Risk = risk
			}
			if v.Outcome == Ask && rule.Outcome.accepts() {
				v.Risk = p.highest() // no later rule was asked
			}
			if v.Outcome.accepts() && unsure != "" {
				v = asked(v, RuleUnknown, unsure)
				v.Risk = risk
			}
			return v, spent
		}
		if rule.Risk != "" && f.unsaid(p.compiled[i].looks) != "" {
			risk = rule.Risk // the rule might hold
		}
		if why := f.unsaid(p.compiled[i].looks); why != "" && unsure == "" && !rule.Outcome.accepts() {
			unsure = fmt.Sprintf("the earlier rule %q might hold: %s", rule.Name, why)
		}
	}
	v := Verdict{Outcome: p.Default, Rule: RuleDefault}
	if v.Outcome == Ask {
		v.Risk = risk
	}
	if v.Outcome == Decline {
		v.Reason = "no rule of the policy allows it"
	}
	return v, spent
}

// highest returns the highest risk that a rule marks. A request has it if an accept became a
// question, because the rules after the accept were not asked, and the agent chooses what the
// request has beyond what the rule looked at.
func (p *Policy) highest() string {
	if p.MarksHighRisk() {
		return RiskHigh
	}
	return ""
}

// guarded turns an accept into a question to people if no policy may accept the request, if
// the request lacks a fact that the rule looked at, or if the rule did not look at
// something that the request would grant.
func guarded(v Verdict, f *facts, c compiled) Verdict {
	if !v.Outcome.accepts() {
		return v
	}
	if rule, why := f.unanswerable(); rule != "" {
		return asked(v, rule, why)
	}
	for _, why := range []string{f.missing(c.looks), f.empty(c.looks), f.unseen(c.surely)} {
		if why != "" {
			return asked(v, RuleUnknown, why)
		}
	}
	return v
}

func asked(v Verdict, rule, why string) Verdict {
	return Verdict{Outcome: Ask, Rule: rule, Reason: fmt.Sprintf("rule %q would accept, but %s", v.Rule, why)}
}

// unanswerable returns the rule and reason if no policy can accept.
func (f *facts) unanswerable() (rule, why string) {
	switch {
	case f.Kind == UserInput:
		return RulePerson, "a question needs an answer"
	case f.Kind == Elicitation && f.Tool == "":
		return RulePerson, "an MCP server asks for more than leave to run a tool"
	case f.Action == "humanCommand":
		return RulePerson, "codex wants a person for it"
	case f.Kind == FileChange && (len(f.Paths) == 0 || f.Paths[0] == ""):
		return RuleUnknown, "codex did not say which files"
	case f.Kind == Command && f.Command == "" && f.NetworkHost == "":
		return RuleUnknown, "codex did not say which command"
	case f.Kind == Permissions && f.wants.nothing():
		return RuleUnknown, "codex did not say which permissions"
	}
	return "", ""
}

// limited applies the limits.
func (p *Policy) limited(v Verdict, counts Counts) Verdict {
	over := func(limit, so int, rule, span string) (Verdict, bool) {
		if limit == 0 || so < limit || v.Outcome == Decline || v.Outcome == Ask && p.Limits.Beyond == Ask {
			return v, false
		}
		return Verdict{Outcome: p.Limits.Beyond, Rule: rule,
			Reason: fmt.Sprintf("rule %q would %s, but this is approval %d of the %s and the limit is %d", v.Rule, v.Outcome, so+1, span, limit)}, true
	}
	if w, ok := over(p.Limits.ApprovalsPerTurn, counts.InTurn, RulePerTurn, "turn"); ok {
		return w
	}
	w, _ := over(p.Limits.ApprovalsPerMinute, counts.InMinute, RulePerMinute, "minute")
	return w
}

var _ cel.Activation = (*facts)(nil)
