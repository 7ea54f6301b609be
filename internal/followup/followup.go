// Package followup reads the rules for follow-ups as people write them: in a file of
// --follow-up, or in the settings of a seed. Messages about what is wrong repeat no value,
// because such settings may hold secrets.
package followup

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bmatcuk/doublestar/v4"

	"fairlead.dev/fairlead/internal/budget"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/strictyaml"
)

// A Rule is a rule for follow-ups in YAML.
type Rule struct {
	Name           string `yaml:"name"`
	After          After  `yaml:"after"`
	Prompt         string `yaml:"prompt"`
	Seed           string `yaml:"seed"`
	SeedPool       string `yaml:"seed_pool"`
	Model          string `yaml:"model"`
	Effort         string `yaml:"effort"`
	Sandbox        string `yaml:"sandbox"`
	ApprovalPolicy string `yaml:"approval_policy"`
	Budget         string `yaml:"budget"` // in the form of --budget
}

// After says when a rule applies: one of these.
type After struct {
	Turns     int      `yaml:"turns"`
	ToolCalls int      `yaml:"tool_calls"`
	Files     []string `yaml:"files"`
}

// Example says what a rule has.
const Example = "a rule has name, prompt, and after with one of turns: 1, tool_calls: 20, files: [\"*.sql\"]"

// Parse reads a file of --follow-up. The error lists each mistake with its line.
func Parse(name string, data []byte) ([]protocol.FollowUp, error) {
	var f struct {
		FollowUps []Rule `yaml:"follow_ups"`
	}
	if read := strictyaml.Read(data, &f); len(read.Problems) > 0 {
		return nil, errors.New(strictyaml.Tell(name, read.Problems))
	}
	if len(f.FollowUps) == 0 {
		return nil, fmt.Errorf("%s: there is no rule in follow_ups", name)
	}
	rules, err := checked(f.FollowUps)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rules, nil
}

// OfSeed returns the rules that a seed gives to its sessions.
func OfSeed(all []Rule) ([]protocol.FollowUp, error) {
	rules, err := checked(all)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(rules)
	if err != nil {
		return nil, fmt.Errorf("write the rules: %w", err)
	}
	if len(text) > protocol.MaxSeedFollowUps {
		return nil, fmt.Errorf("%d bytes as JSON, at most %d together", len(text), protocol.MaxSeedFollowUps)
	}
	return rules, nil
}

func checked(all []Rule) ([]protocol.FollowUp, error) {
	var rules []protocol.FollowUp
	for i, r := range all {
		rule, err := r.rule()
		if err != nil {
			return nil, fmt.Errorf("follow-up %d: %w", i+1, err)
		}
		rules = append(rules, rule)
	}
	if err := protocol.CheckFollowUps(rules); err != nil {
		return nil, err
	}
	return rules, nil
}

func (r Rule) rule() (protocol.FollowUp, error) {
	rule := protocol.FollowUp{
		Name: r.Name, Prompt: r.Prompt, Turns: r.After.Turns, ToolCalls: r.After.ToolCalls, Files: r.After.Files,
		Seed: r.Seed, SeedPool: r.SeedPool, Model: r.Model, Effort: r.Effort, Sandbox: r.Sandbox, ApprovalPolicy: r.ApprovalPolicy,
	}
	for i, pattern := range r.After.Files {
		if !doublestar.ValidatePattern(pattern) {
			return rule, fmt.Errorf("files: the text %d is not a pattern", i+1)
		}
	}
	if r.Budget == "" {
		return rule, nil
	}
	b, err := budget.Parse(r.Budget)
	switch {
	case err != nil:
		return rule, errors.New("budget: want tokens=N, approvals=N, commands=N, time=D, money=M, with whole numbers and a time such as 20m")
	case b.TurnTimeout != "":
		return rule, errors.New("budget: a follow-up has one turn: give time instead of turn")
	}
	return rule, b.SetBounds(&rule.Bounds)
}
