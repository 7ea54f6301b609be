package policy

import (
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// doc returns the package's documentation, and its indented blocks.
func doc(t testing.TB) (whole string, blocks []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	whole = f.Doc.Text()
	var b strings.Builder
	for line := range strings.Lines(whole) {
		if rest, ok := strings.CutPrefix(line, "\t"); ok {
			b.WriteString(rest)
		} else if b.Len() > 0 {
			blocks = append(blocks, b.String())
			b.Reset()
		}
	}
	return whole, append(blocks, b.String())
}

func mustParse(t testing.TB, file string) *Policy {
	t.Helper()
	p, err := Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustRead(t testing.TB, text string) Request {
	t.Helper()
	r, err := ReadRequest([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// TestTheExamplesOfTheDocumentationHold runs every example of the documentation.
func TestTheExamplesOfTheDocumentationHold(t *testing.T) {
	_, blocks := doc(t)
	var policies []*Policy
	verdicts, conditions := 0, 0
	verdict := regexp.MustCompile(`^(accept|accept_for_session|decline|ask)  +(\S.*?)  +(\{.*\})$`)
	condition := regexp.MustCompile(`^(true|false)  +(\S.*?)  +(\{.*\})$`)
	for _, b := range blocks {
		if strings.HasPrefix(b, "rules:") || strings.HasPrefix(b, "approvers:") {
			policies = append(policies, mustParse(t, b))
		}
		for line := range strings.Lines(b) {
			line = strings.TrimSpace(line)
			if m := verdict.FindStringSubmatch(line); m != nil {
				verdicts++
				if v := policies[0].Decide(mustRead(t, m[3])); string(v.Outcome) != m[1] || v.Rule != m[2] {
					t.Errorf("%s\ngives %+v", line, v)
				}
			}
			if m := condition.FindStringSubmatch(line); m != nil {
				conditions++
				// Test the condition with a decline, because an accept may be turned into a
				// question.
				p := mustParse(t, "rules:\n  - {name: it, outcome: decline, reason: it holds, when: '"+strings.ReplaceAll(m[2], "'", "''")+"'}\n")
				v := p.Decide(mustRead(t, m[3]))
				if want := map[string]string{"true": "it", "false": RuleDefault}[m[1]]; v.Rule != want || strings.Contains(v.Reason, "failed") {
					t.Errorf("%s\ngives %+v", line, v)
				}
			}
		}
	}
	if len(policies) != 2 || verdicts < 12 || conditions < 15 {
		t.Errorf("found %d policies, %d verdicts, %d conditions: this test looks in the wrong place", len(policies), verdicts, conditions)
	}
	// The policy warns of the rules that accept programs which may run code of the model.
	if w := strings.Join(policies[0].Warnings, "\n"); len(policies[0].Warnings) != 2 || strings.Count(w, "which runs what the folder says") != 2 {
		t.Errorf("the documented policy is warned of: %s", w)
	}
	if p := policies[1]; p.Required != 1 || len(p.Allowed().Principals()) != 2 {
		t.Errorf("approvers: %+v", p)
	}
}

func TestTheDocumentationNamesEverythingARuleSees(t *testing.T) {
	whole, _ := doc(t)
	names := []string{"starts(", "under(", "within(", "get(", "split("}
	for name := range variables {
		names = append(names, name)
	}
	names = append(names, RuleBroken, RuleRequest, RuleUnknown, RulePerson, RulePerTurn, RulePerMinute)
	names = append(names, kinds...)
	for _, name := range names {
		if !strings.Contains(whole, name) {
			t.Errorf("%s is nowhere in the documentation", name)
		}
	}
}

// TestEveryVariableHasAValueOfItsType compares the list of declared variables with the
// function that gives their values.
func TestEveryVariableHasAValueOfItsType(t *testing.T) {
	f := factsOf(Request{Kind: Command})
	l, err := language()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range variables {
		v, ok := f.ResolveName(name)
		if !ok {
			t.Errorf("%s has no value", name)
			continue
		}
		if got := l.CELTypeAdapter().NativeToValue(v).Type().TypeName(); got != want.TypeName() {
			t.Errorf("%s is %s, declared as %s", name, got, want)
		}
	}
	if _, ok := f.ResolveName("nonsense"); ok {
		t.Error("there is a value for nonsense")
	}
}
