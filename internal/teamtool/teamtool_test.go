package teamtool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

const aSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The example of the specification.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	keys, err := ReadSecrets(secretFile(t, aSecret+"\n"+aSecret+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := Sign(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`)); got != want+" "+want {
		t.Errorf("the signature is %s", got)
	}
	for _, bad := range []string{"", "secret", "whsec_!", "whsec_c2hvcnQ=", strings.Repeat(aSecret+"\n", 5)} {
		if _, err := ReadSecrets(secretFile(t, bad)); err == nil || strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

const file = `
tools:
  - name: lookup_ticket
    description: Look up a ticket by its id.
    schema:
      type: object
      properties: {id: {type: string, pattern: "^[A-Z]+-[0-9]+$"}}
      required: [id]
      additionalProperties: false
    webhook: https://tools.example.com/fairlead/lookup
    timeout: 30s
  - {name: ping, description: Says pong., webhook: "http://127.0.0.1:8080/ping"}
`

func TestAFileOfToolsIsReadAndItsMistakesAreTold(t *testing.T) {
	g, err := Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	tools, err := Read(g.Text)
	if err != nil || len(tools) != 2 || strings.Join(g.Names, ",") != "lookup_ticket,ping" || tools[0].Timeout != 30*time.Second || tools[1].Wait() != protocol.TeamToolTimeout {
		t.Fatalf("%+v, %v", tools, err)
	}
	for args, says := range map[string]string{`{"id":"ABC-1"}`: "", `{"id":"abc"}`: "at /id: ", `{}`: "id", `{"id":"A-1","x":1}`: "x", `nothing`: "not JSON"} {
		if err := CheckArgs(tools[0], json.RawMessage(args)); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("arguments %s: %v", args, err)
		}
	}
	one := func(more string) string {
		return "tools: [{name: a, description: b, webhook: 'https://x.example/a'" + more + "}]"
	}
	if _, err := Parse([]byte(one(""))); err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{
		"":                               "no tools",
		"tools: []":                      "0 tools",
		one(", shell: rm"):               "shell",
		one(", timeout: 3h"):             "timeout 3h",
		one(", timeout: soon"):           "not a duration",
		one(", schema: [1]"):             "not a JSON object",
		one(", schema: {type: nothing}"): "not a JSON schema",
		one(", schema: {$ref: 'file:///etc/passwd'}"):                                    "references are not taken",
		one(", schema: {$schema: 'file:///etc/passwd'}"):                                 "not a dialect",
		"tools: [{name: deliver, description: b, webhook: 'https://x.example/a'}]":       "has a tool of this name",
		"tools: [{name: 'a b', description: b, webhook: 'https://x.example/a'}]":         "a name has letters",
		"tools: [{name: a, webhook: 'https://x.example/a'}]":                             "no description",
		"tools: [{name: a, description: b}]":                                             "want one handler",
		"tools: [{name: a, description: b, webhook: 'http://x.example/a'}]":              "want https",
		"tools: [&x {name: a, description: b, webhook: 'https://x.example/a'}, *x]":      "anchors",
		"tools: [{name: a, description: b, webhook: 'https://x.example/a/../b'}]":        "not plain",
		"tools: [{name: a, description: b, webhook: 'https://me:pw@x.example/a'}]":       "must not hold a password",
		"tools: [{name: a, description: " + strings.Repeat("b", 5000) + ", webhook: x}]": "its description has",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.90s: %v, want %q", text, err, says)
		}
	}
}

func TestOnlyURLsOfTheConfigAreCalled(t *testing.T) {
	targets := []Target{{URL: "https://tools.example.com/team/", SecretFile: "team"}, {URL: "https://tools.example.com/team/special/", SecretFile: "special"}, {URL: "http://127.0.0.1:9/one", SecretFile: "one"}}
	for webhook, want := range map[string]string{
		"https://tools.example.com/team/lookup": "team", "https://TOOLS.example.com/team/special/x": "special", "http://127.0.0.1:9/one": "one",
		"https://tools.example.com/team": "", "https://tools.example.com/other": "", "https://tools.example.com:8443/team/lookup": "", "http://127.0.0.1:9/one/more": "",
		"http://127.0.0.1:10/one": "", "https://tools.example.com/team/../other": "", "https://tools.example.com/team/%2e%2e/other": "", "https://tools.example.com.evil.example/team/x": "",
		"https://tools.example.com/team/x?to=1": "", "http://169.254.169.254/latest": "", "file:///etc/passwd": "",
	} {
		got, err := Find(targets, webhook)
		if got.SecretFile != want || (err == nil) != (want != "") {
			t.Errorf("%s: %+v, %v", webhook, got, err)
		}
	}
}

// serving returns a tool whose handler is h, and what a worker's config allows.
func serving(t *testing.T, h http.HandlerFunc) (protocol.TeamTool, []Target) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return protocol.TeamTool{Name: "lookup", Webhook: s.URL + "/lookup", Timeout: time.Minute}, []Target{{URL: s.URL + "/", SecretFile: secretFile(t, aSecret)}}
}

func caller() *Caller {
	c := NewCaller(time.Now)
	c.pause = time.Millisecond
	return c
}

var aCall = Call{ID: "call_1", Session: "s", Turn: 3, At: time.Unix(1, 0), Args: json.RawMessage(`{"id":"A-1"}`)}

func TestEveryAttemptAtACallIsTheSame(t *testing.T) {
	var n atomic.Int32
	bodies := make(chan string, 4)
	tool, targets := serving(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		bodies <- r.Header.Get("webhook-id") + " " + string(data)
		if !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") || r.Header.Get("webhook-timestamp") == "" || r.Method != http.MethodPost {
			t.Errorf("headers %v", r.Header)
		}
		switch n.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, `{"text":"open","success":false}`)
		}
	})
	r, err := caller().Do(t.Context(), targets, tool, aCall)
	if err != nil || r.Text != "open" || r.OK {
		t.Errorf("reply %+v, %v", r, err)
	}
	close(bodies)
	const want = `call_1 {"type":"tool.call","timestamp":"1970-01-01T00:00:01Z","data":{"id":"call_1","session":"s","turn":3,"tool":"lookup","arguments":{"id":"A-1"}}}`
	count := 0
	for got := range bodies {
		if count++; got != want {
			t.Errorf("attempt %d: %s", count, got)
		}
	}
	if count != 3 {
		t.Errorf("%d attempts", count)
	}
}

func TestTheModelIsToldWhatBecameOfACall(t *testing.T) {
	var followed atomic.Bool
	for name, c := range map[string]struct {
		code int
		kind string
		body string
		says string
		ok   bool
	}{
		"a text":         {200, "text/plain", "it is open", "it is open", true},
		"other JSON":     {200, "application/json", `{"state":"open"}`, `{"state":"open"}`, true},
		"nothing":        {204, "", "", "nothing to say", true},
		"a refusal":      {422, "text/plain", "there is no ABC-1", "refused the call: there is no ABC-1", false},
		"a bare refusal": {403, "", "", "status 403", false},
		"a redirect":     {302, "", "", "leads elsewhere", false},
		"too long":       {200, "text/plain", strings.Repeat("é", MaxReply), "[cut at 32768 bytes]", true},
		"no text":        {200, "text/plain", "a\xff\x00b", "a\uFFFD\uFFFDb", true},
	} {
		tool, targets := serving(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/lookup" {
				followed.Store(true)
			}
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, c.body)
		})
		r, err := caller().Do(t.Context(), targets, tool, aCall)
		if err != nil || !strings.Contains(r.Text, c.says) || r.OK != c.ok || len(r.Text) > MaxReply+100 {
			t.Errorf("%s: %.200q, %v, %v", name, r.Text, r.OK, err)
		}
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
}

func TestACallWithoutAnAnswerIsToldInWordsToActOn(t *testing.T) {
	tool, targets := serving(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	tool.Timeout = time.Second
	if r, err := caller().Do(t.Context(), targets, tool, aCall); err != nil || r.OK || !strings.Contains(r.Text, "may have been carried out") || !strings.Contains(r.Text, "status is 502") {
		t.Errorf("%+v, %v", r, err)
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	tool.Webhook = closed.URL + "/lookup"
	targets = append(targets, Target{URL: closed.URL + "/", SecretFile: targets[0].SecretFile})
	if r, err := caller().Do(t.Context(), targets, tool, aCall); err != nil || r.OK || !strings.Contains(r.Text, "It was not carried out") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := caller().Do(t.Context(), nil, tool, aCall); err != nil || r.OK || !strings.Contains(r.Text, "does not allow") {
		t.Errorf("%+v, %v", r, err)
	}
	targets[1].SecretFile += "x"
	if r, err := caller().Do(t.Context(), targets, tool, aCall); err != nil || r.OK || !strings.Contains(r.Text, "trouble on our side") || strings.Contains(r.Text, "secret") {
		t.Errorf("%+v, %v", r, err)
	}
	targets[1].SecretFile = targets[0].SecretFile
	later := aCall
	later.Begun, later.Again = time.Now().Add(-time.Hour), true
	if r, err := caller().Do(t.Context(), targets, tool, later); err != nil || r.OK || !strings.Contains(r.Text, "may have been carried out") || strings.Contains(r.Text, "not carried out") {
		t.Errorf("begun long ago: %+v, %v", r, err)
	}
	why := errors.New("the worker stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	tool, targets = serving(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	if _, err := caller().Do(ctx, targets, tool, aCall); !errors.Is(err, why) {
		t.Errorf("after the worker stopped: %v", err)
	}
}
