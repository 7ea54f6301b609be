package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ended returns what the Meter was told of n requests.
func (p *purse) waitEnded(t *testing.T, n int) []Usage {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		got := append([]Usage(nil), p.ended...)
		p.mu.Unlock()
		if len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d requests have ended", len(got), n)
		}
	}
}

const asksWhole = `{"model":"m1","input":"a question that takes some tokens"}`

func TestAnAnswerWithoutUsageCostsWhatWasExpected(t *testing.T) {
	t.Parallel()
	least := Usage{Input: int64(len(asksWhole)+3) / 4, Output: leastOutput, Estimated: true}
	long := `{"id":"r1","output":[{"type":"message","content":[{"type":"output_text","text":"` + strings.Repeat("word ", 2000) + `"}]}]}`
	created := "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\"}}\n\n"
	for name, c := range map[string]struct {
		path, body, says string
		more             bool // than what was expected
	}{
		"whole":          {"/v1/responses", asksWhole, `{"id":"r1","status":"completed","usage":null}`, false},
		"a long whole":   {"/v1/responses", asksWhole, long, true},
		"compact":        {"/v1/responses/compact", asksWhole, `{"output":[]}`, false},
		"absurd usage":   {"/v1/responses", asksWhole, `{"usage":{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807}}`, false},
		"negative usage": {"/v1/responses", asksWhole, `{"usage":{"input_tokens":7,"output_tokens":-3}}`, false},
		"no response":    {"/v1/responses", asksWhole, `[]`, false},
		"no JSON":        {"/v1/responses", asksWhole, `good day`, false},
		"a stream":       {"/v1/responses", asksWhole[:len(asksWhole)-1] + `,"stream":true}`, created + "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r1\",\"output\":[]}}\n\n", false},
	} {
		p := &purse{left: 1 << 40}
		up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(c.says, "event:") {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			_, _ = io.WriteString(w, c.says)
		})
		b := newBench(t, Limits{}, up.up())
		b.metered(p, up.up())
		if _, _, err := b.do("POST", c.path, strings.NewReader(c.body)); err != nil && name != "no JSON" {
			t.Errorf("%s: %v", name, err)
		}
		for _, got := range p.waitEnded(t, 1) {
			if !got.Estimated || got.Input < least.Input || got.Output < leastOutput || c.more != (got.Output > leastOutput) {
				t.Errorf("%s: %+v is charged", name, got)
			}
		}
	}
}

// The agent can read the token and ask by itself.
func TestARequestThatIsGivenUpIsCharged(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the answer", "before the first event"} {
		arrived, over := make(chan struct{}, 1), make(chan struct{})
		up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			if when == "before the first event" {
				w.Header().Set("Content-Type", "text/event-stream")
				_ = http.NewResponseController(w).Flush()
			}
			arrived <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-over:
			}
		})
		p := &purse{left: 1 << 40}
		b := newBench(t, Limits{}, up.up())
		b.metered(p, up.up())
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		req, err := http.NewRequestWithContext(ctx, "POST", b.url+"/v1/responses", strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+b.token)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			t.Errorf("%s: status %d", when, res.StatusCode)
		}
		if got := p.waitEnded(t, 1); !got[0].Estimated || got[0].Output != leastOutput || got[0].Input < 10 {
			t.Errorf("%s: %+v is charged", when, got)
		}
		close(over)
	}
}

// A provider that reports a failure before it answers charges nothing.
func TestAFailureThatTheProviderReportsCostsNothing(t *testing.T) {
	t.Parallel()
	up := newProvider(t, sends("event: error\ndata: {\"type\":\"error\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"slower\"}}\n\n"), sends(recorded(t)))
	p := &purse{left: 1 << 40}
	b := newBench(t, Limits{}, up.up())
	b.metered(p, up.up())
	if status, _, err := b.ask(); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if got := p.waitEnded(t, 2); got[0] != (Usage{}) || got[1].Output != 3 {
		t.Errorf("%+v is charged", got)
	}
}

func TestTheModelThatIsPricedIsTheOneThatIsAsked(t *testing.T) {
	t.Parallel()
	up := newProvider(t, sends(recorded(t)))
	p := &purse{left: 1 << 40}
	b := newBench(t, Limits{}, up.up())
	b.metered(p, up.up())
	for _, bad := range []string{
		`{"model":"dear","MODEL":"cheap","stream":true}`,
		`{"MODEL":"cheap","model":"dear","stream":true}`,
		`{"model":"dear","model":"cheap","stream":true}`,
		`{"model":"dear","mod\u0065l":"cheap","stream":true}`,
		`{"Model":"cheap","stream":true}`,
		`{"model":"m1","stream":true,"STREAM":false}`,
		`{"model":"m1","stream":true,"\u017ftream":false}`,
		`{"model":"m1","stream":true,"stream":false}`,
		`{"model":"m1","background":true}`,
		`{"model":"m1","background":"yes"}`,
		`{"model":"m1","Background":true}`,
		`{"model":7}`, `{"model":"m1","stream":"yes"}`, `["model"]`, `"model"`, `null`, `{"model":"m1"} {}`, `{"model":`,
	} {
		res, text, err := b.do("POST", "/v1/responses", strings.NewReader(bad))
		if err != nil || res.StatusCode != 400 || !strings.Contains(text, Mark) {
			t.Errorf("%s: %v, %s", bad, err, text)
		}
	}
	if up.count() != 0 || p.begun != 0 {
		t.Errorf("the provider was asked %d times, the budget %d times", up.count(), p.begun)
	}
	// What lies deeper, or in a text, is not meant.
	for n, good := range []string{
		` { "model" : "m1" , "stream" : true , "background" : false , "text":{"MODEL":"x","model":1,"a":[{"Stream":"\"}{,"}]} , "x":"\\" } `,
		`{"input":"{\"model\":\"cheap\"}","stream":true,"model":"m1","background":null,"n":-1.5e3}`,
	} {
		if res, text, err := b.do("POST", "/v1/responses", strings.NewReader(good)); err != nil || res.StatusCode != 200 {
			t.Errorf("%s: %v, %s", good, err, text)
		}
		if got := b.last(19 + n); got.Model != "m1" || got.Kind != KindCompleted {
			t.Errorf("%s: %+v", good, got)
		}
	}
	if fmt.Sprint(p.models) != "[m1 m1]" {
		t.Errorf("priced %q", p.models)
	}
}
