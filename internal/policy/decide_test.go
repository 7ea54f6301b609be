package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/internal/shellwords"
)

func TestTheFirstRuleThatHoldsDecides(t *testing.T) {
	p := mustParse(t, `
rules:
  - {name: one, when: 'words.starts(["a"])', outcome: accept}
  - {name: two, when: 'words.starts(["a", "b"]) || words.starts(["c"])', outcome: decline, reason: not c}
  - {name: three, when: 'words.starts(["c"])', outcome: accept_for_session}
  - {name: four, when: 'words.starts(["d"])', outcome: ask, reason: look well}
`)
	for command, want := range map[string]Verdict{
		"a b": {Outcome: Accept, Rule: "one", Policy: p.Digest},
		"c":   {Outcome: Decline, Rule: "two", Reason: "not c", Policy: p.Digest},
		"d":   {Outcome: Ask, Rule: "four", Reason: "look well", Policy: p.Digest},
		"e":   {Outcome: Ask, Rule: RuleDefault, Policy: p.Digest},
	} {
		if got := p.Decide(Request{Kind: Command, Command: command}); got != want {
			t.Errorf("%s: %+v, want %+v", command, got, want)
		}
	}
}

func TestABrokenPolicyDeclinesEverything(t *testing.T) {
	file := []byte("rules: [")
	_, err := Parse(file)
	if err == nil {
		t.Fatal("it is not broken")
	}
	var none *Policy
	for name, p := range map[string]*Policy{"broken": Refusing(file, err.Error()), "none": none, "gone": Refusing(nil, "its blob is gone")} {
		for _, kind := range append(kinds, "nonsense") {
			v := p.Decide(Request{Kind: kind, Command: "ls"})
			if v.Outcome != Decline || v.Rule != RuleBroken || !strings.HasPrefix(v.Reason, "the policy cannot be used: ") {
				t.Errorf("%s, %s: %+v", name, kind, v)
			}
		}
		if p.Broken() == "" || p.Allowed() != nil {
			t.Errorf("%s does not say that it is broken", name)
		}
	}
	if v := Refusing(file, "x").Decide(Request{}); v.Policy != digest(file) {
		t.Errorf("%+v does not name the file", v)
	}
	if mustParse(t, "default: ask").Broken() != "" {
		t.Error("a good policy says that it is broken")
	}
}

func TestARuleThatBreaksDeclinesUnderItsName(t *testing.T) {
	for _, when := range []string{`host.labels["env"] == "dev"`, `words[3] == "x"`, `1 / turn == 0`, `int(model) > 0`, `9223372036854775807 + counts.accepted + 1 > 0`} {
		p := mustParse(t, "rules:\n  - {name: breaks, outcome: accept, when: '"+when+"'}\n  - {name: after, outcome: accept, when: plain}\n")
		v := p.Decide(Request{Kind: Command, Command: "ls"})
		if v.Outcome != Decline || v.Rule != "breaks" || !strings.HasPrefix(v.Reason, `rule "breaks" failed: `) || strings.Contains(v.Reason, "\n") {
			t.Errorf("%s: %+v", when, v)
		}
	}
}

func TestWhatOnlyAPersonCanAnswerIsAsked(t *testing.T) {
	p := mustParse(t, ruleFile("true"))
	for name, c := range map[string]struct {
		r    Request
		rule string
	}{
		"a question":                 {Request{Kind: UserInput}, RulePerson},
		"a tool of ours":             {Request{Kind: UserInput, Tool: "ask_human"}, RulePerson},
		"an elicitation":             {Request{Kind: Elicitation, Server: "docs"}, RulePerson},
		"leave to run a tool":        {Request{Kind: Elicitation, Server: "docs", Tool: "search"}, ""},
		"a person's own":             {Request{Kind: Command, Command: "ls", Action: "humanCommand"}, RulePerson},
		"a command":                  {Request{Kind: Command, Command: "ls"}, ""},
		"no command":                 {Request{Kind: Command}, RuleUnknown},
		"a host to reach":            {Request{Kind: Command, NetworkHost: "example.com"}, RuleUnknown},
		"files":                      {Request{Kind: FileChange, Changes: []Change{{Path: "/a", Kind: "add"}}}, ""},
		"a folder":                   {Request{Kind: FileChange, GrantRoot: "/a"}, RuleUnknown},
		"no files":                   {Request{Kind: FileChange}, RuleUnknown},
		"permissions":                {Request{Kind: Permissions, Permissions: json.RawMessage(`{"network":{"enabled":true}}`)}, RuleUnknown},
		"no permissions":             {Request{Kind: Permissions, Permissions: json.RawMessage(`{}`)}, RuleUnknown},
		"permissions of null":        {Request{Kind: Permissions, Permissions: json.RawMessage(`null`)}, RuleUnknown},
		"permissions not understood": {Request{Kind: Permissions, Permissions: json.RawMessage(`{"gpu":true}`)}, RuleUnknown},
	} {
		v := p.Decide(c.r)
		want := Verdict{Outcome: Accept, Rule: "it", Policy: p.Digest}
		if c.rule != "" {
			want = Verdict{Outcome: Ask, Rule: c.rule, Reason: v.Reason, Policy: p.Digest}
		}
		if v != want || c.rule != "" && !strings.HasPrefix(v.Reason, `rule "it" would accept, but `) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	// A decline and a question to people need no facts.
	p = mustParse(t, "default: decline")
	for _, kind := range kinds {
		if v := p.Decide(Request{Kind: kind}); v.Outcome != Decline || v.Rule != RuleDefault || v.Reason == "" {
			t.Errorf("%s: %+v", kind, v)
		}
	}
}

// TestNothingIsAcceptedForWhatIsNotThere: any condition on all words or all files is true
// if there are none.
func TestNothingIsAcceptedForWhatIsNotThere(t *testing.T) {
	command := Request{Kind: Command, Command: "git status; rm -rf /", Work: "/w"}
	network := Request{Kind: Command, Command: "git fetch", NetworkHost: "example.com", Work: "/w"}
	stdin := Request{Kind: Command, Command: "git status", Action: "writeStdin", Work: "/w"}
	more := Request{Kind: Command, Command: "git status", Permissions: json.RawMessage(`{"fileSystem":{"write":["/"]}}`), Work: "/w"}
	files := Request{Kind: FileChange, Changes: []Change{{Path: "/etc/passwd", Kind: "update"}}, Work: "/w"}
	for _, c := range []struct {
		when string
		r    Request
	}{
		{`words.all(w, w in ["git", "status"])`, command},
		{`!words.exists(w, w == "rm")`, command},
		{`!("rm" in words)`, command},
		{`split(command).all(w, w != "rm")`, command},
		{`paths.all(p, p.under(work))`, command},
		{`!paths.exists(p, p.under("/etc"))`, command},
		{`changes.all(c, c.path.under(work))`, command},
		{`!wants.network && !wants.other && wants.write.all(p, p.under(work))`, command},
		{`words.all(w, w != "rm")`, network},
		{`words.all(w, w != "rm")`, stdin},
		{`words.all(w, w != "rm")`, more},
		{`words.all(w, w != "rm")`, files},
	} {
		if v := mustParse(t, ruleFile(c.when)).Decide(c.r); v.Outcome != Ask || v.Rule != RuleUnknown {
			t.Errorf("%s of %s %s: %+v", c.when, c.r.Kind, c.r.Command, v)
		}
	}
	for _, r := range []Request{network, stdin, more} {
		for _, when := range []string{"plain", `words.starts(["git"])`, `words == ["git", "status"]`} {
			if v := mustParse(t, ruleFile(when)).Decide(r); v.Outcome != Ask || v.Rule != RuleDefault {
				t.Errorf("%s of %+v: %+v", when, r, v)
			}
		}
	}
}

func TestLimitsEndWhatIsAcceptedWithoutAPerson(t *testing.T) {
	file := func(beyond string) string {
		return `
rules:
  - {name: yes, outcome: accept, when: 'words == ["yes"]'}
  - {name: no, outcome: decline, reason: no, when: 'words == ["no"]'}
limits: {approvals_per_turn: 3, approvals_per_minute: 2, beyond: ` + beyond + "}\n"
	}
	for _, c := range []struct {
		beyond  string
		command string
		counts  Counts
		want    Outcome
		rule    string
	}{
		{"ask", "yes", Counts{InTurn: 2, InMinute: 1, InSession: 99, Accepted: 99}, Accept, "yes"},
		{"ask", "yes", Counts{InTurn: 3}, Ask, RulePerTurn},
		{"ask", "yes", Counts{InMinute: 2}, Ask, RulePerMinute},
		{"ask", "yes", Counts{InTurn: 3, InMinute: 2}, Ask, RulePerTurn},
		{"ask", "maybe", Counts{InTurn: 3}, Ask, RuleDefault},
		{"ask", "no", Counts{InTurn: 3}, Decline, "no"},
		{"decline", "yes", Counts{InTurn: 2, InMinute: 1}, Accept, "yes"},
		{"decline", "yes", Counts{InTurn: 4}, Decline, RulePerTurn},
		{"decline", "maybe", Counts{InTurn: 2}, Ask, RuleDefault},
		{"decline", "maybe", Counts{InMinute: 200}, Decline, RulePerMinute},
		{"decline", "no", Counts{InMinute: 200}, Decline, "no"},
	} {
		v := mustParse(t, file(c.beyond)).Decide(Request{Kind: Command, Command: c.command, Counts: c.counts})
		if v.Outcome != c.want || v.Rule != c.rule {
			t.Errorf("%+v: %+v", c, v)
		}
	}
	v := mustParse(t, file("ask")).Decide(Request{Kind: Command, Command: "yes", Counts: Counts{InTurn: 3}})
	if want := `rule "yes" would accept, but this is approval 4 of the turn and the limit is 3`; v.Reason != want {
		t.Errorf("%q, want %q", v.Reason, want)
	}
}

func TestPathsAreComparedByNameAndWhole(t *testing.T) {
	for _, c := range []struct {
		path, folder string
		want         bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/a/", "/a", true}, {"/a/b", "/a/", true}, {"/a//b/./c", "/a/b", true}, {"/a", "/", true}, {"/", "/", true},
		{"/ab", "/a", false}, {"/a/../b", "/a", false}, {"/a/..", "/a", false}, {"/", "/a", false}, {"/A", "/a", false},
		{"a/b", "/a", false}, {"/a/b", "a", false}, {"/a", "", false}, {"", "/", false}, {"", "", false}, {"a", "a", false}, {"..", "/", false}, {"~/a", "/", false},
	} {
		if got := under(c.path, c.folder); got != c.want {
			t.Errorf("%q under %q: %v", c.path, c.folder, got)
		}
	}
	f := factsOf(Request{Kind: FileChange, CWD: "/w/sub", Work: "/w", Paths: []string{"x/../y", "/w/./z"}, GrantRoot: "/g/",
		Changes: []Change{{Path: "../a", Kind: "update", MovedTo: "/b"}, {Path: "y", Kind: "add"}}})
	if want := []string{"/b", "/g", "/w/a", "/w/sub/y", "/w/z"}; !reflect.DeepEqual(f.Paths, want) {
		t.Errorf("paths %q, want %q", f.Paths, want)
	}
	if want := []Change{{"/w/a", "update", "/b"}, {"/w/sub/y", "add", ""}}; !reflect.DeepEqual(f.Changes, want) {
		t.Errorf("changes %+v", f.Changes)
	}
	// A relative path without cwd and work is under no folder.
	if v := mustParse(t, ruleFile(`paths.under("/") || paths.under(work)`)).Decide(Request{Kind: FileChange, Changes: []Change{{Path: "a"}}}); v.Outcome != Ask {
		t.Errorf("%+v", v)
	}
}

func TestAHostBelongsToItsDomainsAndToNoOther(t *testing.T) {
	for _, c := range []struct {
		host, of string
		want     bool
	}{
		{"example.com", "example.com", true}, {"api.example.com", "example.com", true}, {"API.Example.COM.", "example.com", true}, {"example.com", "Example.com.", true},
		{"notexample.com", "example.com", false}, {"example.com.evil.org", "example.com", false}, {"com", "example.com", false}, {"", "example.com", false}, {"example.com", "", false}, {"", "", false}, {"example.com", ".", false},
	} {
		if got := within(c.host, c.of); got != c.want {
			t.Errorf("%q within %q: %v", c.host, c.of, got)
		}
	}
}

func TestPermissionsThatAreNotUnderstoodAreNotNothing(t *testing.T) {
	for raw, want := range map[string]wants{
		``: {}, `null`: {}, `{}`: {}, `{"network":null,"fileSystem":null}`: {}, `{"network":{"enabled":false}}`: {}, `{"network":{"enabled":null}}`: {},
		`{"network":{"enabled":true}}`:                 {network: true},
		`{"fileSystem":{"read":["/a"],"write":["b"]}}`: {read: []string{"/a"}, write: []string{"b"}},
		`{"fileSystem":{"entries":[{"access":"read","path":{"type":"path","path":"/a"}},{"access":"write","path":{"type":"path","path":"/b"}}]}}`: {read: []string{"/a"}, write: []string{"/b"}},
		`{"fileSystem":{"entries":[{"access":"write","path":{"type":"special","value":{"kind":"root"}}}]}}`:                                       {other: true},
		`{"fileSystem":{"entries":[{"access":"write","path":{"type":"glob_pattern","pattern":"/**"}}]}}`:                                          {other: true},
		`{"fileSystem":{"entries":[{"access":"deny","path":{"type":"path","path":"/a"}}]}}`:                                                       {other: true},
		`{"fileSystem":{"entries":[{"access":"write"}]}}`:                                                                                         {other: true},
		`{"fileSystem":{"globScanMaxDepth":3}}`:                                                                                                   {other: true},
		`{"fileSystem":{"write":["/a"],"execute":["/"]}}`:                                                                                         {other: true},
		`{"network":{"enabled":true,"hosts":["x"]}}`:                                                                                              {other: true},
		`{"gpu":{}}`: {other: true}, `[]`: {other: true}, `"all"`: {other: true}, `{`: {other: true}, `{} {}`: {other: true}, `true`: {other: true},
	} {
		if got := wantsOf(json.RawMessage(raw)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
	}
}

func TestRequestsAreReadStrictly(t *testing.T) {
	for text, want := range map[string]string{
		``: "EOF", `{`: "unexpected EOF", `[]`: "cannot unmarshal", `{}`: `"" is not a kind of request`, `{"kind":"command"} {}`: "something follows it", `{"kind":"command"}]`: "something follows it",
		`{"kind":"command","words":["ls"]}`: `unknown field "words"`, `{"kind":"command","counts":{"in_hour":1}}`: "unknown field", `{"kind":"command","turn":"1"}`: "cannot unmarshal", `{"kind":"command","counts":{"in_turn":-1}}`: "below zero",
	} {
		if _, err := ReadRequest([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "read the request: ") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTheSameRequestHasTheSameVerdict checks that the verdict does not depend on the order
// of Go's maps, and that many goroutines can decide at the same time.
func TestTheSameRequestHasTheSameVerdict(t *testing.T) {
	r := Request{Kind: Command, Command: "make", Host: Host{Name: "web-1", Labels: map[string]string{}}}
	for i := range 50 {
		r.Host.Labels[fmt.Sprintf("label%02d", i)] = fmt.Sprint(i)
	}
	for _, when := range []string{
		`host.labels.map(k, k)[0] == "label00"`,
		`host.labels.map(k, host.labels[k])[49] == "49"`,
		`host.labels.filter(k, k.endsWith("7"))[1] == "label17"`,
	} {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				p, err := Parse([]byte(ruleFile(when)))
				if err != nil {
					t.Error(err)
					return
				}
				for range 50 {
					if v := p.Decide(r); v.Outcome != Accept {
						t.Errorf("%s: %+v", when, v)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	// If a label breaks a rule, it breaks the rule at the same place each time.
	p := mustParse(t, ruleFile(`host.labels.exists(k, int(host.labels[k] + "x") > 0)`))
	first := p.Decide(r)
	for range 50 {
		if v := p.Decide(r); v != first {
			t.Fatalf("%+v, then %+v", first, v)
		}
	}
}

func TestDecideLeavesTheRequestAlone(t *testing.T) {
	r := Request{Kind: FileChange, CWD: "/w", Paths: []string{"z", "a"}, Changes: []Change{{Path: "c", Kind: "add"}}, NetworkHost: "A.example"}
	before, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	mustParse(t, ruleFile("paths.under(work)")).Explain(r)
	after, err := json.Marshal(r)
	if err != nil || string(before) != string(after) {
		t.Errorf("%s became %s, %v", before, after, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(ruleFile(`words.starts(["git"]) || paths.under(work)`))
	f.Add("rules: [{name: a, outcome: decline, reason: b, when: 'true'}]\nlimits: {approvals_per_turn: 1}\nexpiry: 1m\nwait: {quota: true, at_most: 1h}\n")
	f.Add("approvers: |\n  alice " + someKey + "\nrequired: 1\n")
	f.Add("rules: &a [*a]")
	for _, when := range worst {
		f.Add(ruleFile(when))
	}
	r := Request{Kind: Command, Command: "git status", Work: "/w", Host: Host{Labels: map[string]string{"a": "b"}}}
	f.Fuzz(func(t *testing.T, file string) {
		p, err := Parse([]byte(file))
		if err != nil {
			if p != nil || err.Error() == "" {
				t.Fatalf("half a policy: %+v, %q", p, err)
			}
			return
		}
		v := p.Decide(r)
		again, err := Parse([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		if w := again.Decide(r); v != w {
			t.Fatalf("%+v, then %+v", v, w)
		}
		sane(t, p, r, v)
	})
}

// sane checks the properties that every verdict has.
func sane(t *testing.T, p *Policy, r Request, v Verdict) {
	t.Helper()
	known := strings.Contains(v.Rule, ":") || v.Rule == RuleDefault
	for _, rule := range p.Rules {
		known = known || rule.Name == v.Rule
	}
	if !known || v.Policy != p.Digest {
		t.Fatalf("%+v", v)
	}
	switch {
	case v.Outcome.accepts():
		if r.Kind == UserInput || strings.Contains(v.Rule, ":") || v.Rule == RuleDefault {
			t.Fatalf("accepted: %+v", v)
		}
	case v.Outcome == Decline && v.Reason == "", v.Outcome != Decline && v.Outcome != Ask:
		t.Fatalf("%+v", v)
	}
}

func FuzzDecide(f *testing.F) {
	_, blocks := doc(f)
	var documented string
	for _, b := range blocks {
		if strings.HasPrefix(b, "rules:") {
			documented = b
		}
	}
	policies := []*Policy{mustParse(f, documented), mustParse(f, ruleFile("true")), mustParse(f, ruleFile("plain")),
		mustParse(f, ruleFile(`words.starts(["git", "status"])`)), mustParse(f, ruleFile(`paths.under("/w")`)), mustParse(f, ruleFile(`host.labels["a"] == reason`))}
	for _, a := range attacks(f) {
		f.Add("command", a, "", "/w", "", "", 0)
	}
	f.Add("file_change", "", "/w", "/w", "/w/a\n../b", "", 3)
	f.Add("permissions", "", "/w", "/w", "", `{"fileSystem":{"write":["/w/out"]},"network":{"enabled":true}}`, 60)
	f.Add("command", "npm ci", "", "", "", "", -1)
	f.Fuzz(func(t *testing.T, kind, command, cwd, work, paths, permissions string, count int) {
		r := Request{Kind: kind, Command: command, CWD: cwd, Work: work, Permissions: json.RawMessage(permissions), Counts: Counts{InTurn: count, InMinute: count / 2},
			NetworkHost: strings.TrimPrefix(command, "git "), Host: Host{Labels: map[string]string{paths: kind}}}
		for p := range strings.SplitSeq(paths, "\n") {
			r.Changes = append(r.Changes, Change{Path: p, Kind: kind, MovedTo: cwd})
		}
		if count%2 == 0 {
			r.NetworkHost = ""
		}
		for _, p := range policies {
			v := p.Decide(r)
			if w := p.Decide(r); v != w {
				t.Fatalf("%+v, then %+v", v, w)
			}
			sane(t, p, r, v)
		}
		if _, plain := shellwords.Split(command); !plain && policies[2].Decide(r).Outcome.accepts() {
			t.Fatalf("%q is accepted as plain", command)
		}
		for _, p := range factsOf(r).Paths {
			if policies[4].Decide(r).Outcome.accepts() && !strings.HasPrefix(p+"/", "/w/") {
				t.Fatalf("%q is accepted as under /w", p)
			}
		}
	})
}

// BenchmarkDecide measures the cost of a request for the pump.
func BenchmarkDecide(b *testing.B) {
	var many strings.Builder
	many.WriteString("rules:\n")
	for i := range maxRules {
		fmt.Fprintf(&many, "  - {name: rule %d, outcome: accept, when: 'words.starts([\"tool%d\", \"run\"])'}\n", i, i)
	}
	files := Request{Kind: FileChange, Work: "/srv/a", Host: Host{Name: "web-1"}}
	for i := range 100 {
		files.Changes = append(files.Changes, Change{Path: fmt.Sprintf("/srv/a/dir/file%d.go", i), Kind: "update"})
	}
	command := Request{Kind: Command, Command: "/bin/bash -lc 'make -C sub all'", CWD: "/srv/a", Work: "/srv/a", Host: Host{Name: "web-1", Labels: map[string]string{"env": "dev"}}}
	_, blocks := doc(b)
	for _, block := range blocks {
		if strings.HasPrefix(block, "rules:") {
			p := mustParse(b, block)
			for name, r := range map[string]Request{"command through 7 rules": command, "100 files": files} {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						p.Decide(r)
					}
				})
			}
		}
	}
	p := mustParse(b, many.String())
	b.Run("command through 200 rules", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Decide(command)
		}
	})
}

// BenchmarkPlainJSON is for comparison: it only reads the same request.
func BenchmarkPlainJSON(b *testing.B) {
	raw, err := json.Marshal(Request{Kind: Command, Command: "/bin/bash -lc 'make -C sub all'", CWD: "/srv/a", Work: "/srv/a", Host: Host{Name: "web-1", Labels: map[string]string{"env": "dev"}}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var r Request
		if err := json.Unmarshal(raw, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// attacks returns commands that begin with git status and do something else.
func attacks(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("../shellwords/testdata/attacks.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		text, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, text)
	}
	return out
}

func TestNoRuleTakesACommandForMoreThanItsWords(t *testing.T) {
	p := mustParse(t, `
rules:
  - name: all words
    outcome: accept
    when: plain || words.size() > 0 || words.starts(["git"]) || words.starts(["git", "status"]) || split(command).size() > 0
`)
	for _, attack := range attacks(t) {
		quoted := "'" + strings.ReplaceAll(attack, "'", `'\''`) + "'"
		for _, command := range []string{attack, "/bin/bash -lc " + quoted, "/usr/bin/zsh -lc " + quoted, "sh -c " + quoted} {
			if v := p.Decide(Request{Kind: Command, Command: command}); v.Outcome.accepts() {
				t.Errorf("%q: %+v", command, v)
			}
		}
	}
}
