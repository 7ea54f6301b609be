package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

const theKey = "sk-the-providers-key"

// A bench is a gateway with its records.
type bench struct {
	*testing.T
	url    string
	tokens *Tokens
	token  string

	mu  sync.Mutex
	out []Outcome
}

func newBench(t *testing.T, limits Limits, upstreams ...Upstream) *bench {
	t.Helper()
	return newBenchOf(t, Options{Limits: limits, Upstreams: upstreams})
}

func newBenchOf(t *testing.T, o Options) *bench {
	t.Helper()
	upstreams, limits := o.Upstreams, o.Limits
	b := &bench{T: t, tokens: &Tokens{}}
	b.token = b.tokens.Issue(time.Now(), 0)
	for i := range upstreams {
		if upstreams[i].Name == "" {
			upstreams[i].Name = fmt.Sprint("provider-", i)
		}
		if upstreams[i].Key == "" {
			upstreams[i].Key = theKey
		}
	}
	if limits.FirstPause == 0 {
		limits.FirstPause = time.Microsecond
	}
	o.Tokens, o.Limits = b.tokens, limits
	o.Record = func(o Outcome) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.out = append(b.out, o)
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	b.url = s.URL
	return b
}

func (b *bench) do(method, path string, body io.Reader, header ...string) (*http.Response, string, error) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.url+path, body)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

const hello = `{"model":"m1","stream":true,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}]}`

func (b *bench) ask() (int, string, error) {
	b.Helper()
	res, text, err := b.do("POST", "/v1/responses", strings.NewReader(hello))
	if res == nil {
		return 0, text, err
	}
	return res.StatusCode, text, err
}

// last waits for the record of the newest request: it is made after the answer was sent.
func (b *bench) last(n int) Outcome {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		if len(b.out) >= n {
			o := b.out[n-1]
			b.mu.Unlock()
			return o
		}
		b.mu.Unlock()
		if time.Now().After(deadline) {
			b.Fatalf("there is no record %d", n)
		}
	}
}

// A provider answers with what its functions do, one for each request; the last one answers
// all further requests.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	asked []*http.Request
	texts []string
	acts  []http.HandlerFunc
}

func newProvider(t *testing.T, acts ...http.HandlerFunc) *provider {
	p := &provider{acts: acts}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.asked, p.texts = append(p.asked, r), append(p.texts, string(text))
		act := p.acts[min(len(p.asked), len(p.acts))-1]
		p.mu.Unlock()
		act(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func (p *provider) up() Upstream { return Upstream{BaseURL: p.URL + "/v1"} }

func sends(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
}

func cuts(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sends(text)(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func says(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// recorded returns a stream with a message and a tool call.
func recorded(t *testing.T) string {
	t.Helper()
	return "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\",\"status\":\"in_progress\"}}\n\n" +
		"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"m1\",\"content\":[]}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"good \"}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"day\"}\n\n" +
		"event: response.output_text.done\ndata: {\"type\":\"response.output_text.done\",\"output_index\":0,\"text\":\"good day\"}\n\n" +
		"event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"m1\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"good day\"}]}}\n\n" +
		"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"id\":\"f1\"}}\n\n" +
		"event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":1,\"delta\":\"{}\"}\n\n" +
		"event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"id\":\"f1\",\"arguments\":\"{}\"}}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r1\",\"status\":\"completed\",\"output\":[{\"type\":\"message\"},{\"type\":\"function_call\"}],\"usage\":{\"input_tokens\":7,\"output_tokens\":3,\"input_tokens_details\":{\"cached_tokens\":2}}}}\n\n"
}

// TestAStreamThatIsCutAnywhereEndsAsStated cuts a stream after each of its bytes, in good
// order and not.
func TestAStreamThatIsCutAnywhereEndsAsStated(t *testing.T) {
	t.Parallel()
	whole := recorded(t)
	p := newProvider(t, nil)
	b := newBench(t, Limits{Attempts: 2}, p.up())
	n, seen := 0, map[string]int{}
	for mode, how := range map[string]func(string) http.HandlerFunc{"clean": sends, "cut": cuts} {
		for at := range len(whole) {
			p.mu.Lock()
			p.asked, p.texts, p.acts = nil, nil, []http.HandlerFunc{how(whole[:at]), sends(whole)}
			p.mu.Unlock()
			_, got, err := b.ask()
			n++
			o := b.last(n)
			// What codex got is a beginning of the stream, once.
			body, tail, rebuilt := got, "", false
			if i := strings.LastIndex(got, "event: response.completed"); i >= 0 && got != whole {
				body, tail, rebuilt = got[:i], got[i:], true
				if j := strings.LastIndex(body, "event: response.output_item.done"); j >= 0 && !strings.HasPrefix(whole, body) {
					body, tail = got[:j], got[j:]
				}
			}
			if !strings.HasPrefix(whole, body) {
				t.Fatalf("%s at %d: codex got %q", mode, at, got)
			}
			switch {
			case got == whole:
				seen["repeated"]++
				// The prelude broke and was repeated.
				if err != nil || o.Kind != KindCompleted || p.count() != 2 {
					t.Fatalf("%s at %d: %v, %+v, asked %d times", mode, at, err, o, p.count())
				}
				if at >= strings.Index(whole, "\n\n")+2 {
					t.Fatalf("%s at %d: an answer that had begun was repeated", mode, at)
				}
			case rebuilt:
				seen["rebuilt"]++
				if mode == "cut" || err != nil || o.Rebuilt == "" || p.count() != 1 || !strings.Contains(tail, "good day") {
					t.Fatalf("%s at %d: rebuilt as %q: %v, %+v", mode, at, tail, err, o)
				}
			default:
				seen["cut"]++
				if err == nil || o.Kind != KindCut || p.count() != 1 || o.Usage == nil || !o.Usage.Estimated {
					t.Fatalf("%s at %d: %v, %+v, asked %d times", mode, at, err, o, p.count())
				}
			}
		}
	}
	t.Logf("%d streams: %v", n, seen)
	if seen["repeated"] < 100 || seen["rebuilt"] < 100 || seen["cut"] < 1000 {
		t.Errorf("some of the endings were hardly tried: %v", seen)
	}
}

func TestNothingIsServedWithoutATokenOfTheSession(t *testing.T) {
	t.Parallel()
	p := newProvider(t, sends(recorded(t)))
	b := newBench(t, Limits{}, p.up())
	good := b.token
	for _, bad := range []string{"", "x", good + "x", good[:len(good)-1], theKey} {
		b.token = bad
		if status, text, _ := b.ask(); status != 401 || strings.Contains(text, good) {
			t.Errorf("token %q: %d %s", bad, status, text)
		}
	}
	if o := b.last(1); o.Kind != KindRefused || !strings.HasPrefix(o.From, "127.0.0.1:") || o.Attempts != 0 {
		t.Errorf("record %+v", o)
	}
	now := time.Now()
	next := b.tokens.Issue(now, time.Hour)
	for _, ok := range []string{good, next} {
		b.token = ok
		if status, text, _ := b.ask(); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
	if b.tokens.accepts(good, now.Add(time.Hour)) || !b.tokens.accepts(next, now.Add(time.Hour)) {
		t.Error("the token before the last is valid too long, or the last one is not")
	}
	b.tokens.End()
	if status, _, _ := b.ask(); status != 401 {
		t.Errorf("after the end: %d", status)
	}
	if b.tokens.Issue(now, 0) != "" || (&Tokens{}).accepts("", now) {
		t.Error("a token is valid that must not be")
	}
	if p.count() != 2 {
		t.Errorf("the provider was asked %d times", p.count())
	}
}

func TestWhatFailsBeforeTheFirstByteIsRepeatedAndGivenToTheNextUpstream(t *testing.T) {
	t.Parallel()
	whole := recorded(t)
	failed := func(code string) string {
		return `data: {"type":"response.failed","response":{"error":{"code":"` + code + `","message":"so ` + theKey + `"}}}` + "\n\n"
	}
	for name, c := range map[string]struct {
		act             http.HandlerFunc
		first, second   int // how often the upstreams are asked
		kind            Kind
		status          int
		message, absent string
	}{
		"500":                 {says(500, "oops "+theKey), 3, 1, KindCompleted, 200, "", ""},
		"408":                 {says(408, "late"), 3, 1, KindCompleted, 200, "", ""},
		"a redirect":          {says(302, "", "Location", "http://127.0.0.1:1/"), 3, 1, KindCompleted, 200, "", ""},
		"429":                 {says(429, `{"error":{"code":"rate_limit_exceeded"}}`), 3, 1, KindCompleted, 200, "", ""},
		"429, long":           {says(429, "", "Retry-After", "3600"), 1, 1, KindCompleted, 200, "", ""},
		"429, spent":          {says(429, `{"error":{"type":"usage_limit_reached","message":"spent"}}`), 1, 0, KindUsageLimit, 429, "spent", ""},
		"401":                 {says(401, `{"error":{"message":"bad key `+theKey+`"}}`), 1, 0, KindAuth, 400, "bad key [secret]", ""},
		"400":                 {says(400, `{"error":{"code":"context_length_exceeded","message":"long"}}`), 1, 0, KindContext, 400, "long", ""},
		"no event stream":     {says(200, "<html>", "Content-Type", "text/html"), 3, 1, KindCompleted, 200, "", ""},
		"compressed":          {says(200, "x", "Content-Type", "text/event-stream", "Content-Encoding", "gzip"), 3, 1, KindCompleted, 200, "", ""},
		"garbage":             {sends("data: {]\n\n"), 3, 1, KindCompleted, 200, "", ""},
		"nothing":             {sends(""), 3, 1, KindCompleted, 200, "", ""},
		"a dropped line":      {cuts(""), 3, 1, KindCompleted, 200, "", ""},
		"an error first":      {sends(`data: {"type":"error","code":"server_error","message":"m"}` + "\n\n"), 3, 1, KindCompleted, 200, "", ""},
		"failed first":        {sends(failed("server_error")), 3, 1, KindCompleted, 200, "", ""},
		"spent first":         {sends(failed("insufficient_quota")), 1, 0, KindUsageLimit, 200, "insufficient_quota", ""},
		"other events before": {sends("data: {\"type\":\"codex.rate_limits\"}\n\n" + whole), 1, 0, KindCompleted, 200, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, next := newProvider(t, c.act), newProvider(t, sends(whole))
			second := next.up()
			second.Models = map[string]string{"m*": "m2"}
			b := newBench(t, Limits{Attempts: 3}, p.up(), second)
			status, text, err := b.ask()
			o := b.last(1)
			if err != nil || status != c.status || o.Kind != c.kind || p.count() != c.first || next.count() != c.second {
				t.Fatalf("%d (%v), asked %d and %d times, %+v\n%s", status, err, p.count(), next.count(), o, text)
			}
			if !strings.Contains(o.Message, c.message) || strings.Contains(o.Message, theKey) || strings.Contains(text, theKey) {
				t.Errorf("message %q, text %q", o.Message, text)
			}
			if c.kind == KindCompleted && !strings.HasSuffix(text, whole) {
				t.Errorf("codex got %q", text)
			}
			if c.second > 0 && !strings.Contains(next.texts[0], `"model":"m2"`) {
				t.Errorf("the next upstream was asked %s", next.texts[0])
			}
		})
	}
}

func TestAfterTheFirstByteNothingIsRepeated(t *testing.T) {
	t.Parallel()
	begin := "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\"}}\n\n"
	for name, c := range map[string]struct {
		text string
		kind Kind
		cut  bool
	}{
		"error":      {begin + "data: {\"type\":\"error\",\"error\":{\"code\":\"server_error\",\"message\":\"so\"}}\n\n", KindFailed, false},
		"failed":     {begin + "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"so\"}}}\n\n", KindRateLimit, false},
		"incomplete": {begin + "data: {\"type\":\"response.incomplete\",\"response\":{\"incomplete_details\":{\"reason\":\"so\"}}}\n\n", KindIncomplete, false},
		"garbage":    {begin + "data: so\n\n", KindGarbage, true},
		"long event": {begin + "data: \"" + strings.Repeat("x", 5000) + "\"\n\n", KindGarbage, true},
		"long":       {begin + strings.Repeat("data: {\"type\":\"response.x\",\"delta\":\""+strings.Repeat("x", 3000)+"\"}\n\n", 10), KindGarbage, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, sends(c.text))
			b := newBench(t, Limits{Event: 4000, Answer: 20000}, p.up(), p.up())
			status, _, err := b.ask()
			o := b.last(1)
			if status != 200 || (err != nil) != c.cut || o.Kind != c.kind || p.count() != 1 {
				t.Errorf("%d (%v), asked %d times, %+v", status, err, p.count(), o)
			}
		})
	}
}

func TestASilentProviderIsGivenUp(t *testing.T) {
	t.Parallel()
	hang := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			sends(text)(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}
	quick := Limits{Attempts: 2, Begin: 100 * time.Millisecond, Idle: 100 * time.Millisecond}
	p := newProvider(t, hang(""), sends(recorded(t)))
	b := newBench(t, quick, p.up())
	if status, _, err := b.ask(); status != 200 || err != nil || b.last(1).Kind != KindCompleted || p.count() != 2 {
		t.Errorf("silent before it began: %d, %v, %+v", status, err, b.last(1))
	}
	p = newProvider(t, hang(recorded(t)[:400]))
	b = newBench(t, quick, p.up())
	if _, _, err := b.ask(); err == nil || b.last(1).Kind != KindIdle || p.count() != 1 {
		t.Errorf("silent in mid-answer: %v, %+v", err, b.last(1))
	}
	b = newBench(t, Limits{Total: 200 * time.Millisecond}, newProvider(t, hang(recorded(t)[:400])).up())
	if _, _, err := b.ask(); err == nil || b.last(1).Kind != KindTimeout {
		t.Errorf("too long: %v, %+v", err, b.last(1))
	}
	// codex that goes away ends the request to the provider.
	gone := make(chan struct{})
	b = newBench(t, Limits{}, newProvider(t, func(w http.ResponseWriter, r *http.Request) { hang(recorded(t)[:400])(w, r); close(gone) }).up())
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", b.url+"/v1/responses", strings.NewReader(hello))
	req.Header.Set("Authorization", "Bearer "+b.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	res.Body.Close()
	<-gone
	if o := b.last(1); o.Kind != KindGone {
		t.Errorf("%+v", o)
	}
}

func TestAnswersWithoutAnEndOrOutputAreRebuilt(t *testing.T) {
	t.Parallel()
	whole := recorded(t)
	noEnd := whole[:strings.Index(whole, "event: response.completed")]
	message := noEnd[:strings.Index(noEnd, "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":1")]
	deltas := message[:strings.Index(message, "event: response.output_text.done")]
	empty := "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r1\",\"output\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":4}}}\n\n"
	for name, c := range map[string]struct{ text, rebuilt, want string }{
		"no end":               {noEnd, "final event, output from finished items", `"function_call"`},
		"no output":            {noEnd + empty, "output from finished items", `"function_call"`},
		"text, then [DONE]":    {deltas + "data: [DONE]\n\n", "final event, output from text", `"good day"`},
		"text that was ended":  {message[:strings.Index(message, "event: response.output_item.done")], "final event, output from text", `"good day"`},
		"text, empty output":   {message[:strings.Index(message, "event: response.output_item.done")] + empty, "output from text", `"good day"`},
		"nothing is missing":   {whole, "", "function_call"},
		"only text, cut short": {deltas, "", ""},
		"within a tool call":   {noEnd[:strings.LastIndex(noEnd, "event: response.output_item.done")], "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Limits{}, newProvider(t, sends(c.text)).up())
			_, text, err := b.ask()
			o := b.last(1)
			if o.Rebuilt != c.rebuilt || (err != nil) != (c.want == "") {
				t.Fatalf("%v, %+v", err, o)
			}
			i := strings.Index(text, "event: response.completed")
			if c.want == "" {
				if i >= 0 {
					t.Fatalf("codex got %q", text)
				}
				return
			}
			if i < 0 || !strings.Contains(text[i:], c.want) || strings.Count(text, "event: response.completed") != 1 {
				t.Fatalf("codex got %q", text)
			}
			if name == "no output" && (o.Usage == nil || o.Usage.Input != 9 || o.Usage.Estimated) || name == "no end" && (o.Usage == nil || !o.Usage.Estimated) {
				t.Errorf("usage %+v", o.Usage)
			}
		})
	}
}

func TestAProviderThatDoesNotStreamIsTranslated(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, `{"id":"r1","status":"completed","output":[{"type":"message","id":"m1","content":[{"type":"output_text","text":"good day"}]}],"usage":{"input_tokens":7,"output_tokens":3}}`))
	u := p.up()
	u.Whole = true
	b := newBench(t, Limits{}, u)
	status, text, err := b.ask()
	o := b.last(1)
	if status != 200 || err != nil || o.Kind != KindCompleted || o.Rebuilt != "" || o.Usage.Output != 3 || !strings.Contains(p.texts[0], `"stream":false`) {
		t.Fatalf("%d %v %+v", status, err, o)
	}
	var kinds []string
	for line := range strings.Lines(text) {
		if k, ok := strings.CutPrefix(line, "event: "); ok {
			kinds = append(kinds, strings.TrimSpace(k))
		}
	}
	if want := "response.created response.output_item.added response.output_text.delta response.output_item.done response.completed"; strings.Join(kinds, " ") != want {
		t.Errorf("events %v", kinds)
	}
}

func TestRequestsAreBoundedAndPassedOn(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(200, `{"object":"list","data":[]}`, "Content-Type", "application/json", "X-Codex-Turn-State", "t1", "Set-Cookie", "a=b"))
	u := p.up()
	u.Header, u.Query = http.Header{"x-team": {"blue"}}, map[string][]string{"api-version": {"1"}}
	b := newBench(t, Limits{Body: 1 << 20}, u)
	z, _ := zstd.NewWriter(nil)
	plain := `{"model":"m1","input":"` + strings.Repeat("so ", 1000) + `"}`
	res, text, err := b.do("POST", "/v1/responses", bytes.NewReader(z.EncodeAll([]byte(plain), nil)), "Content-Encoding", "zstd", "X-Codex-Turn-State", "t0", "Cookie", "c=d", "Originator", "codex")
	if err != nil || res.StatusCode != 200 || text != `{"object":"list","data":[]}` || res.Header.Get("X-Codex-Turn-State") != "t1" || res.Header.Get("Set-Cookie") != "" {
		t.Fatalf("%v %v %s", err, res, text)
	}
	r := p.asked[0]
	if p.texts[0] != plain || r.Header.Get("Authorization") != "Bearer "+theKey || r.Header.Get("X-Codex-Turn-State") != "t0" || r.Header.Get("Cookie") != "" ||
		r.Header.Get("Originator") != "codex" || r.Header.Get("X-Team") != "blue" || r.URL.RawQuery != "api-version=1" || r.URL.Path != "/v1/responses" {
		t.Errorf("the provider got %v %v", r.URL, r.Header)
	}
	if res, _, _ := b.do("POST", "/v1/responses/compact", strings.NewReader(plain)); res.StatusCode != 200 || p.asked[1].URL.Path != "/v1/responses/compact" {
		t.Errorf("compaction: %v", res)
	}
	if res, _, _ := b.do("GET", "/v1/models?client_version=0.169.0", nil); res.StatusCode != 200 || p.asked[2].URL.RawQuery != "api-version=1&client_version=0.169.0" {
		t.Errorf("models: %v", p.asked[2].URL)
	}
	asked := p.count()
	bomb := z.EncodeAll(make([]byte, 64<<20), nil)
	for what, c := range map[string]struct {
		method, path, encoding string
		body                   []byte
		status                 int
	}{
		"long":             {"POST", "/v1/responses", "", bytes.Repeat([]byte(" "), 1<<20+1), 413},
		"a bomb":           {"POST", "/v1/responses", "zstd", bomb, 413},
		"no zstd":          {"POST", "/v1/responses", "zstd", []byte("so"), 400},
		"gzip":             {"POST", "/v1/responses", "gzip", []byte("so"), 415},
		"no JSON":          {"POST", "/v1/responses", "", []byte("so"), 400},
		"another path":     {"POST", "/v1/files", "", []byte("{}"), 404},
		"above":            {"GET", "/v1/../secret", "", nil, 404},
		"a method":         {"DELETE", "/v1/responses", "", nil, 405},
		"an array":         {"POST", "/v1/responses", "", []byte("[]"), 400},
		"model of no text": {"POST", "/v1/responses", "", []byte(`{"model":1}`), 400},
	} {
		var header []string
		if c.encoding != "" {
			header = []string{"Content-Encoding", c.encoding}
		}
		if res, text, err := b.do(c.method, c.path, bytes.NewReader(c.body), header...); err != nil || res.StatusCode != c.status {
			t.Errorf("%s: %v %v %s", what, err, res, text)
		}
	}
	if p.count() != asked {
		t.Errorf("the provider was asked %d times more", p.count()-asked)
	}
}

func TestRequestsAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	inside, leave := make(chan struct{}), make(chan struct{})
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		<-leave
		sends(recorded(t))(w, r)
	})
	b := newBench(t, Limits{Requests: 1}, p.up())
	first := make(chan error, 1)
	go func() {
		status, _, err := b.ask()
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d", status)
		}
		first <- err
	}()
	<-inside
	if status, text, _ := b.ask(); status != 503 {
		t.Errorf("%d %s", status, text)
	}
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestUpstreamsThatCannotBeAreRefused(t *testing.T) {
	for _, u := range []Upstream{{}, {Name: "a"}, {Name: "a", BaseURL: "ftp://x/v1"}, {Name: "a", BaseURL: "https://u:p@x/v1"}, {Name: "a", BaseURL: "https://x/v1?k=v"}, {Name: "a", BaseURL: "https://x/v1", Key: "a\nb"}} {
		if _, err := New(Options{Tokens: &Tokens{}, Upstreams: []Upstream{u}}); err == nil {
			t.Errorf("%+v was accepted", u)
		}
	}
}

func TestAnUnreachableProviderIsSaidToBe(t *testing.T) {
	t.Parallel()
	p := newProvider(t, sends(""))
	p.Close()
	u := p.up()
	u.Query = map[string][]string{"key": {"a-secret-in-the-query"}}
	b := newBench(t, Limits{Attempts: 2}, u)
	status, text, err := b.ask()
	if o := b.last(1); status != 502 || err != nil || o.Kind != KindUnreached || o.Attempts != 2 || strings.Contains(text+o.Message, "secret-in") || !strings.Contains(o.Message, "refused") {
		t.Errorf("%d %s %+v", status, text, o)
	}
}

func TestTheScriptedModelAnswersThroughTheGateway(t *testing.T) {
	t.Parallel()
	model := scriptedmodel.Serve(t, "rules:\n  - reply: one two three\n")
	b := newBench(t, Limits{}, Upstream{BaseURL: model.BaseURL()})
	status, text, err := b.ask()
	o := b.last(1)
	if status != 200 || err != nil || o.Kind != KindCompleted || o.Model != "m1" || o.FirstByte <= 0 || o.FirstByte > o.Total || !strings.Contains(text, "three") {
		t.Errorf("%d %v %+v\n%s", status, err, o, text)
	}
	if o.Usage == nil || o.Usage.Estimated || o.Usage.Output == 0 {
		t.Errorf("usage %+v", o.Usage)
	}
}

// FuzzAStream feeds any bytes in any pieces: a stream does not panic, sends nothing after
// its end, and sends nothing that was not sent to it before it began.
func FuzzAStream(f *testing.F) {
	f.Add([]byte("data: {\"type\":\"response.created\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"), 3, true)
	f.Add([]byte("data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"message\"}}\n\ndata: [DONE]\n\n"), 1, false)
	f.Add([]byte("event: x\r\ndata: {}\r\n\r\n: c\n\ndata: {\"type\":\"error\",\"code\":1}\n\n"), 2, true)
	f.Fuzz(func(t *testing.T, text []byte, piece int, clean bool) {
		piece = max(1, min(piece, 64))
		split, s := splitter{most: 1 << 12}, newStream(1<<14, nil)
		other, again := splitter{most: 1 << 12}, 0
		whole, werr := other.feed(text)
		ended := false
		feed := func(st step) {
			if len(st.send) > 0 && !s.begun {
				t.Fatal("something was sent of an answer that has not begun")
			}
			ended = st.end != nil
			if st.end != nil && st.end.kind == "" {
				t.Fatal("an ending has no kind")
			}
		}
		for rest := text; len(rest) > 0 && !ended; {
			n := min(piece, len(rest))
			frames, err := split.feed(rest[:n])
			rest = rest[n:]
			for _, fr := range frames {
				if again < len(whole) && !bytes.Equal(whole[again].text(), fr.text()) {
					t.Fatalf("in pieces: %q, at once: %q", fr.text(), whole[again].text())
				}
				again++
				if feed(s.feed(fr)); ended {
					break
				}
			}
			if err != nil {
				if !errors.Is(err, errGarbage) || werr == nil {
					t.Fatalf("in pieces: %v, at once: %v", err, werr)
				}
				return
			}
		}
		if !ended {
			if feed(s.over(clean)); !ended {
				t.Fatal("a stream that is over has no ending")
			}
		}
	})
}

// A stream may last for an hour, and a request may have megabytes.
func TestARequestIsLetGoOnceItWasSent(t *testing.T) {
	s := &sending{text: []byte("what codex asks")}
	text, err := io.ReadAll(s)
	if err != nil || string(text) != "what codex asks" || s.text != nil {
		t.Errorf("read %q, %v; kept %q", text, err, s.text)
	}
}
