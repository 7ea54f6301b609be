package batchfile

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// options returns the Options for sessions with a few flags.
func options(name string) Options {
	kinds := map[string]FlagKind{"seed": OneValue, "label": Many, "sandbox": OneValue, "budget": OneValue, "repo": OneValue, "ref": OneValue, "interrupts": Truth}
	var names []string
	for n := range kinds {
		names = append(names, n)
	}
	return Options{Name: name, Names: names, Flags: func(n string) FlagKind { return kinds[n] },
		Kinds: []string{"unreachable", "rate_limit"},
		Check: func(it Item) (string, error) {
			for _, f := range it.Flags {
				if f.Name == "sandbox" && f.Values[0] == "glass" {
					return f.Name, errors.New("sandbox glass is none")
				}
			}
			return "", nil
		}}
}

func parsed(t *testing.T, name, text string) *File {
	t.Helper()
	f, err := Parse([]byte(text), options(name))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const whole = `# nightly
id: nightly
window: 7
stop_after: 3
retry:
  attempts: 4
  on: [unreachable, rate_limit]
  wait: 1m
  after_effects: true
prompt: |
  Upgrade {{.module}} to {{.version}} ({{.id}}).
vars: {version: 1.10, unused: x}
defaults: &d
  seed: team
  labels: {os: linux}
items:
  - id: api
    vars: {module: example.com/api}
    label: [os=darwin, "mem>=32"]
    workspace: {repo: https://example.com/api.git, ref: main}
  - id: web
    vars:
      module: web
      version: v3
    prompt: "Only {{.module}}"
    interrupts: yes it is
`

func TestAFileSaysWhatEachSessionIs(t *testing.T) {
	text := strings.Replace(whole, "yes it is", "true", 1)
	f := parsed(t, "b.yaml", text)
	want := Retry{Attempts: 4, On: []string{"unreachable", "rate_limit"}, Wait: time.Minute, AfterEffects: true}
	if f.ID != "nightly" || f.Window != 7 || f.StopAfter != 3 || !reflect.DeepEqual(f.Retry, want) || len(f.Items) != 2 {
		t.Fatalf("the file is %+v", f)
	}
	api, web := f.Items[0], f.Items[1]
	if api.ID != "api" || api.Prompt != "Upgrade example.com/api to 1.10 (api).\n" {
		t.Errorf("the first item is %+v", api)
	}
	if got := words(api); got != "label=os=darwin,mem>=32 ref=main repo=https://example.com/api.git seed=team" {
		t.Errorf("its flags are %s", got)
	}
	if web.Prompt != "Only web" || words(web) != "interrupts=true label=os=linux seed=team" {
		t.Errorf("the second item is %+v", web)
	}
	if api.Line != 17 || web.Line != 21 {
		t.Errorf("they stand in lines %d and %d", api.Line, web.Line)
	}
}

func words(it Item) string {
	var out []string
	for _, f := range it.Flags {
		out = append(out, f.Name+"="+strings.Join(f.Values, ","))
	}
	for i := range out { // there are only a few
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return strings.Join(out, " ")
}

func TestJSONLinesAreItems(t *testing.T) {
	text := `{"batch": {"window": 2, "prompt": "do {{.item}}{{.what}}", "vars": {"item": "", "what": ""}, "defaults": {"seed": "team"}}}

{"id": "a", "vars": {"what": "one \ud83d\ude00"}, "label": ["x=1"]}
"two"
{"prompt": "else"}
`
	for _, name := range []string{"b.jsonl", "-"} {
		f := parsed(t, name, text)
		var got []string
		for _, it := range f.Items {
			got = append(got, it.ID+":"+it.Prompt+":"+words(it))
		}
		want := "a:do one 😀:label=x=1 seed=team|2:do two:seed=team|3:else:seed=team"
		if s := strings.Join(got, "|"); s != want || f.Window != 2 {
			t.Errorf("%s: items are %s, want %s", name, s, want)
		}
	}
}

func TestAMatrixIsEveryCombinationInOrder(t *testing.T) {
	f := parsed(t, "b.yaml", "prompt: '{{.repo}} {{.go}}'\nmatrix:\n  repo: [api, Web!]\n  go: [1.25, \"1.30\"]\n")
	var got []string
	for _, it := range f.Items {
		got = append(got, it.ID+"="+it.Prompt)
	}
	if s := strings.Join(got, ","); s != "api-1.25=api 1.25,api-1.30=api 1.30,web--1.25=Web! 1.25,web--1.30=Web! 1.30" {
		t.Errorf("the items are %s", s)
	}
}

func TestIdsOfItemsAreTheirNumbersWhereNothingIsSaid(t *testing.T) {
	f := parsed(t, "b.yaml", "prompt: '{{.item}}'\nitems: ["+strings.TrimSuffix(strings.Repeat("x,", 100), ",")+"]")
	if f.Items[0].ID != "001" || f.Items[99].ID != "100" || f.Window != DefaultWindow || f.Retry.Attempts != 1 {
		t.Errorf("the file is %+v", f)
	}
}

func TestEveryMistakeIsToldAtOnceWithItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       []string
	}{
		"keys, values and variables": {"b.yaml", `windw: 3
window: many
stop_after: -1
retry: {attempts: 0, on: [unreachabel], sometimes: 1}
prompt: "{{.module}} {{if}}"
defaults:
  sandbox: glass
  sed: team
items:
  - id: Not This
  - id: a
    vars: {x: 1}
    prompt: "{{.y}}"
  - id: a
    prompt: "  "
    label: {os: linux}
  - id: b.t2
    prompt: ok
    interrupts: perhaps
  - [1]
`, []string{
			"line 1, column 1: windw: no such key: is window meant?",
			"line 2, column 9: window takes a whole number from 1 to 500",
			"line 3, column 13: stop_after takes a whole number from 0 to 100000",
			"line 4, column 19: attempts takes a whole number from 1 to 20",
			`line 4, column 27: on: "unreachabel" is not a kind of failure: is unreachable meant?`,
			"line 4, column 41: sometimes: no such key: there are attempts, on, wait, after_effects",
			"line 5, column 9: prompt: missing value for if",
			"line 7, column 12: sandbox glass is none",
			"line 8, column 3: sed: a session has no such flag: is seed meant?",
			`line 10, column 9: id "Not This" of an item: use a-z`,
			"line 11, column 5: item a: its prompt wants the variable y, and it has only id, x",
			`line 14, column 9: id "a": the item of line 11 has it already`,
			"line 14, column 5: item a: its prompt is empty",
			"line 16, column 13: label is a mapping: it takes one value",
			`line 17, column 9: id "b.t2" of an item: an id must not end in .t and a number, which marks later tries`,
			"line 19, column 17: interrupts takes true or false",
			"line 20, column 5: an item is a list: it takes keys with values, or one text",
		}},
		"a block prompt": {"b.yaml", "items: [a]\nprompt: |\n  one\n  {{.two}\n  three\n",
			[]string{"line 4: prompt: bad character U+007D"}},
		"json lines": {"b.jsonl", "{\"prompt\": \"x\"}\n{\"prompt\": \"x\", \"prompt\": \"y\"}\n{\"prompt\": nothing}\n{\"promt\": \"x\"}\n{\"prompt\": \"x\"\n",
			[]string{
				"line 2, column 17: prompt: this key stands here twice",
				"line 3, column 12: it is not JSON: invalid character 'o' in literal null",
				"line 4, column 1: item 2 has no prompt",
				"line 4, column 2: promt: a session has no such flag: is prompt meant?",
				"line 5, column 15: it is not JSON: the line ends within it",
			}},
		"no YAML":                {"b.yaml", "items: [a\nprompt: b", []string{"line"}},
		"nothing":                {"b.yaml", "", []string{"a batch is a mapping with items"}},
		"no items":               {"b.yaml", "prompt: x", []string{"there is no item in it"}},
		"two lists":              {"b.yaml", "prompt: x\nitems: [a]\nmatrix: {x: [1]}", []string{"line 3, column 10: items and matrix"}},
		"an alias to nothing":    {"b.yaml", "prompt: x\nitems: [*a]", []string{"line 2"}},
		"two documents":          {"b.yaml", "prompt: x\nitems: [a]\n---\nitems: [b]", []string{"line 4: more than one YAML document"}},
		"no text":                {"b.yaml", "prompt: \xff", []string{"it is not text in UTF-8"}},
		"a matrix out of hand":   {"b.yaml", "prompt: x\nmatrix:\n" + strings.Repeat("#\n", 3) + axes(6), []string{"line 11, column 3: the matrix makes more than 100000 items"}},
		"a prompt without end":   {"b.yaml", "prompt: '{{define \"a\"}}" + strings.Repeat("x", 1000) + "{{template \"a\"}}{{end}}{{template \"a\"}}'\nitems: [a]", []string{"item 1: its prompt is longer than codex takes"}},
		"brackets without end":   {"b.yaml", "items: " + strings.Repeat("[", 1000), []string{"it nests too deep"}},
		"an alias of an alias …": {"b.yaml", laughs(), []string{"the file has too many values"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text), options(c.file))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("the file was read with %v", err)
			}
			for _, want := range c.want {
				found := false
				for _, p := range e.Problems {
					found = found || strings.Contains(p.String(), want)
				}
				if !found {
					t.Errorf("nothing says %q in\n%v", want, e)
				}
			}
			if len(c.want) > 1 && len(e.Problems) != len(c.want) {
				t.Errorf("%d mistakes are told, want %d:\n%v", len(e.Problems), len(c.want), e)
			}
		})
	}
}

// axes makes a matrix with 10 to the power of n items.
func axes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  a%d: [0,1,2,3,4,5,6,7,8,9]\n", i)
	}
	return b.String()
}

func laughs() string {
	var b strings.Builder
	b.WriteString("prompt: x\nvars:\n  a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	return b.String() + "items: [a]\n"
}

func TestAMistakeInTheDefaultsIsToldOnce(t *testing.T) {
	_, err := Parse([]byte("prompt: x\ndefaults: {sandbox: glass}\nitems: [a, b, c]"), options("b.yaml"))
	if err == nil || err.Error() != "b.yaml: line 2, column 21: sandbox glass is none" {
		t.Errorf("it is told as %v", err)
	}
}

func TestTenThousandItemsAreReadInAMoment(t *testing.T) {
	var b strings.Builder
	b.WriteString("prompt: do {{.what}}\ndefaults: {seed: team}\nitems:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "  - id: i%d\n    vars: {what: thing %d}\n    label: [n=%d]\n", i, i, i)
	}
	f := parsed(t, "b.yaml", b.String())
	if len(f.Items) != 10_000 || f.Items[9_999].Prompt != "do thing 9999" || f.Items[9_999].Line != 3+3*9_999+1 {
		t.Errorf("%d items were read, the last %+v", len(f.Items), f.Items[len(f.Items)-1])
	}
}

func FuzzParse(f *testing.F) {
	f.Add("b.yaml", whole)
	f.Add("b.jsonl", "{\"batch\":{\"prompt\":\"{{.item}}\"}}\n\"a\"\n{\"id\":\"b\",\"vars\":{\"item\":[1,{\"x\":null}]}}")
	f.Add("b.yaml", "a: &x {b: *x}\n<<: *x\nitems: [!!binary aGk=, 'a', |\n b]\nmatrix: {a: [1]}")
	f.Add("-", laughs())
	f.Fuzz(func(t *testing.T, name, text string) {
		file, err := Parse([]byte(text), options(name))
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || len(e.Problems) == 0 {
				t.Fatalf("the mistakes are %#v", err)
			}
			lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
			for _, p := range e.Problems {
				if p.Line < 0 || p.Line > lines+1 || p.Text == "" {
					t.Fatalf("%+v stands in no line of %d", p, lines)
				}
			}
			return
		}
		seen := map[string]bool{}
		for _, it := range file.Items {
			if it.Prompt == "" || !idPattern.MatchString(it.ID) || seen[it.ID] {
				t.Fatalf("an item is %+v", it)
			}
			seen[it.ID] = true
		}
	})
}

// Merged mappings are not dropped, because they may have a budget or a sandbox.
func TestSeveralMappingsAreMergedAndNothingElseIs(t *testing.T) {
	f := parsed(t, "b.yaml", "vars:\n  a: &a {seed: team, sandbox: read-only}\n  b: &b {sandbox: none, budget: tokens=5}\nprompt: hello\ndefaults:\n  <<: [*a, *b]\nitems: [x]\n")
	got := map[string]string{}
	for _, fl := range f.Items[0].Flags {
		got[fl.Name] = strings.Join(fl.Values, " ")
	}
	if want := map[string]string{"seed": "team", "sandbox": "read-only", "budget": "tokens=5"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the flags are %v, want %v", got, want)
	}
	for _, text := range []string{"a text", "[a, text]", "[[{seed: team}]]"} {
		_, err := Parse([]byte("prompt: hello\ndefaults:\n  <<: "+text+"\nitems: [x]\n"), options("b.yaml"))
		if err == nil {
			t.Errorf("<<: %s was taken", text)
		}
	}
}
