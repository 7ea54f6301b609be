package followup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestRulesAreReadAndMistakesAreNamedWithoutTheirValues(t *testing.T) {
	rules, err := Parse("f", []byte("follow_ups:\n  - {name: first, prompt: p, after: {files: [\"*.sql\"]}}\n  - {name: second, prompt: p, after: {tool_calls: 20}, budget: \"tokens=900,time=5m\"}\n"))
	if err != nil || len(rules) != 2 || rules[0].Name != "first" || rules[1].Bounds.Tokens != 900 || rules[1].Bounds.Time != 5*time.Minute || rules[1].ToolCalls != 20 {
		t.Errorf("%+v, %v", rules, err)
	}
	for text, says := range map[string]string{
		"": "there is no rule",
		"follow_ups:\n  - {name: a, prompt: p, after: {turns: 1}, modle: marked}\n":         "line 2",
		"follow_ups:\n  - {name: a, prompt: p}\n":                                           "follow-up 1: give one of turns, tool_calls and files",
		"follow_ups:\n  - {name: a, prompt: p, after: {turns: 1}, budget: turn=5m}\n":       "give time instead of turn",
		"follow_ups:\n  - {name: a, prompt: p, after: {turns: 1}, budget: tokens=marked}\n": "whole number",
		"follow_ups:\n  - {name: a, prompt: p, after: {files: [\"[marked\"]}}\n":            "the text 1 is not a pattern",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "marked") {
			t.Errorf("%v, which does not say %q, or repeats a value", err, says)
		}
	}
}

func TestRulesOfASeedHaveTheBoundsOfASessionsAndOneTogether(t *testing.T) {
	rule := func(n, prompt int) Rule {
		return Rule{Name: fmt.Sprint("r", n), Prompt: strings.Repeat("p", prompt), After: After{Turns: 1}}
	}
	var nine, long []Rule
	for n := range 9 {
		nine = append(nine, rule(n, 1))
		long = append(long, rule(n, protocol.MaxFollowUpPrompt))
	}
	if rules, err := OfSeed(nine[:8]); err != nil || len(rules) != 8 {
		t.Errorf("8 rules: %d, %v", len(rules), err)
	}
	if _, err := OfSeed(long[:3]); err != nil {
		t.Errorf("3 long rules: %v", err)
	}
	for says, rules := range map[string][]Rule{"at most 8": nine, "at most 65536 together": long[:4], "prompt: 16385 bytes": {rule(0, protocol.MaxFollowUpPrompt+1)}} {
		if _, err := OfSeed(rules); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, which does not say %q", err, says)
		}
	}
	if rules, err := OfSeed(nil); len(rules) != 0 || err != nil {
		t.Errorf("no rules: %v, %v", rules, err)
	}
}

func TestTheSessionsRuleTakesThePlaceOfTheSeedsOfTheSameName(t *testing.T) {
	f := func(names ...string) (all []protocol.FollowUp) {
		for _, n := range names {
			name, prompt, _ := strings.Cut(n, "=")
			all = append(all, protocol.FollowUp{Name: name, Prompt: prompt})
		}
		return all
	}
	var got []string
	for _, r := range protocol.JoinFollowUps(f("a=seed", "b=seed"), f("c=own", "a=own")) {
		got = append(got, r.Name+"="+r.Prompt)
	}
	if want := []string{"b=seed", "c=own", "a=own"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
