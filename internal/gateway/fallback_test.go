package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Which failures lead to the next upstream is what the fall-back says.
func TestAnotherUpstreamIsAskedOnlyAfterTheFailuresThatAreStated(t *testing.T) {
	t.Parallel()
	whole := recorded(t)
	spent := "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"so\"}}}\n\n"
	for name, c := range map[string]struct {
		on     []Kind
		act    func() *provider
		second int
		kind   Kind
	}{
		"401":                        {nil, func() *provider { return newProvider(t, says(401, "")) }, 0, KindAuth},
		"401, stated":                {[]Kind{KindAuth}, func() *provider { return newProvider(t, says(401, "")) }, 1, KindCompleted},
		"400":                        {nil, func() *provider { return newProvider(t, says(400, "{}")) }, 0, KindBadRequest},
		"400, stated":                {[]Kind{KindBadRequest}, func() *provider { return newProvider(t, says(400, "{}")) }, 1, KindCompleted},
		"quota":                      {nil, func() *provider { return newProvider(t, says(429, `{"error":{"code":"insufficient_quota"}}`)) }, 0, KindUsageLimit},
		"quota, stated":              {[]Kind{KindUsageLimit}, func() *provider { return newProvider(t, says(429, `{"error":{"code":"insufficient_quota"}}`)) }, 1, KindCompleted},
		"quota in a stream, stated":  {[]Kind{KindUsageLimit}, func() *provider { return newProvider(t, sends(spent)) }, 1, KindCompleted},
		"quota in a stream":          {nil, func() *provider { return newProvider(t, sends(spent)) }, 0, KindUsageLimit},
		"too many requests":          {nil, func() *provider { return newProvider(t, says(429, "")) }, 1, KindCompleted},
		"500":                        {nil, func() *provider { return newProvider(t, says(500, "")) }, 1, KindCompleted},
		"500, another one stated":    {[]Kind{KindUnreached}, func() *provider { return newProvider(t, says(500, "")) }, 0, KindFailed},
		"no connection":              {[]Kind{KindUnreached}, func() *provider { p := newProvider(t, nil); p.Close(); return p }, 1, KindCompleted},
		"too long, whatever is said": {mayFallBack, func() *provider { return newProvider(t, says(400, `{"error":{"code":"context_length_exceeded"}}`)) }, 0, KindContext},
		"after the first byte":       {mayFallBack, func() *provider { return newProvider(t, cuts(whole[:len(whole)/2])) }, 0, KindCut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, next := c.act(), newProvider(t, sends(whole))
			b := newBenchOf(t, Options{Upstreams: []Upstream{p.up(), next.up()}, FallBack: FallBack{On: c.on, Attempts: 2}})
			_, text, _ := b.ask()
			o := b.last(1)
			if o.Kind != c.kind || next.count() != c.second || p.count() > 2 && c.second > 0 {
				t.Fatalf("asked %d and %d times, %+v\n%s", p.count(), next.count(), o, text)
			}
			if fell := strings.HasPrefix(o.FellBack, "provider-0: "); fell != (c.second > 0) || fell != (o.Upstream == "provider-1") {
				t.Errorf("the record is %+v", o)
			}
			if c.second > 0 && text != whole {
				t.Errorf("codex got %q", text)
			}
		})
	}
}

// An upstream that failed is asked after the others, until one request tries it once.
func TestAnUpstreamThatFailedIsTriedAgainByOneRequestAtATime(t *testing.T) {
	t.Parallel()
	all := []Upstream{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	var s Standing
	now := time.Now()
	expect := func(what string, at time.Time, want []int, wantTried bool) {
		t.Helper()
		if order, tried := s.order(all, at); !slices.Equal(order, want) || tried != wantTried {
			t.Errorf("%s: asked in the order %v (tried %v), want %v (%v)", what, order, tried, want, wantTried)
		}
	}
	expect("at first", now, []int{0, 1, 2}, false)
	s.failed("a", now, time.Minute)
	expect("a failed", now.Add(59*time.Second), []int{1, 2, 0}, false)
	expect("its time is over", now.Add(time.Minute), []int{0, 1, 2}, true)
	expect("another request meanwhile", now.Add(time.Minute), []int{1, 2, 0}, false)
	s.answered("a")
	expect("it answers", now.Add(time.Minute), []int{0, 1, 2}, false)
	s.failed("a", now, time.Minute)
	s.failed("b", now, time.Minute)
	expect("two failed", now, []int{2, 0, 1}, false)
	s.failed("c", now, time.Minute)
	expect("all failed", now, []int{0, 1, 2}, false)
	expect("the first is tried", now.Add(time.Minute), []int{0, 1, 2}, true)
	if order, tried := (*Standing)(nil).order(all, now); !slices.Equal(order, []int{0, 1, 2}) || tried {
		t.Errorf("without a memory: %v, %v", order, tried)
	}
}

func TestRequestsDoNotTryADeadUpstreamFirstEachTime(t *testing.T) {
	t.Parallel()
	whole := recorded(t)
	p, next := newProvider(t, says(500, "")), newProvider(t, sends(whole))
	var s Standing
	for n := range 3 { // each pump has a gateway of its own
		b := newBenchOf(t, Options{Upstreams: []Upstream{p.up(), next.up()}, FallBack: FallBack{Attempts: 2, Stay: time.Hour}, Standing: &s})
		if status, text, err := b.ask(); status != 200 || text != whole || err != nil {
			t.Fatalf("request %d: %d, %v: %s", n, status, err, text)
		}
		if o := b.last(1); o.Upstream != "provider-1" || o.FellBack == "" {
			t.Errorf("request %d: %+v", n, o)
		}
	}
	if p.count() != 2 || next.count() != 3 {
		t.Errorf("asked %d and %d times, want 2 and 3", p.count(), next.count())
	}
}

// codex repeats a request whose answer broke off. The repetition must not meet the same end.
func TestAnUpstreamThatBreaksOffItsAnswersIsLeft(t *testing.T) {
	t.Parallel()
	whole := recorded(t)
	p, next := newProvider(t, cuts(whole[:len(whole)/2])), newProvider(t, sends(whole))
	b := newBenchOf(t, Options{Upstreams: []Upstream{p.up(), next.up()}, FallBack: FallBack{Stay: time.Hour}, Standing: &Standing{}})
	b.ask()
	if o := b.last(1); o.Kind != KindCut || o.Upstream != "provider-0" {
		t.Fatalf("the first answer: %+v", o)
	}
	if status, text, err := b.ask(); status != 200 || text != whole || err != nil {
		t.Errorf("the repetition: %d, %v: %s", status, err, text)
	}
	if p.count() != 1 || next.count() != 1 {
		t.Errorf("asked %d and %d times, want once each", p.count(), next.count())
	}
}

// What a provider lacks beside its answers says nothing of them.
func TestAListOfModelsThatFailsLeavesTheOrderOfUpstreams(t *testing.T) {
	t.Parallel()
	whole := recorded(t)
	p, next := newProvider(t, says(500, ""), sends(whole)), newProvider(t, says(200, "{}"))
	b := newBenchOf(t, Options{Upstreams: []Upstream{p.up(), next.up()}, FallBack: FallBack{Attempts: 1, Stay: time.Hour}, Standing: &Standing{}})
	if res, text, err := b.do("GET", "/v1/models", nil); err != nil || res.StatusCode != 200 {
		t.Fatalf("the list of models: %+v, %v: %s", res, err, text)
	}
	if status, text, err := b.ask(); status != 200 || text != whole || err != nil || b.last(2).Upstream != "provider-0" {
		t.Errorf("an answer: %d, %v, %+v: %s", status, err, b.last(2), text)
	}
}

// A failure that passes stays one for codex, whatever is wrong with the upstreams that are asked
// in its place.
func TestAWrongFallBackDoesNotMakeAPassingFailureFinal(t *testing.T) {
	t.Parallel()
	whole := recorded(t)
	for name, wrong := range map[string]http.HandlerFunc{
		"a key that ended": says(401, `{"error":{"message":"expired"}}`),
		"no such model":    says(404, `{"error":{"message":"no such model"}}`),
		"a bad request":    says(400, `{"error":{"message":"cannot be decrypted"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			away := says(503, "away", "Retry-After", "7")
			p, next, third := newProvider(t, away, away, sends(whole)), newProvider(t, wrong), newProvider(t, away, sends(whole))
			both := newBenchOf(t, Options{Upstreams: []Upstream{p.up(), next.up()}, Limits: Limits{Attempts: 1, LongPause: time.Second}, FallBack: FallBack{Stay: time.Hour}, Standing: &Standing{}})
			for n := range 2 { // the second meets the memory of the first
				res, text, err := both.do("POST", "/v1/responses", strings.NewReader(hello))
				if err != nil || res.StatusCode != 503 || both.last(n+1).Kind != KindFailed {
					t.Fatalf("request %d: %+v, %v, %+v: %s", n, res, err, both.last(n+1), text)
				}
			}
			if status, text, err := both.ask(); status != 200 || text != whole || err != nil {
				t.Errorf("the first is there again: %d, %v: %s", status, err, text)
			}
			gone := newProvider(t, says(500, ""))
			three := newBenchOf(t, Options{Upstreams: []Upstream{gone.up(), next.up(), third.up()}, Limits: Limits{Attempts: 2}})
			if status, text, err := three.ask(); status != 200 || text != whole || err != nil || three.last(1).Upstream != "provider-2" {
				t.Errorf("with a third one: %d, %v, %+v: %s", status, err, three.last(1), text)
			}
		})
	}
}

func TestAModelIsAskedForByItsNameAtEachUpstream(t *testing.T) {
	t.Parallel()
	u := Upstream{Models: map[string]string{"m1": "exact", "m*": "short", "model-*": "long", "z": "z2"}}
	for model, want := range map[string]string{"m1": "exact", "m2": "short", "model-1": "long", "z": "z2", "za": "za", "": ""} {
		if got := u.modelFor(model); got != want {
			t.Errorf("%q is asked for as %q, want %q", model, got, want)
		}
	}
}

func TestAFallBackThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	up := []Upstream{{Name: "a", BaseURL: "https://a/v1"}, {Name: "b", BaseURL: "https://b/v1"}}
	for name, o := range map[string]Options{
		"a kind":    {Upstreams: up, FallBack: FallBack{On: []Kind{KindContext}}},
		"attempts":  {Upstreams: up, FallBack: FallBack{Attempts: -1}},
		"stay":      {Upstreams: up, FallBack: FallBack{Stay: -1}},
		"same name": {Upstreams: []Upstream{up[0], up[0]}},
	} {
		o.Tokens = &Tokens{}
		if _, err := New(o); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
