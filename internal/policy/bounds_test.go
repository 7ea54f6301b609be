package policy

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// big is the largest request that can be judged.
func big() Request {
	r := Request{Kind: FileChange, Work: "/work", Command: strings.Repeat("x", maxOne), Host: Host{Name: "web-1", Labels: map[string]string{}}}
	for i := range maxItems {
		r.Paths = append(r.Paths, fmt.Sprintf("/work/some/folder/file%06d", i))
	}
	for i := range maxLabels {
		r.Host.Labels[fmt.Sprint(i)] = "label"
	}
	return r
}

// worst lists rules that would run for hours or fill the memory if they were not bounded.
var worst = []string{
	`paths.map(p, paths.map(q, p + q)).size() < 0`,
	`paths.all(p, paths.all(q, p.under(q) || true))`,
	`paths.all(p, paths.all(q, paths.all(r, true)))`,
	`paths.all(p, paths.under(work))`,
	`paths.all(p, paths.exists(q, q.matches("^(.*a)+$") && p == ""))`,
	`paths.all(p, command.matches("(x+x+)+y") || true)`,
	`paths.all(p, split(command).size() >= 0)`,
	`paths.all(p, command.contains("y") || true)`,
	`paths.all(p, command + p != command + p + "x")`,
	`paths.all(p, paths == paths)`,
	`paths.all(p, paths.exists(q, q in paths && false) || true)`,
	`paths.all(p, paths.starts(paths))`,
	`paths.all(p, paths.filter(q, true).size() > 0)`,
	`paths.all(p, command.size() > 0)`,
	`paths.all(p, command < command + "a")`,
	`paths.all(p, network_host.within(command) || true)`,
	`paths.all(p, paths.all(q, host.labels == host.labels))`,
	`["aaaaaaaaaa"]` + strings.Repeat(`.map(x, x + x)`, 40) + `.all(x, x.size() < 0)`,
	`[[1]]` + strings.Repeat(`.map(x, [x[0], x[0]])`, 40) + `.all(x, x.size() < 0)`,
	`[1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, ` + strings.Repeat(`[1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, `, 12) + `true` + strings.Repeat(")", 13),
}

func TestNoRuleTakesForEverOrFillsTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("goes to the bounds of cost and memory, one rule after the other: slow with the race detector")
	}
	r := big()
	for _, when := range worst {
		p, err := Parse([]byte(ruleFile(when)))
		if err != nil {
			t.Errorf("%.80s: %v", when, err)
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		e := p.Explain(r)
		runtime.ReadMemStats(&after)
		if e.Outcome.accepts() {
			t.Errorf("%.80s accepts", when)
		}
		// The last call may exceed the bound, because its cost is counted afterwards.
		if e.Cost > 4*maxRuleCost {
			t.Errorf("%.80s costs %d", when, e.Cost)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20 {
			t.Errorf("%.80s takes %d MiB", when, grown>>20)
		}
	}
}

// In TestAllRulesTogetherAreBounded each rule is below the bound for one rule, but all
// together exceed the bound for all.
func TestAllRulesTogetherAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("goes to the bound of cost: slow with the race detector")
	}
	var file strings.Builder
	file.WriteString("rules:\n")
	for i := range 20 {
		fmt.Fprintf(&file, "  - {name: rule %d, outcome: accept, when: '!paths.all(p, p.under(work))'}\n", i)
	}
	p := mustParse(t, file.String())
	e := p.Explain(big())
	if e.Outcome != Decline || !strings.Contains(e.Reason, "take too long") || e.Cost < maxCost || e.Cost > 2*maxCost {
		t.Errorf("%+v", e.Verdict)
	}
	if e.Rule == "rule 0" || e.Rule == "rule 19" {
		t.Errorf("it broke at %s", e.Rule)
	}
}

func TestWhatPeopleWriteIsFarFromTheBounds(t *testing.T) {
	_, blocks := doc(t)
	for _, b := range blocks {
		if !strings.HasPrefix(b, "rules:") {
			continue
		}
		p := mustParse(t, b)
		if e := p.Explain(big()); e.Rule != "its own files" || e.Outcome != Accept || e.Cost > maxCost/2 {
			t.Errorf("the largest request costs %d: %+v", e.Cost, e.Verdict)
		}
		if e := p.Explain(Request{Kind: Command, Command: "git log"}); e.Cost > 200 {
			t.Errorf("a small one costs %d", e.Cost)
		}
	}
}

func TestWhatIsTooBigIsNotJudged(t *testing.T) {
	p := mustParse(t, ruleFile("true"))
	for name, change := range map[string]func(*Request){
		"a long command": func(r *Request) { r.Command = strings.Repeat("x", maxOne+1) },
		"many paths":     func(r *Request) { r.Paths = make([]string, maxItems+1) },
		"many labels": func(r *Request) {
			r.Host.Labels = map[string]string{}
			for i := range maxLabels + 1 {
				r.Host.Labels[fmt.Sprint(i)] = ""
			}
		},
		"much text": func(r *Request) {
			for range 5 {
				r.Paths = append(r.Paths, strings.Repeat("x", maxOne-1))
			}
		},
		"no text":        func(r *Request) { r.Command = "\xff" },
		"a kind of none": func(r *Request) { r.Kind = "comand" },
		"no kind":        func(r *Request) { r.Kind = "" },
		"negative":       func(r *Request) { r.Counts.InMinute = -1 },
	} {
		r := Request{Kind: Command, Command: "ls"}
		if v := p.Decide(r); v.Outcome != Accept {
			t.Fatalf("%+v", v)
		}
		change(&r)
		if v := p.Decide(r); v.Outcome != Decline || v.Rule != RuleRequest || !strings.Contains(v.Reason, "cannot be judged") || v.Policy != p.Digest {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func BenchmarkTheWorstRules(b *testing.B) {
	r := big()
	for i, when := range worst {
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			p := mustParse(b, ruleFile(when))
			for b.Loop() {
				p.Decide(r)
			}
		})
	}
}
