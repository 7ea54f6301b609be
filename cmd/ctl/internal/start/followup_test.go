package start

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRulesForFollowUpsAreReadAndMistakesAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	read := func(text string) ([]string, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rules, err := readFollowUps(file)
		var names []string
		for _, r := range rules {
			names = append(names, r.Name)
			if r.Name == "second" && (r.Bounds.Tokens != 900 || r.Bounds.Time != 5*time.Minute || r.ToolCalls != 20) {
				t.Errorf("it is read as %+v", r)
			}
		}
		return names, err
	}
	names, err := read("follow_ups:\n  - {name: first, prompt: p, after: {files: [\"*.sql\"]}}\n  - {name: second, prompt: p, after: {tool_calls: 20}, budget: \"tokens=900,time=5m\"}\n")
	if err != nil || strings.Join(names, " ") != "first second" {
		t.Errorf("%q, %v", names, err)
	}
	for text, says := range map[string]string{
		"": "there is no rule",
		"follow_ups:\n  - {name: a, prompt: p, after: {turns: 1}, modle: m}\n":            "line 2",
		"follow_ups:\n  - {name: a, prompt: p}\n":                                         "follow-up 1: give one of turns, tool_calls and files",
		"follow_ups:\n  - {name: a, prompt: p, after: {turns: 1}, budget: turn=5m}\n":     "give time instead of turn",
		"follow_ups:\n  - {name: a, prompt: p, after: {turns: 1}, budget: tokens=many}\n": "whole number",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, which does not say %q", err, says)
		}
	}
}
