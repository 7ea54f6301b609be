package gateway

import (
	"strings"
	"sync"
	"testing"
)

func TestBodiesAreKeptWithoutSecretsAndWithinABound(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var kept []Bodies
	var kinds []Kind
	whole := recorded(t)
	p := newProvider(t, sends(strings.Replace(whole, `"text":"good day"`, `"text":"good `+theKey+`"`, 1)))
	o := Options{Upstreams: []Upstream{p.up()}, KeepBytes: 1 << 20, Keep: func(o Outcome, b Bodies) {
		mu.Lock()
		defer mu.Unlock()
		kept, kinds = append(kept, b), append(kinds, o.Kind)
	}}
	b := newBenchOf(t, o)
	_, got, err := b.ask()
	if err != nil {
		t.Fatal(err)
	}
	if res, _, err := b.do("POST", "/v1/responses", strings.NewReader(hello), "Authorization", "Bearer wrong"); err != nil || res.StatusCode != 401 {
		t.Fatalf("without a token: %v, %v", res, err)
	}
	if _, _, err := b.do("GET", "/v1/models", nil); err != nil {
		t.Fatal(err)
	}
	if res, _, err := b.do("POST", "/v1/responses", strings.NewReader("nonsense")); err != nil || res.StatusCode != 400 {
		t.Fatalf("nonsense: %v, %v", res, err)
	}
	b.last(4)
	mu.Lock()
	defer mu.Unlock()
	if len(kept) != 2 || kinds[0] != KindCompleted || kinds[1] != KindRejected {
		t.Fatalf("kept %+v of %v", kept, kinds)
	}
	if k := kept[0]; string(k.Request) != hello || k.RequestBytes != int64(len(hello)) || string(k.Answer) != got || k.AnswerBytes != int64(len(got)) {
		t.Errorf("kept %+v, codex got %q", k, got)
	}
	if k := kept[1]; string(k.Request) != "nonsense" || !strings.Contains(string(k.Answer), "rejected") {
		t.Errorf("kept %+v", k)
	}
	for _, k := range kept {
		if text := string(k.Request) + string(k.Answer); strings.Contains(text, theKey) || strings.Contains(text, b.token) {
			t.Errorf("a secret is kept: %s", text)
		}
	}

	kept, o.KeepBytes = nil, 10
	o.Upstreams = []Upstream{p.up()}
	short := newBenchOf(t, o)
	mu.Unlock()
	_, got, err = short.ask()
	short.last(1)
	mu.Lock()
	if err != nil || len(kept) != 1 || string(kept[0].Request) != hello[:10] || string(kept[0].Answer) != got[:10] || kept[0].AnswerBytes != int64(len(got)) {
		t.Errorf("kept %+v of %q, %v", kept, got, err)
	}
}
