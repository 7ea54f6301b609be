package scriptedmodel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// ask sends the request that codex would send for a conversation of user
// messages only.
func ask(ctx context.Context, s *Server, conversation string, said ...string) (int, string, error) {
	r := map[string]any{"model": "m", "stream": true}
	var input []any
	for _, text := range said {
		input = append(input, map[string]any{"type": "message", "role": "user",
			"content": []any{map[string]any{"type": "input_text", "text": text}}})
	}
	r["input"] = input
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.BaseURL()+"/responses", bytes.NewReader(mustJSON(r)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Thread-Id", conversation)
	req.Header.Set("Authorization", "Bearer swordfish")
	return do(req)
}

func do(req *http.Request) (int, string, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	limit, tick := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("what the test waits for does not come about")
		}
	}
}

func control(t *testing.T, s *Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	status, text, err := do(req)
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

func TestEachConversationIsAnsweredByWhatIsAskedInIt(t *testing.T) {
	s := Serve(t, `
rules:
  - when: {contains: number, turn: 2}
    reply: 'second {{ .LastUser }} after {{ .FirstUser }} in {{ .Conversation }}'
  - when: {matches: '^number (\d+)$'}
    reply: 'first {{ index .Match 1 }}'
`)
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			id := fmt.Sprintf("conversation-%d", i)
			one := fmt.Sprintf("number %d", i)
			_, got, err := ask(t.Context(), s, id, one)
			if err != nil || !strings.Contains(got, fmt.Sprintf(`"text":"first %d"`, i)) {
				t.Errorf("%s: %v: %s", id, err, got)
			}
			_, got, err = ask(t.Context(), s, id, one, one+" again")
			want := fmt.Sprintf(`"text":"second %s again after %s in %s"`, one, one, id)
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %v: %s", id, err, got)
			}
		})
	}
	wg.Wait()
	if got := s.UserMessages("conversation-7"); len(got) != 2 || got[1] != "number 7 again" {
		t.Errorf("UserMessages %q", got)
	}
}

func TestFailuresAreCountedForEachConversationAndTurn(t *testing.T) {
	s := Serve(t, "rules: [{steps: [[{fail: {kind: overloaded, times: 2}}, {fail: rate_limited}, {say: fine}]]}]")
	for _, said := range [][]string{{"a"}, {"a", "b"}} {
		for _, conversation := range []string{"one", "two"} {
			for i, want := range []int{503, 503, 429, 200, 200} {
				got, body, err := ask(t.Context(), s, conversation, said...)
				if err != nil || got != want {
					t.Errorf("%s, turn %d, request %d: status %d, want %d: %s %v", conversation, len(said), i+1, got, want, body, err)
				}
			}
		}
	}
}

func TestUsageIsReportedAsScripted(t *testing.T) {
	s := Serve(t, "rules: [{steps: [[{say: hi}, {usage: {input: 100, cached: 40, output: 7, reasoning: 3}}]]}]")
	_, got, err := ask(t.Context(), s, "c", "x")
	if err != nil || !strings.Contains(got, `"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},`+
		`"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":107}`) {
		t.Errorf("%v: %s", err, got)
	}
}

func TestTokensAreRecordedAsDigestsOnly(t *testing.T) {
	s := Serve(t, "rules: [{reply: hi}]")
	if _, _, err := ask(t.Context(), s, "c", "x"); err != nil {
		t.Fatal(err)
	}
	got := s.Requests()
	if len(got) != 1 || got[0].TokenSHA256 != tokenDigest("swordfish") {
		t.Fatalf("requests %+v", got)
	}
	if text, err := json.Marshal(got); err != nil || bytes.Contains(text, []byte("swordfish")) {
		t.Errorf("the token itself is recorded: %s %v", text, err)
	}
	if got[0].Answer != "stream" || got[0].Rule != "#1" || got[0].Model != "m" {
		t.Errorf("recorded %+v", got[0])
	}
}

func TestRecordForgetsTheOldest(t *testing.T) {
	if testing.Short() {
		t.Skip("parses 640 MB of JSON, a minute with the race detector")
	}
	var r record
	req, err := http.NewRequest(http.MethodPost, "/v1/responses", nil)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`"` + strings.Repeat("x", maxRecordBytes/4) + `"`)
	for range 10 {
		r.add(req, body)
	}
	got := r.list("")
	if len(got) != 3 || got[2].Seq != 10 {
		t.Errorf("kept %d, the last of them number %d", len(got), got[len(got)-1].Seq)
	}
}

func TestReleasedGateStaysOpenUntilItIsHeld(t *testing.T) {
	s := Serve(t, "rules: [{steps: [[{say: before}, {wait: gate}, {say: after}]]}]")
	s.Release("gate")
	if _, got, err := ask(t.Context(), s, "c", "x"); err != nil || !strings.Contains(got, "after") {
		t.Errorf("%v: %s", err, got)
	}
	s.Hold("gate")
	done := make(chan error, 1)
	go func() {
		_, _, err := ask(t.Context(), s, "d", "x")
		done <- err
	}()
	if w, err := s.AwaitWaiting(t.Context(), "gate"); err != nil || w.Conversation != "d" {
		t.Errorf("waiting %+v, %v", w, err)
	}
	s.Release("gate")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCloseFreesWhatIsHeld(t *testing.T) {
	s := Serve(t, "rules: [{when: {exact: stall}, steps: [[{say: x}, {fail: stall}]]}, {steps: [[{say: x}, {wait: never}]]}]")
	var wg sync.WaitGroup
	for _, text := range []string{"stall", "wait"} {
		wg.Go(func() {
			if _, body, err := ask(t.Context(), s, text, text); err == nil && strings.Contains(body, "response.completed") {
				t.Errorf("%s: completed", text)
			}
		})
	}
	if _, err := s.AwaitWaiting(t.Context(), "never"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(s.RequestsOf("stall")) > 0 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestServerIsControlledOverHTTP(t *testing.T) {
	script, err := Parse([]byte("rules: [{reply: old}]"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(script, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	if status, got := control(t, s, "GET", "/healthz", ""); status != 200 || got != "{\"ok\":true}\n" {
		t.Errorf("healthz %d %s", status, got)
	}
	if status, got := control(t, s, "PUT", "/script", "rules: [{name: bad}]"); status != 400 || !strings.Contains(got, "rule bad: ") {
		t.Errorf("bad script: %d %s", status, got)
	}
	if _, got, err := ask(t.Context(), s, "c", "x"); err != nil || !strings.Contains(got, "old") {
		t.Errorf("after a bad script: %v: %s", err, got)
	}
	if status, got := control(t, s, "PUT", "/script", "rules: [{when: {exact: known}, steps: [[{say: new}, {wait: my gate}]]}]"); status != 200 {
		t.Errorf("good script: %d %s", status, got)
	}
	if status, got, err := ask(t.Context(), s, "c", "unknown"); err != nil || status != 400 || !strings.Contains(got, "no rule matches") {
		t.Errorf("surprise: %d %s %v", status, got, err)
	}
	if status, got := control(t, s, "GET", "/v1/nowhere", ""); status != 400 || !strings.Contains(got, "nothing is served") {
		t.Errorf("unknown path: %d %s", status, got)
	}
	var surprises []Surprise
	_, got := control(t, s, "GET", "/surprises", "")
	if err := json.Unmarshal([]byte(got), &surprises); err != nil || len(surprises) != 2 || surprises[0].LastUser != "unknown" {
		t.Errorf("surprises %s %v", got, err)
	}

	done := make(chan string, 1)
	go func() {
		_, got, err := ask(t.Context(), s, "d", "known")
		done <- fmt.Sprint(got, err)
	}()
	if _, err := s.AwaitWaiting(t.Context(), "my gate"); err != nil {
		t.Fatal(err)
	}
	if _, got := control(t, s, "GET", "/waiting", ""); !strings.Contains(got, `"gate":"my gate","conversation":"d"`) {
		t.Errorf("waiting %s", got)
	}
	if status, _ := control(t, s, "POST", "/release/my%20gate", ""); status != 200 {
		t.Errorf("release: %d", status)
	}
	if got := <-done; !strings.Contains(got, "response.completed") {
		t.Errorf("after the release: %s", got)
	}

	var requests []Request
	_, got = control(t, s, "GET", "/requests?conversation=d", "")
	if err := json.Unmarshal([]byte(got), &requests); err != nil || len(requests) != 1 || requests[0].UserMessages[0] != "known" {
		t.Errorf("requests %s %v", got, err)
	}
	control(t, s, "POST", "/reset", "")
	if len(s.Requests())+len(s.Surprises()) != 0 {
		t.Error("reset forgot too little")
	}
}
