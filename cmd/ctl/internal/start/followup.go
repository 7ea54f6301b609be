package start

import (
	"fmt"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/restores"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/strictyaml"
	"fairlead.dev/fairlead/workflows/session"
)

type followUpFile struct {
	FollowUps []followUpRule `yaml:"follow_ups"`
}

type followUpRule struct {
	Name           string        `yaml:"name"`
	After          followUpAfter `yaml:"after"`
	Prompt         string        `yaml:"prompt"`
	Seed           string        `yaml:"seed"`
	SeedPool       string        `yaml:"seed_pool"`
	Model          string        `yaml:"model"`
	Effort         string        `yaml:"effort"`
	Sandbox        string        `yaml:"sandbox"`
	ApprovalPolicy string        `yaml:"approval_policy"`
	Budget         string        `yaml:"budget"`
}

type followUpAfter struct {
	Turns     int      `yaml:"turns"`
	ToolCalls int      `yaml:"tool_calls"`
	Files     []string `yaml:"files"`
}

const (
	maxFollowUpFile = 192 << 10
	followUpExample = "a rule has name, prompt, and after with one of turns: 1, tool_calls: 20, files: [\"*.sql\"]"
)

// readFollowUps returns the rules in a file of --follow-up.
func readFollowUps(name string) ([]protocol.FollowUp, error) {
	data, err := core.ReadSmall("--follow-up", name, maxFollowUpFile)
	if err != nil {
		return nil, err
	}
	var f followUpFile
	if read := strictyaml.Read(data, &f); len(read.Problems) > 0 {
		return nil, core.Usage("%s", strictyaml.Tell("--follow-up "+name, read.Problems)).Hinted(followUpExample)
	}
	if len(f.FollowUps) == 0 {
		return nil, core.Usage("--follow-up %s: there is no rule in follow_ups", name).Hinted(followUpExample)
	}
	var rules []protocol.FollowUp
	for i, r := range f.FollowUps {
		rule := protocol.FollowUp{
			Name: r.Name, Prompt: r.Prompt, Turns: r.After.Turns, ToolCalls: r.After.ToolCalls, Files: r.After.Files,
			Seed: r.Seed, SeedPool: r.SeedPool, Model: r.Model, Effort: r.Effort, Sandbox: r.Sandbox, ApprovalPolicy: r.ApprovalPolicy,
		}
		if r.Budget != "" {
			if rule.Bounds, err = boundsOf(r.Budget); err != nil {
				return nil, core.Usage("--follow-up %s: follow-up %d: %v", name, i+1, err).Because(err)
			}
		}
		rules = append(rules, rule)
	}
	if err := (session.Options{FollowUps: rules}).Check(); err != nil {
		return nil, core.Usage("--follow-up %s: %v", name, err).Hinted(followUpExample)
	}
	return rules, nil
}

// boundsOf reads a budget in the form of --budget.
func boundsOf(text string) (protocol.Bounds, error) {
	var opt session.Options
	b, err := restores.ParseBudget(text)
	if err == nil && b.TurnTimeout != "" {
		err = fmt.Errorf("budget: a follow-up has one turn: give time instead of turn")
	}
	if err == nil {
		err = opt.SetBudget(b)
	}
	return opt.Bounds, err
}
