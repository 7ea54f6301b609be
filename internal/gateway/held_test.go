package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// A stackWriter is where a Gateway answers. It remembers the calls that led to its newest write.
type stackWriter struct {
	*httptest.ResponseRecorder
	first chan struct{} // closed at the first write
	calls string
}

func (w *stackWriter) Write(p []byte) (int, error) {
	if w.calls == "" {
		close(w.first)
	}
	w.calls = string(debug.Stack())
	return w.ResponseRecorder.Write(p)
}

func (w *stackWriter) Unwrap() http.ResponseWriter { return w.ResponseRecorder }

// A goroutine's stack keeps its size for as long as an answer lasts. Once an answer has begun, the
// calls that ask for it have returned.
func TestAnAnswerIsFollowedOnAShallowStack(t *testing.T) {
	w := &stackWriter{ResponseRecorder: httptest.NewRecorder(), first: make(chan struct{})}
	p := newProvider(t, func(to http.ResponseWriter, r *http.Request) {
		sends(event("response.created", `"response":{"id":"r1"}`))(to, r)
		_ = http.NewResponseController(to).Flush()
		select {
		case <-w.first:
		case <-r.Context().Done():
		}
		sends(event("response.completed", `"response":{"id":"r1","output":[]}`))(to, r)
	})
	tokens := &Tokens{}
	u := p.up()
	u.Name = "provider"
	g, err := New(Options{Tokens: tokens, Upstreams: []Upstream{u}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/responses", strings.NewReader(hello))
	r.Header.Set("Authorization", "Bearer "+tokens.Issue(time.Now(), 0))
	g.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "response.completed") {
		t.Fatalf("the answer is %s", w.Body)
	}
	if !strings.Contains(w.calls, ".follow(") || strings.Contains(w.calls, ".attempt(") {
		t.Errorf("the end of the answer is sent by\n%s", w.calls)
	}
}

// Most of what a worker carries are events with a few words. Each is read once: a worker with many
// streams would spend its time on collecting garbage.
func TestAnEventWithAFewWordsAllocatesLittle(t *testing.T) {
	split, scrub, s := splitter{most: 1 << 20}, scrubber{secrets: []string{theKey}}, newStream(1<<30, nil)
	s.begun = true
	text := []byte("event: response.output_text.delta\n" + event("response.output_text.delta",
		`"sequence_number":5,"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":" word","logprobs":[]`))
	got := testing.AllocsPerRun(200, func() {
		frames, err := split.feed(text)
		if err != nil || len(frames) != 1 {
			t.Fatalf("%d events: %v", len(frames), err)
		}
		for _, f := range scrub.take(frames[0]) {
			if st := s.feed(f); len(st.send) != len(text) || st.end != nil {
				t.Fatalf("codex is sent %q", st.send)
			}
		}
	})
	if got > 40 {
		t.Errorf("an event takes %v allocations, want 40 at most", got)
	}
}

// A delta passes as it is only if its text is certain, and has no part of a secret.
func TestOnlyAPlainDeltaPassesAsItIs(t *testing.T) {
	for members, want := range map[string]bool{
		`"delta":"hello"`: true,
		`"delta":""`:      true,
		`"delta" : "hello" , "item" : {"delta":"sk-the-"}`:  true,
		`"delta":"a ` + theKey + ` b"`:                      false,
		`"delta":"a ` + theKey[:1] + `"`:                    false,
		`"delta":"a\n"`:                                     false,
		`"delta":"hello","delta":"` + theKey[:7] + `"`:      false,
		`"\u0064elta":"` + theKey[:7] + `"`:                 false,
		`"delta":"hello","\u0064elta":"` + theKey[:7] + `"`: false,
		`"Delta":"hello"`:                                   false,
		`"delta":1`:                                         false,
		`"delta":null`:                                      false,
		`"delta":["hello"]`:                                 false,
		`"text":"hello"`:                                    false,
		`"item":{"delta":"hello"}`:                          false,
		`"item":"\"delta\":\"hello\""`:                      false,
		fmt.Sprintf(`"delta":%q`, strings.Repeat("x", 99)+theKey[:len(theKey)-1]): false,
	} {
		f := frame{kind: "response.output_text.delta", data: []byte(`{"type":"response.output_text.delta",` + members + `}`)}
		s := scrubber{secrets: []string{theKey}}
		if got := s.plain(f); got != want {
			t.Errorf("%s passes as it is: %t, want %t", members, got, want)
		}
	}
	for _, data := range []string{"null", "[]", `"delta"`, "1"} {
		if s := (scrubber{secrets: []string{theKey}}); s.plain(frame{data: []byte(data)}) {
			t.Errorf("%s passes as it is", data)
		}
	}
}
