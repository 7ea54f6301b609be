package outages

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/standin"
)

// A spanStore is a collector of traces. It keeps what it is sent.
type spanStore struct {
	mu    sync.Mutex
	sent  [][]byte
	spans map[string]sentSpan // by id
}

type sentSpan struct {
	*tracepb.Span
	service string
}

func (s *spanStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &in)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, body)
	for _, resource := range in.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.spans[hex.EncodeToString(span.GetSpanId())] = sentSpan{span, service}
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// lineage returns the names of the newest span of a name, of its parent, and so on.
func (s *spanStore) lineage(name string) (names []string, trace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.spans {
		if span.GetName() != name {
			continue
		}
		names, trace = nil, hex.EncodeToString(span.GetTraceId())
		for ok := true; ok; span, ok = s.spans[hex.EncodeToString(span.GetParentSpanId())] {
			names = append(names, span.service+" "+span.GetName())
		}
		return names, trace
	}
	return nil, ""
}

// One trace goes from ctl over the workflow and its activities to the host and to codex's turn.
// It has no text of the person or of the agent, and no secret.
func TestATraceGoesFromCtlToCodexAndSaysNothingThatWasWritten(t *testing.T) {
	ctx := e2e.Within(t)
	store := &spanStore{spans: map[string]sentSpan{}}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	pack := filepath.Join(t.TempDir(), "codex")
	if err := standin.Pack(ctx, e2e.Repo, pack); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("seeds: {unprotected: allow}\ntraces: {endpoint: %q, sample: 1}\n", server.URL)
	l, err := lab.New(ctx, lab.Options{Repo: e2e.Repo, Script: []byte("rules: [{reply: nobody asks}]"), Codex: pack, Config: config, Own: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := l.AddHost(ctx, "traced", hosttest.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := l.ImportSeed(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	const prompt, failing = "a sentence that only a person knows", "exit 7"
	for _, args := range [][]string{
		{"session", "start", "--host", "traced", "--seed", "team", "--sandbox", "danger-full-access", "--id", "told"},
		{"session", "send", "told", prompt},
		{"session", "close", "told"},
	} {
		if _, err := l.Out(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	// A message that fails its turn has an error, whose text stays away, too.
	if r := l.Ctl(ctx, nil, "run", "--host", "traced", "--seed", "team", "--sandbox", "danger-full-access", failing); r.Code == 0 {
		t.Errorf("codex left, and the turn did not fail: %v", r)
	}
	wanted := []string{"fairlead-worker Turn:codex", "fairlead-worker RunActivity:RunPump", "fairlead-worker StartActivity:RunPump", "fairlead-worker RunWorkflow:Session", "fairlead-ctl StartWorkflow:Session"}
	var names []string
	e2e.Until(t, "the whole trace of a turn", func() (bool, error) {
		names, _ = store.lineage("Turn:codex")
		return slices.Equal(names, wanted), nil
	})
	e2e.Until(t, "a script on the host in a trace that ctl began", func() (bool, error) {
		names, _ = store.lineage("SSH:run")
		return len(names) > 3 && strings.HasPrefix(names[1], "fairlead-worker RunActivity:") && strings.HasPrefix(names[len(names)-1], "fairlead-ctl "), nil
	})
	store.mu.Lock()
	defer store.mu.Unlock()
	for what, secret := range map[string]string{"the prompt": prompt, "the seed's token": l.Token, "the text of an error": "exit status", "a path": l.Dir} {
		for _, body := range store.sent {
			if bytes.Contains(body, []byte(secret)) {
				t.Errorf("the spans have %s", what)
			}
		}
	}
	for _, span := range store.spans {
		if len(span.GetAttributes()) > 16 || len(span.GetEvents()) != 0 || span.GetStatus().GetMessage() != "" {
			t.Errorf("%s says too much: %v", span.GetName(), span.Span)
		}
	}
}
