package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const someKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDMhsnrTiF1hLhAqxBcDTVzd9BMbnYwYvLoMM39PpIvE"

func ruleFile(when string) string {
	return "rules:\n  - name: it\n    outcome: accept\n    when: |-\n      " + strings.ReplaceAll(when, "\n", "\n      ") + "\n"
}

func TestAFileIsReadWhole(t *testing.T) {
	file := `
rules:
  - {name: one, when: plain, outcome: accept_for_session, reason: it is fine}
default: decline
limits: {approvals_per_turn: 3, approvals_per_minute: 2, beyond: decline}
expiry: 90s
approvers: "alice ` + someKey + `"
required: 1
requester_may_decide: true
wait: {quota: true, rate_limit: true, at_most: 6h}
`
	p := mustParse(t, file)
	sum := sha256.Sum256([]byte(file))
	if p.Digest != hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s", p.Digest)
	}
	if len(p.Rules) != 1 || p.Rules[0] != (Rule{Name: "one", When: "plain", Outcome: AcceptForSession, Reason: "it is fine"}) || p.Default != Decline {
		t.Errorf("rules %+v, default %s", p.Rules, p.Default)
	}
	if p.Limits != (Limits{3, 2, Decline}) || p.Expiry != 90*time.Second || p.Wait != (Wait{true, true, 6 * time.Hour}) {
		t.Errorf("%+v, %s, %+v", p.Limits, p.Expiry, p.Wait)
	}
	if p.Required != 1 || !p.RequesterMayDecide || p.Allowed().Principals()[0] != "alice" || len(p.Warnings) != 0 {
		t.Errorf("%+v", p)
	}
}

func TestWhatIsNotWrittenIsTheSafeThing(t *testing.T) {
	p := mustParse(t, "rules: [{name: a, when: plain, outcome: accept}]\nlimits: {approvals_per_turn: 1}\napprovers: alice "+someKey+"\n")
	if p.Default != Ask || p.Limits.Beyond != Ask || p.Required != 1 || p.RequesterMayDecide || p.Expiry != 0 || p.Wait != (Wait{}) {
		t.Errorf("%+v", p)
	}
	if p := mustParse(t, "default: decline"); p.Decide(Request{Kind: Command, Command: "ls"}).Outcome != Decline {
		t.Error("a file with nothing but default: decline does not decline")
	}
}

func TestEveryMistakeIsToldWithItsLineAndRule(t *testing.T) {
	for file, want := range map[string]string{
		"":                                       "the file says nothing",
		"# only a comment":                       "the file says nothing",
		"rules:":                                 "line 1: rules: there are none",
		"rules: []":                              "line 1: rules: there are none",
		"just text":                              "line 1: the file takes keys with values",
		"[a]":                                    "line 1: the file takes keys with values",
		"default: ask\n---\ndefault: ask":        "more than one YAML document",
		"default: ask\ndefault: decline":         "line 2:",
		"default: accept":                        `line 1: default: "accept" is not one of ask, decline`,
		"default: yes":                           `"yes" is not one of ask, decline`,
		"default:":                               `"" is not one of ask, decline`,
		"defualt: ask":                           "line 1: defualt: no such key",
		"rules: {a: b}":                          "line 1: rules: rules takes a list",
		"rules:\n  - name: a":                    "line 2: rules[0].outcome: \"\" is not one of accept, accept_for_session, decline, ask",
		"rules:\n  -\n":                          "rules[0]",
		"rules:\n  - {name: a, outcome: accept}": `line 2: rules[0].when: rule "a": when is missing`,
		"rules:\n  - {name: a, outcome: accept, when: }":                                                `when is missing`,
		"rules:\n  - {outcome: accept, when: 'true'}":                                                   "rules[0].name: the name of a rule must be",
		"rules:\n  - {name: default, outcome: accept, when: 'true'}":                                    `and not "default"`,
		"rules:\n  - {name: 'builtin:x', outcome: accept, when: 'true'}":                                "without a colon",
		"rules:\n  - {name: \"a\\nb\", outcome: accept, when: 'true'}":                                  "one printable line",
		"rules:\n  - {name: a, outcome: accept, when: plain}\n  - {name: a, outcome: ask, when: plain}": "line 3: rules[1].name: rules[0] has this name already",
		"rules:\n  - {name: a, outcome: decline, when: 'true'}":                                         `rule "a" declines and gives no reason`,
		"rules:\n  - {name: a, outcome: decline, when: 'true', reason: ' '}":                            `gives no reason`,
		"rules:\n  - {name: a, outcome: maybe, when: 'true'}":                                           `"maybe" is not one of`,
		"rules:\n  - {name: a, outcome: accept, when: 'true', unless: x}":                               "rules[0].unless: no such key",
		"limits: {approvals_per_turn: 0}\ndefault: ask":                                                 "limits.approvals_per_turn: must be at least 1",
		"limits: {approvals_per_minute: -1}\ndefault: ask":                                              "at least 1",
		"limits: {approvals_per_turn: many}\ndefault: ask":                                              "line 1: limits.approvals_per_turn",
		"limits: {approvals_per_turn: 1, beyond: accept}":                                               `limits.beyond: "accept" is not one of ask, decline`,
		"limits: {beyond: ask}":                                                                         "no limit is given",
		"expiry: 0s":                                                                                    "expiry: must be a time such as 30m",
		"expiry: 30":                                                                                    "expiry",
		"expiry: soon":                                                                                  "line 1: expiry",
		"wait: {at_most: 1h}":                                                                           "only allowed with quota: true",
		"wait: {quota: true, at_most: 1ms}":                                                             "must be a time such as 6h",
		"wait: {quota: true, at_most: 169h}":                                                            "wait.at_most: must be at most 168h",
		"wait: {quota: perhaps}":                                                                        "line 1: wait.quota",
		"required: 2":                                                                                   "required: only allowed with approvers",
		"requester_may_decide: true":                                                                    "only allowed with approvers",
		"approvers:\nrequired: 1":                                                                       "approvers: no approver is named",
		"approvers: '# nobody'":                                                                         "nobody could decide",
		"approvers: alice ssh-ed25519 AAAA":                                                             "line 1: approvers: line 1 of them: the key cannot be read",
		"approvers: |\n  # us\n  alice valid-after=\"20260101\" " + someKey:                             "line 2 of them: valid-after",
		"approvers: alice " + someKey + "\nrequired: 2":                                                 "2 must agree and approvers names 1",
		"approvers: alice " + someKey + "\nrequired: 0":                                                 "required: it is how many must agree",
		"approvers: alice " + someKey + "\nrequired: -1":                                                "at least 1",
		"a: &x [1]\nrules: *x":                                                                          "no such key",
		"\xff":                                                                                          "not text in UTF-8",
		strings.Repeat("[", 5000):                                                                       "nests too deep",
		"a: " + strings.Repeat("{a: ", 200):                                                             "nests too deep",
		strings.Repeat("- ", 5000) + "a":                                                                "nests too deep",
		"default: ask\n" + strings.Repeat("#", maxFile):                                                 "bytes is too large",
		"rules:\n" + strings.Repeat("  - {name: a, outcome: ask, when: plain}\n", maxRules+1):           "201 rules are too many",
	} {
		_, err := Parse([]byte(file))
		var broken *BrokenError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v\nwant %q", file, err, want)
		}
	}
}

func TestAConditionThatCannotBeMeantIsRefused(t *testing.T) {
	for when, want := range map[string]string{
		"words.starts([git])":                     "undeclared reference to 'git'",
		"words.start([\"git\"])":                  "undeclared reference to 'start'",
		"words.starts(\"git\")":                   "found no matching overload for 'starts'",
		"words.starts([])":                        "is true of no command",
		"turn":                                    "when is of type int and must be a condition",
		"words":                                   "must be a condition",
		"kind = 'command'":                        "Syntax error",
		"kind ==":                                 "Syntax error",
		"kind == 'comand'":                        `"comand" is not a kind of request`,
		"'exec' != kind":                          `"exec" is not a kind of request`,
		"kind in ['command', 'file']":             `"file" is not a kind of request`,
		"kind == 1":                               "found no matching overload",
		"host.nam == ''":                          "undeclared reference",
		"hostlabels['a'] == ''":                   "undeclared reference",
		"changes.all(c, c.name == '')":            "undefined field 'name'",
		"command.matches(reason)":                 "must be a literal string in the rule",
		"command.matches('(')":                    "missing closing",
		"command.matches('((a{100}){100}){100}')": "regex",
		"{'a': 1}.size() == 1":                    "cannot be made in a rule",
		"policy.Change{}.path == ''":              "cannot be made in a rule",
		"[1, 'a'].size() == 2":                    "expected type",
		"timestamp('2026-01-01T00:00:00Z') == timestamp('2026-01-01T00:00:00Z')": "undeclared reference to 'timestamp'",
		"duration('1h') == duration('1h')":                                       "undeclared reference to 'duration'",
		"(paths + paths).size() > 1":                                             "lists cannot be added up",
		"[paths].map(x, x + x).all(x, x.size() > 0)":                             "lists cannot be added up",
		"[paths].map(x, [x, x]).all(x, x == x)":                                  "lists of lists cannot be compared",
		"[paths].map(x, [x, x]).all(x, paths in x)":                              "lists of lists cannot be compared",
		"dyn(1) == 1": "undeclared reference to 'dyn'",
		"\n\nfoo":     "(at 3:1)",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200):   "recursion limit",
		strings.Repeat("true && ", 600) + "true":                       "size",
		strings.Repeat("[", 100) + strings.Repeat("]", 100) + " == []": "limit",
	} {
		if _, err := Parse([]byte(ruleFile(when))); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `rules[0].when: rule "it": `) {
			t.Errorf("%.80q: %v\nwant %q", when, err, want)
		}
	}
}

func TestWhatIsProbablyNotMeantIsWarnedOf(t *testing.T) {
	for when, want := range map[string]string{
		`command.startsWith("git status")`:          "which the model may continue as it likes",
		`reason.contains("please")`:                 "which the model may continue as it likes",
		`command.matches("^git")`:                   "which the model may continue as it likes",
		`paths.under(cwd)`:                          "under cwd, which the model may choose",
		`words.starts(["a"]) || changes.size() > 0`: "no request has both",
		`true`:                    "without looking at what is asked for",
		`kind == "file_change"`:   "without looking at what is asked for",
		`cwd == work || plain`:    "without looking at what is asked for",
		`command == "git status"`: "it accepts git, which runs what the folder says",
		`command in ["ls", "/bin/bash -lc 'make'"]`:                            "it accepts make, which",
		`split(command).starts(["npm", "ci"])`:                                 "it accepts npm, which",
		`words.starts(["/usr/bin/git"])`:                                       "it accepts /usr/bin/git, which",
		`words == ["./build.sh"]`:                                              "it accepts ./build.sh, which",
		`words[0] in ["ls", "go", "cargo"]`:                                    "it accepts cargo, go, which",
		`words.starts(["git"]) && cwd == work`:                                 "the model may have written that: it then runs outside of the sandbox",
		`paths.under(work) && !paths.exists(p, p.under(work + "/.git"))`:       "matches only that one folder",
		`paths.under(work) && !paths.exists(p, p.matches("(?i)/\\.git(/|$)"))`: "",
		`command == "ls"`:                                                      "",
		`command in ["ls -l git", "ls"]`:                                       "",
		`split(command).starts(["ls", "git"])`:                                 "",
		`words.starts(["ls"]) && cwd == work`:                                  "",
		`paths.under(work)`:                                                    "",
	} {
		p := mustParse(t, ruleFile(when))
		if got := strings.Join(p.Warnings, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: warnings %q, want %q", when, got, want)
		}
		// A rule that declines may look at any fact.
		declines := strings.Replace(ruleFile(when), "outcome: accept", "outcome: decline\n    reason: no", 1)
		if p := mustParse(t, declines); len(p.Warnings) > 0 {
			t.Errorf("%s declining: %q", when, p.Warnings)
		}
	}
	p := mustParse(t, "rules:\n  - {name: all, outcome: ask, when: 'true'}\n  - {name: more, outcome: accept, when: plain}\n")
	if got := strings.Join(p.Warnings, "\n"); !strings.HasPrefix(got, `line 2: rule "all": it always holds`) {
		t.Errorf("%q", got)
	}
	p = mustParse(t, "approvers: alice "+someKey+"\nrequired: 1\n")
	if got := strings.Join(p.Warnings, "\n"); !strings.Contains(got, "all 1 approvers must agree and the requester may not decide") {
		t.Errorf("%q", got)
	}
}

func TestTheLanguageHasNoClockAndNoTimeZone(t *testing.T) {
	l, err := language()
	if err != nil {
		t.Fatal(err)
	}
	for name := range l.Functions() {
		if strings.HasPrefix(name, "get") && name != "get" || strings.Contains(name, "time") || strings.Contains(name, "now") {
			t.Errorf("rules can call %s", name)
		}
	}
	for _, name := range excluded {
		if l.HasFunction(name) {
			t.Errorf("rules can call %s, which is excluded", name)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{10, maxRules} {
		var file strings.Builder
		file.WriteString("rules:\n")
		for i := range n {
			fmt.Fprintf(&file, "  - {name: rule %d, outcome: accept, when: 'words.starts([\"tool%d\", \"run\"]) && paths.under(work)'}\n", i, i)
		}
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustParse(b, file.String())
			}
		})
	}
}

// A mistake is reported once. Its consequences are not reported as further mistakes.
func TestALimitThatIsWrongIsOneMistake(t *testing.T) {
	_, err := Parse([]byte("default: ask\nlimits: {approvals_per_turn: -1}\n"))
	if want := "policy: line 2: limits.approvals_per_turn: must be at least 1 (leave it out for no limit)"; err == nil || err.Error() != want {
		t.Errorf("it says %v, want %s", err, want)
	}
}
