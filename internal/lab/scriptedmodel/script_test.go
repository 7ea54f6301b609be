package scriptedmodel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestShortFormsMeanTheLongOnes(t *testing.T) {
	s, err := Parse([]byte(`
pace: 5ms
rules:
  - when: {contains: a}
    steps:
      say: hello
  - when: {contains: [a, b]}
    steps:
      - - shell: ls
        - shell: {cmd: ls, escalate: true, prefix_rule: ls, yield: 300ms}
      - - wait: gate
        - wait: {gate: other, after: 3}
        - fail: cut
        - fail: {kind: stall, times: -1}
        - pause: 1s
`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Pace != 5*time.Millisecond || len(s.Rules) != 2 {
		t.Fatalf("parsed %+v", s)
	}
	if one := s.Rules[0]; len(one.When.Contains) != 1 || len(one.Steps) != 1 || one.Steps[0][0].Say.Text != "hello" {
		t.Errorf("first rule %+v", one)
	}
	two := s.Rules[1].Steps
	if len(two) != 2 || len(two[0]) != 2 || len(two[1]) != 5 {
		t.Fatalf("second rule's steps %+v", two)
	}
	if a, b := two[0][0].Shell, two[0][1].Shell; a.Cmd != "ls" || a.Escalate || !b.Escalate || b.Yield != 300*time.Millisecond || len(b.PrefixRule) != 1 {
		t.Errorf("commands %+v and %+v", a, b)
	}
	if a, b := two[1][0].Wait, two[1][1].Wait; a.Gate != "gate" || b.Gate != "other" || b.After != 3 {
		t.Errorf("gates %+v and %+v", a, b)
	}
	if a, b := two[1][2].Fail, two[1][3].Fail; a.Kind != Cut || b.Kind != Stall || b.Times != -1 {
		t.Errorf("failures %+v and %+v", a, b)
	}
	if two[1][4].Pause != time.Second {
		t.Errorf("pause %v", two[1][4].Pause)
	}
}

func TestScriptMayBeJSON(t *testing.T) {
	s, err := Parse([]byte(`{"rules":[{"when":{"exact":"x"},"steps":[{"say":"y\n"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Rules[0].Steps[0][0].Say.Text; got != "y\n" {
		t.Errorf("says %q", got)
	}
}

func TestEveryProblemOfAScriptIsReportedAtOnce(t *testing.T) {
	_, err := Parse([]byte(`
rules:
  - name: empty
  - when: {matches: "("}
    reply: x
    steps: {say: y}
  - steps:
      - say: this ends the turn
      - - say: "{{ .Oops"
        - fail: bogus
        - fail: overloaded
        - shell: ""
        - {say: a, think: b}
`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"rule empty: it has neither steps nor a reply",
		"rule #2: matches: ",
		"rule #2: it has a reply and steps",
		"rule #3: step 1 asks for no tool",
		"rule #3: step 2, action 1: template: ",
		`rule #3: step 2, action 2: unknown kind of failure "bogus"`,
		"rule #3: step 2, action 3: fail: overloaded is the whole answer",
		"rule #3: step 2, action 4: shell has no cmd",
		"rule #3: step 2, action 5: an action does one thing, this does 2",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	for _, script := range []string{
		"rulez: []",
		"rules: [{steps: [{says: x}]}]",
		"rules: [{steps: [{shell: {command: x}}]}]",
		"rules: [{steps: [{fail: {kind: cut, afterwards: 1}}]}]",
	} {
		if _, err := Parse([]byte(script)); err == nil || !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestSecondDocumentIsRefused(t *testing.T) {
	if _, err := Parse([]byte("rules: []\n---\nrules: []\n")); err == nil {
		t.Error("the second document was dropped silently")
	}
}

func TestDemoScriptIsSound(t *testing.T) {
	name := filepath.Join("..", "demo", "model.yaml")
	if _, err := os.Stat(name); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(name); err != nil {
		t.Error(err)
	}
}
