package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/realparts"
)

// A purse permits so many tokens of output.
type purse struct {
	mu     sync.Mutex
	left   int64
	begun  int
	ended  []Usage
	models []string
	err    error // of Begin, once
}

var spentUp = &BudgetError{Kind: KindSeedBudget, Message: "seed team has used all that it may use"}

func (p *purse) Begin(_ context.Context, model string, expected Usage) (Running, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.err; err != nil {
		p.err = nil
		return nil, err
	}
	if expected.Output > p.left || expected.Input < 1 || !expected.Estimated {
		return nil, spentUp
	}
	p.begun++
	p.models = append(p.models, model)
	return p, nil
}

func (p *purse) Grow(_ context.Context, sofar Usage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sofar.Output > p.left {
		return spentUp
	}
	return nil
}

func (p *purse) End(u Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, u)
	p.left -= u.Output
}

func (b *bench) metered(p *purse, upstreams ...Upstream) {
	b.Helper()
	for i := range upstreams {
		upstreams[i].Name = fmt.Sprint("provider-", i)
	}
	g, err := New(Options{Upstreams: upstreams, Tokens: b.tokens, Meter: p, Limits: Limits{FirstPause: time.Microsecond}, Record: func(o Outcome) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.out = append(b.out, o)
	}})
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(g)
	b.Cleanup(s.Close)
	b.url = s.URL
}

func TestARequestBeyondABudgetAsksNoProvider(t *testing.T) {
	t.Parallel()
	up := newProvider(t, sends(recorded(t)))
	b := newBench(t, Limits{}, up.up())
	p := &purse{left: leastOutput, err: errors.New("the store does not answer")}
	b.metered(p, up.up())
	if status, text, err := b.ask(); status != 200 || err != nil || text != recorded(t) {
		t.Errorf("%d, %v: %s", status, err, text)
	}
	status, text, err := b.ask()
	o := b.last(2)
	if status != 400 || err != nil || !strings.Contains(text, Mark+"seed_budget] seed team has used all") || o.Kind != KindSeedBudget {
		t.Errorf("%d, %v: %s, recorded %+v", status, err, text, o)
	}
	if up.count() != 1 || p.begun != 1 || len(p.ended) != 1 || p.ended[0] != (Usage{Input: 7, Cached: 2, Output: 3}) || p.models[0] != "m1" {
		t.Errorf("the provider was asked %d times, the budget %d times: %+v", up.count(), p.begun, p)
	}
	// A list of models costs nothing.
	if _, _, err := b.do("GET", "/v1/models", nil); err != nil || p.begun != 1 {
		t.Errorf("models: %v, the budget was asked %d times", err, p.begun)
	}
}

func TestEachAttemptIsPermittedAndCounted(t *testing.T) {
	t.Parallel()
	bad, good := newProvider(t, says(500, "{}")), newProvider(t, sends(recorded(t)))
	b := newBench(t, Limits{}, bad.up())
	p := &purse{left: 100 * leastOutput}
	other := good.up()
	other.Models = map[string]string{"*": "another"}
	b.metered(p, bad.up(), other)
	if status, _, err := b.ask(); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if o := b.last(1); o.Asked != "another" || o.Model != "m1" || len(p.ended) != 5 || p.ended[0] != (Usage{}) || p.ended[4].Output != 3 || p.models[4] != "another" {
		t.Errorf("recorded %+v, counted %+v", o, p)
	}
}

func TestAStreamBeyondABudgetEndsForGood(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	long.WriteString("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\",\"status\":\"in_progress\"}}\n\n")
	for range 100 {
		fmt.Fprintf(&long, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":%q}\n\n", strings.Repeat("word ", 100))
	}
	up := newProvider(t, sends(long.String()))
	b := newBench(t, Limits{}, up.up())
	p := &purse{left: 3000}
	b.metered(p, up.up())
	status, text, err := b.ask()
	o := b.last(1)
	if status != 200 || err != nil || strings.Count(text, "response.failed") != 2 || !strings.Contains(text, Mark+"seed_budget] ") || !strings.HasSuffix(text, "\n\n") {
		t.Errorf("%d, %v, the end is %s", status, err, text[max(0, len(text)-500):])
	}
	if o.Kind != KindSeedBudget || o.Usage == nil || !o.Usage.Estimated || o.Usage.Output < 3000 || o.Usage.Output > 3000+growEvery {
		t.Errorf("recorded %+v, %+v", o, o.Usage)
	}
}

// codex must not ask again: its turn has ended.
func TestCodexEndsTheTurnThatABudgetEnds(t *testing.T) {
	t.Parallel()
	realparts.NotShort(t)
	for name, left := range map[string]int64{"before the request": 0, "within the stream": 2000} {
		model := scriptedmodel.Serve(t, "rules: [{reply: '{{ repeat \"far too much \" 4000 }}'}]")
		k := newMetered(t, model, &purse{left: left})
		text, err := k.codex(t.Context(), k.host, "say more than the budget allows")
		if err == nil {
			t.Errorf("%s: codex said %.100q", name, text)
		} else if !strings.Contains(err.Error(), Mark+"seed_budget] seed team has used all") {
			t.Errorf("%s: %.2000v", name, err)
		}
		if n := k.endings(KindSeedBudget); n != 1 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}
