package scenario_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

func TestTheSeedAndTheNamesDecideWhatIsRandom(t *testing.T) {
	first := scenario.Random(1, "a", 2).Uint64()
	if first != scenario.Random(1, "a", 2).Uint64() {
		t.Error("the same seed and names give another number")
	}
	if first == scenario.Random(2, "a", 2).Uint64() || first == scenario.Random(1, "b", 2).Uint64() {
		t.Error("another seed or name gives the same number")
	}
}

func TestATargetIsStruckByOneStrikeAtATime(t *testing.T) {
	var now, most, all atomic.Int64
	other := make(chan struct{})
	var strikes []scenario.Strike
	for range 8 {
		strikes = append(strikes, scenario.Strike{Target: "a", Due: func(context.Context) {}, Do: func(context.Context) {
			most.Store(max(most.Load(), now.Add(1)))
			<-other // a slow strike does not delay that of another target
			now.Add(-1)
			all.Add(1)
		}})
	}
	strikes = append(strikes, scenario.Strike{Target: "b", Due: func(context.Context) {}, Do: func(context.Context) { close(other) }})
	scenario.CarryOut(t.Context(), strikes)
	if most.Load() != 1 || all.Load() != 8 {
		t.Errorf("%d of 8 strikes were carried out, %d of them at a time", all.Load(), most.Load())
	}
}

func TestWhatCannotBeMendedIsNotTriedAgain(t *testing.T) {
	boom, tries := errors.New("boom"), 0
	wait := scenario.Wait{Most: time.Minute, Try: time.Minute, Gap: time.Millisecond}
	err := wait.For(t.Context(), "it", func(context.Context) error {
		if tries++; tries < 3 {
			return boom
		}
		return scenario.Hopeless(boom)
	})
	if !errors.Is(err, boom) || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	wait.Most = 20 * time.Millisecond
	if err := wait.For(t.Context(), "rain", func(context.Context) error { return boom }); !errors.Is(err, boom) || !strings.Contains(err.Error(), "rain") {
		t.Errorf("what never succeeds is reported as %v", err)
	}
}

// A table that always shows zeros proves nothing.
func TestATableCountsRunsAndFindings(t *testing.T) {
	good, never := &scenario.Result{Subject: "x", Took: true}, &scenario.Result{Subject: "x"}
	bad := &scenario.Result{Subject: "y", Took: true}
	bad.Find("lost", "one")
	bad.Must("nothing", nil)
	bad.Must("that", errors.New("broke"))
	all := []*scenario.Result{good, never, bad}
	if !good.Clean() || never.Clean() || bad.Clean() || scenario.Clean(all) || scenario.Clean(nil) || !scenario.Clean(all[:1]) {
		t.Error("what is clean is not, or the reverse")
	}
	columns := append([]scenario.Column{scenario.Runs}, scenario.Counts([]string{"lost", scenario.Wrong})...)
	table := scenario.NewTable([]string{"fault"}, columns)
	for _, name := range []string{"x", "y", "z"} {
		table.Add([]string{name}, columns, scenario.Select(all, func(r *scenario.Result) bool { return r.Subject == name }))
	}
	const want = "| fault | runs | lost | wrong |\n| --- | --- | --- | --- |\n| x | 1 of 2 | 0 | 0 |\n| y | 1 | 1 | 1 |\n"
	if table.Markdown() != want {
		t.Errorf("the table is\n%s", table.Markdown())
	}
	if report := bad.Report([]string{"lost", scenario.Wrong}, "try", []string{"trace"}); report != "\n    lost: one\n    wrong: that: broke\n    again: try\n      trace" {
		t.Errorf("the report is %q", report)
	}
}
