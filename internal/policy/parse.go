package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"cel.dev/cel-go/cel"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/internal/strictyaml"
)

const (
	maxFile  = 256 << 10
	maxRules = 200
	maxDepth = 100
	maxName  = 100
	maxWhy   = 1000
	maxWait  = 7 * 24 * time.Hour // for a limit's reset
)

// A BrokenError has every mistake of a file.
type BrokenError struct{ Problems []strictyaml.Problem }

func (e *BrokenError) Error() string { return strictyaml.Tell("policy", e.Problems) }

type file struct {
	Rules     []Rule        `yaml:"rules"`
	Default   Outcome       `yaml:"default"`
	Limits    Limits        `yaml:"limits"`
	Expiry    time.Duration `yaml:"expiry"`
	Approvers string        `yaml:"approvers"`
	Required  int           `yaml:"required"`
	Requester bool          `yaml:"requester_may_decide"`
	Tokens    []string      `yaml:"high_risk_tokens"`
	Wait      Wait          `yaml:"wait"`
}

// Parse reads a policy file. The error is a *[BrokenError]. For a file with a mistake see
// [Refusing].
func Parse(data []byte) (*Policy, error) {
	if err := readable(data); err != nil {
		return nil, &BrokenError{[]strictyaml.Problem{{Text: err.Error()}}}
	}
	var f file
	y := strictyaml.Read(data, &f)
	c := checker{y: y, p: &Policy{Digest: digest(data), Rules: f.Rules, Default: f.Default, Limits: f.Limits, Expiry: f.Expiry,
		Approvers: f.Approvers, Required: f.Required, RequesterMayDecide: f.Requester, HighRiskTokens: f.Tokens, Wait: f.Wait}}
	if len(y.Lines) == 0 && len(y.Problems) == 0 {
		y.Add("", "the file says nothing: a policy has rules, or at least a default")
	}
	c.rules()
	c.rest()
	c.approvers()
	if len(y.Problems) > 0 {
		strictyaml.Sort(y.Problems)
		return nil, &BrokenError{y.Problems}
	}
	return c.p, nil
}

func readable(data []byte) error {
	if len(data) > maxFile {
		return fmt.Errorf("a policy of %d bytes is too large: %d at most", len(data), maxFile)
	}
	return strictyaml.Shallow(data, maxDepth, false)
}

// A checker finds semantic mistakes.
type checker struct {
	y *strictyaml.File
	p *Policy
}

func (c *checker) written(key string) bool { _, ok := c.y.Lines[key]; return ok }

func (c *checker) rules() {
	if c.written("rules") && len(c.p.Rules) == 0 {
		c.y.Add("rules", "there are none")
	}
	if len(c.p.Rules) > maxRules {
		c.y.Add("rules", "%d rules are too many: %d at most", len(c.p.Rules), maxRules)
		return
	}
	language, err := language()
	if err != nil {
		c.y.Add("rules", "cannot be read by this program: %v", err)
		return
	}
	seen := map[string]int{}
	for i, r := range c.p.Rules {
		key := fmt.Sprintf("rules[%d]", i)
		if err := checkName(r.Name); err != nil {
			c.y.Add(key+".name", "%v", err)
		} else if first, ok := seen[r.Name]; ok {
			c.y.Add(key+".name", "rules[%d] has this name already", first)
		} else {
			seen[r.Name] = i
		}
		c.outcome(key+".outcome", r.Outcome, Outcomes...)
		switch {
		case len(r.Reason) > maxWhy:
			c.y.Add(key+".reason", "it is too long: %d bytes at most", maxWhy)
		case r.Outcome == Decline && strings.TrimSpace(r.Reason) == "":
			c.y.Add(key, "rule %q declines and gives no reason: give one, which the transcript then shows", r.Name)
		}
		switch {
		case r.Risk == "":
		case r.Risk != RiskHigh:
			c.y.Add(key+".risk", "%.40q is not known: leave it out, or say %s", r.Risk, RiskHigh)
		case r.Outcome != Ask:
			c.y.Add(key+".risk", "rule %q is not of outcome ask: a risk says how a person accepts", r.Name)
		}
		program, err := compile(language, r, func(warning string) { c.warn(key+".when", r, warning) })
		if err != nil {
			c.y.Add(key+".when", "rule %q: %v", r.Name, err)
		}
		c.p.compiled = append(c.p.compiled, program)
	}
	for i, r := range c.p.Rules[:max(0, len(c.p.Rules)-1)] {
		if strings.TrimSpace(r.When) == "true" {
			c.warn(fmt.Sprintf("rules[%d].when", i), r, "it always holds, so no rule after it is reached")
			break
		}
	}
}

func (c *checker) warn(key string, r Rule, text string) {
	c.p.Warnings = append(c.p.Warnings, fmt.Sprintf("line %d: rule %q: %s", strictyaml.LineOf(c.y.Lines, key), r.Name, text))
}

// checkName refuses names reserved for Fairlead: "default", and those with a colon.
func checkName(name string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == ':' }
	if name == "" || len(name) > maxName || name == "default" || strings.ContainsFunc(name, odd) || strings.TrimSpace(name) != name {
		return fmt.Errorf("the name of a rule must be one printable line of 1 to %d bytes, without a colon or outer spaces, and not \"default\"", maxName)
	}
	return nil
}

func (c *checker) outcome(key string, o Outcome, allowed ...Outcome) {
	if !slices.Contains(allowed, o) {
		var names []string
		for _, a := range allowed {
			names = append(names, string(a))
		}
		c.y.Add(key, "%.40q is not one of %s", o, strings.Join(names, ", "))
	}
}

func (c *checker) rest() {
	p := c.p
	if p.Default == "" && !c.written("default") {
		p.Default = Ask
	}
	c.outcome("default", p.Default, Ask, Decline)
	for key, n := range map[string]int{"limits.approvals_per_turn": p.Limits.ApprovalsPerTurn, "limits.approvals_per_minute": p.Limits.ApprovalsPerMinute} {
		if c.written(key) && n < 1 {
			c.y.Add(key, "must be at least 1 (leave it out for no limit)")
		}
	}
	limited := p.Limits.ApprovalsPerTurn > 0 || p.Limits.ApprovalsPerMinute > 0
	if p.Limits.Beyond == "" && !c.written("limits.beyond") && limited {
		p.Limits.Beyond = Ask
	}
	if c.written("limits.beyond") {
		c.outcome("limits.beyond", p.Limits.Beyond, Ask, Decline)
	}
	if c.written("limits") && !c.written("limits.approvals_per_turn") && !c.written("limits.approvals_per_minute") {
		c.y.Add("limits", "no limit is given: set approvals_per_turn or approvals_per_minute")
	}
	if c.written("high_risk_tokens") {
		c.tokens()
	}
	if c.written("expiry") && p.Expiry < time.Second {
		c.y.Add("expiry", "must be a time such as 30m, at least 1s")
	}
	if c.written("wait.at_most") && p.Wait.AtMost < time.Second {
		c.y.Add("wait.at_most", "must be a time such as 6h, at least 1s")
	}
	if p.Wait.AtMost > maxWait {
		c.y.Add("wait.at_most", "must be at most 168h, a week")
	}
	if p.Wait.AtMost > 0 && !p.Wait.Quota && !p.Wait.RateLimit {
		c.y.Add("wait.at_most", "only allowed with quota: true or rate_limit: true")
	}
}

// maxTokens bounds the API tokens of a policy.
const maxTokens = 50

func (c *checker) tokens() {
	p := c.p
	if !p.MarksHighRisk() {
		c.y.Add("high_risk_tokens", "no rule has risk: %s, so there is nothing that they could accept", RiskHigh)
	}
	if len(p.HighRiskTokens) == 0 || len(p.HighRiskTokens) > maxTokens {
		c.y.Add("high_risk_tokens", "it names %d API tokens: 1 to %d are allowed", len(p.HighRiskTokens), maxTokens)
	}
	for i, name := range p.HighRiskTokens {
		if !protocol.NamePattern.MatchString(name) {
			c.y.Add(fmt.Sprintf("high_risk_tokens[%d]", i), "%.70q is not the name of an API token, as in `ctl token list`", name)
		}
	}
}

func (c *checker) approvers() {
	p := c.p
	if !c.written("approvers") {
		for _, key := range []string{"required", "requester_may_decide"} {
			if c.written(key) {
				c.y.Add(key, "only allowed with approvers (in the format of allowed_signers), because it is about signed decisions")
			}
		}
		return
	}
	allowed, err := sshsig.ParseAllowed([]byte(p.Approvers))
	var at *sshsig.LineError
	switch {
	case errors.As(err, &at):
		c.y.Add("approvers", "line %d of them: %v", at.Line, at.Err)
		return
	case err != nil:
		c.y.Add("approvers", "%v", err)
		return
	}
	names := allowed.Principals()
	if len(names) == 0 && !allowed.Authority() {
		c.y.Add("approvers", "no approver is named: nobody could decide")
		return
	}
	if p.Required == 0 && !c.written("required") {
		p.Required = 1
	}
	switch {
	case p.Required < 1:
		c.y.Add("required", "it is how many must agree: at least 1")
	case p.Required > len(names) && !allowed.Authority():
		c.y.Add("required", "%d must agree and approvers names %d: nothing could ever be decided", p.Required, len(names))
	case p.Required == len(names) && !allowed.Authority() && !p.RequesterMayDecide:
		p.Warnings = append(p.Warnings, fmt.Sprintf("line %d: required: all %d approvers must agree and the requester may not decide: nobody can decide what one of them asks for",
			strictyaml.LineOf(c.y.Lines, "approvers"), len(names)))
	}
	p.allowed = allowed
}

type compiled struct {
	cel.Program
	looks  looks // facts that it may look at
	surely looks // facts that it must have looked at if it holds
}

func compile(language *cel.Env, r Rule, warn func(string)) (compiled, error) {
	if strings.TrimSpace(r.When) == "" {
		return compiled{}, errors.New("when is missing: a condition in CEL, or true")
	}
	ast, issues := language.Compile(r.When)
	if issues.Err() != nil {
		return compiled{}, mistakes(issues)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return compiled{}, fmt.Errorf("when is of type %s and must be a condition", ast.OutputType())
	}
	seen, err := look(ast.NativeRep(), r, warn)
	if err != nil {
		return compiled{}, err
	}
	program, err := language.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostTracking(costs{}), cel.CostLimit(maxRuleCost))
	if err != nil {
		return compiled{}, errors.New(oneLine(err.Error()))
	}
	return compiled{program, seen, surely(ast.NativeRep().Expr())}, nil
}

// mistakes returns CEL's first 3 mistakes.
func mistakes(issues *cel.Issues) error {
	var all []string
	for _, e := range issues.Errors() {
		if len(all) == 3 {
			break
		}
		text, _, _ := strings.Cut(strings.ReplaceAll(oneLine(e.Message), " (in container '')", ""), " expecting {")
		if e.Location.Line() > 0 {
			text += fmt.Sprintf(" (at %d:%d)", e.Location.Line(), e.Location.Column()+1)
		}
		all = append(all, text)
	}
	return errors.New(strings.Join(all, "; "))
}
