package policy

import (
	"strings"
	"testing"
)

func TestARuleMarksWhatItAsksAsHighRisk(t *testing.T) {
	p := mustParse(t, `
rules:
  - {name: production, when: 'host.labels.get("env") == "prod"', outcome: ask, risk: high}
  - {name: here, when: 'paths.under("/srv")', outcome: ask, risk: high}
  - {name: look, when: 'words == ["ls"]', outcome: accept}
  - {name: other, when: 'words == ["make"]', outcome: ask}
high_risk_tokens: [deployer]
`)
	if !p.MarksHighRisk() || len(p.HighRiskTokens) != 1 {
		t.Errorf("%+v", p)
	}
	prod, box := Host{Name: "web-1", Labels: map[string]string{"env": "prod"}}, Host{Name: "box", Labels: map[string]string{}}
	for what, c := range map[string]struct {
		r    Request
		want string
	}{
		"a rule of high risk":      {Request{Kind: Command, Command: "make", CWD: "/w", Work: "/w", Host: prod}, RiskHigh},
		"a rule without a risk":    {Request{Kind: Command, Command: "make", CWD: "/w", Work: "/w", Host: box}, ""},
		"the default":              {Request{Kind: Command, Command: "cp", CWD: "/w", Work: "/w", Host: box}, ""},
		"what a rule accepts":      {Request{Kind: Command, Command: "ls", CWD: "/w", Work: "/w", Host: box}, ""},
		"an unknown host, by rule": {Request{Kind: Command, Command: "make", CWD: "/w", Work: "/w"}, RiskHigh},
	} {
		if v := p.Decide(c.r); v.Risk != c.want || v.Risk != "" && v.Outcome != Ask {
			t.Errorf("%s: %+v", what, v)
		}
	}
}

func TestARiskThatMeansNothingIsAMistake(t *testing.T) {
	for text, says := range map[string]string{
		"rules: [{name: a, when: 'true', outcome: ask, risk: low}]":                                         `"low" is not known`,
		"rules: [{name: a, when: 'true', outcome: accept, risk: high}]":                                     "is not of outcome ask",
		"rules: [{name: a, when: 'true', outcome: ask}]\nhigh_risk_tokens: [x]":                             "no rule has risk: high",
		"rules: [{name: a, when: 'true', outcome: ask, risk: high}]\nhigh_risk_tokens: []":                  "names 0 API tokens",
		"rules: [{name: a, when: 'true', outcome: ask, risk: high}]\nhigh_risk_tokens: [\"token:NOT one\"]": "not the name of an API token",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAnAcceptThatBecomesAQuestionHasTheMarkOfLaterRules(t *testing.T) {
	p := mustParse(t, `
rules:
  - {name: look, when: 'command == "ls"', outcome: accept}
  - {name: production, when: 'host.labels.get("env") == "prod"', outcome: ask, risk: high}
`)
	r := Request{Kind: Command, Command: "ls", CWD: "/w", Work: "/w", Host: Host{Name: "web-1", Labels: map[string]string{"env": "prod"}},
		Permissions: []byte(`{"network":{"enabled":true}}`)}
	if v := p.Decide(r); v.Outcome != Ask || v.Rule != RuleUnknown || v.Risk != RiskHigh {
		t.Errorf("%+v", v)
	}
}
