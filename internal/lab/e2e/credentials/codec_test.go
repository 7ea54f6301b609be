package credentials

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// What people and codex say is not readable in Temporal's database, log or
// histories; with the key it is all there.
func TestNothingThatWasSaidCanBeReadInTemporal(t *testing.T) {
	e2e.Session(t, "sealed")
	const prompt, reason = "hello marked-prompt-51c7", "marked-reason-90ab"
	e2e.Turn(t, "sealed", prompt)
	e2e.Send(t, "sealed", "you need a command")
	a := e2e.Open(t, "sealed", 1)[0]
	e2e.OK(t, "approval", "accept", a.ID, "--reason", reason)
	e2e.Ended(t, "sealed", 2)
	const command = "ran.txt; cat ran.txt" // without characters that JSON escapes
	if !strings.Contains(a.Command, command) {
		t.Fatalf("the command to look for is %q", a.Command)
	}
	marks := []string{"marked-prompt-51c7", reason, command}

	ctx := e2e.Within(t)
	c, err := e2e.Lab.Outsider(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	codec, err := e2e.Lab.Codec("default")
	if err != nil {
		t.Fatal(err)
	}
	var sealed, opened strings.Builder
	encrypted := 0
	it := c.GetWorkflowHistory(ctx, protocol.SessionID("sealed"), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		show := func(to *strings.Builder) {
			text, err := protojson.Marshal(ev)
			if err != nil {
				t.Fatal(err)
			}
			to.Write(text)
			to.WriteString(e2e.Payloads(text))
		}
		show(&sealed)
		n, err := lab.Decrypt(ctx, codec, ev)
		if err != nil {
			t.Fatal(err)
		}
		encrypted += n
		show(&opened)
	}
	for _, mark := range marks {
		if strings.Contains(sealed.String(), mark) {
			t.Errorf("%q stands in the history", mark)
		}
		if !strings.Contains(opened.String(), mark) {
			t.Errorf("%q does not stand in the history when it is decrypted: this test cannot find it", mark)
		}
	}
	files, err := filepath.Glob(filepath.Join(e2e.Lab.State, "temporal.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no database: %v, %v", files, err)
	}
	logs, err := filepath.Glob(filepath.Join(e2e.Lab.State, "logs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	id := false
	for _, file := range append(files, logs...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		id = id || bytes.Contains(data, []byte("session/sealed"))
		for _, mark := range marks {
			if bytes.Contains(data, []byte(mark)) {
				t.Errorf("%q stands in %s", mark, file)
			}
		}
	}
	if !id {
		t.Error("the session's id is not in the database: this test looks in the wrong place")
	}
	t.Logf("%d payloads were encrypted", encrypted)
	e2e.OK(t, "session", "close", "sealed")
}

// The UI asks its server for a history, its settings, and the decoded payloads.
func TestTheUIReadsThroughTheWorker(t *testing.T) {
	e2e.Session(t, "seen")
	const prompt = "hello marked-for-the-ui"
	e2e.Turn(t, "seen", prompt)
	ctx := e2e.Within(t)
	var st lab.Status
	if err := e2e.Lab.JSON(ctx, &st, "status"); err != nil {
		t.Fatal(err)
	}
	cookie := logIn(t)
	get := func(path string, into any) {
		t.Helper()
		data := ask(t, http.MethodGet, st.Temporal.UI+path, http.Header{"Cookie": {cookie}}, nil, http.StatusOK)
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%s: %v: %.300s", path, err, data)
		}
	}
	var settings struct{ Codec struct{ Endpoint string } }
	get("/api/v1/settings", &settings)
	if settings.Codec.Endpoint != "/codec" || st.Temporal.CodecEndpoint != st.Temporal.UI+settings.Codec.Endpoint {
		t.Fatalf("the UI asks %q, status says %q", settings.Codec.Endpoint, st.Temporal.CodecEndpoint)
	}
	var history any
	get("/api/v1/namespaces/default/workflows/session%2Fseen/history", &history)
	found := collect(history)
	if len(found) < 4 {
		t.Fatalf("%d payloads in the history", len(found))
	}
	body, err := json.Marshal(map[string]any{"payloads": found})
	if err != nil {
		t.Fatal(err)
	}
	decode := st.Temporal.CodecEndpoint + "/decode"
	asUI := http.Header{"Origin": {st.Temporal.UI}, "Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"}, "X-Namespace": {"default"}, "Cookie": {cookie}}
	var plain struct {
		Payloads []struct {
			Metadata map[string][]byte
			Data     []byte
		}
	}
	if err := json.Unmarshal(ask(t, http.MethodPost, decode, asUI, body, http.StatusOK), &plain); err != nil {
		t.Fatal(err)
	}
	said := false
	for _, p := range plain.Payloads {
		said = said || bytes.Contains(p.Data, []byte(prompt))
		if enc := string(p.Metadata["encoding"]); enc != "json/plain" && enc != "binary/null" {
			t.Errorf("decoded to %q", enc)
		}
	}
	if len(plain.Payloads) != len(found) || !said {
		t.Errorf("%d of %d payloads decoded, the prompt among them is %v", len(plain.Payloads), len(found), said)
	}

	// Others must be refused.
	for name, c := range map[string]struct {
		change http.Header
		want   int
	}{
		"another page":         {http.Header{"Origin": {"http://evil.example"}, "Cookie": {cookie}}, http.StatusForbidden},
		"a page in a sandbox":  {http.Header{"Origin": {"null"}, "Cookie": {cookie}}, http.StatusForbidden},
		"a name that is bound": {http.Header{"Origin": {st.Temporal.UI}, "Host": {"evil.example"}, "Cookie": {cookie}}, http.StatusMisdirectedRequest},
		"another user":         {http.Header{}, http.StatusUnauthorized},
	} {
		if data := ask(t, http.MethodPost, decode, c.change, body, c.want); bytes.Contains(data, []byte("payloads\"")) {
			t.Errorf("%s is answered %.200s", name, data)
		}
	}
	e2e.OK(t, "session", "close", "seen")
}

// Temporal's own CLI has no key: it encodes and decodes through the codec endpoint, which it
// enters with the stack's token.
func TestWhatTemporalsCLISendsThroughTheCodecEndpointTakesEffect(t *testing.T) {
	e2e.Session(t, "plainly")
	ctx := e2e.Within(t)
	var st lab.Status
	if err := e2e.Lab.JSON(ctx, &st, "status"); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(e2e.Lab.State, "codec.token"))
	if err != nil {
		t.Fatal(err)
	}
	through := func(endpoint string) converter.PayloadCodec {
		return converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: endpoint, ModifyRequest: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
			r.Header.Set("X-Namespace", st.Temporal.Namespace)
			return nil
		}})
	}
	opts := client.Options{HostPort: st.Temporal.Address, Namespace: st.Temporal.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		DataConverter: converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), through(st.Temporal.CodecEndpoint+"/workflow/session%2Fplainly/signal/message"))}
	if opts.ConnectionOptions.TLS, err = e2e.Lab.TLS(); err != nil {
		t.Fatal(err)
	}
	c, err := client.DialContext(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const prompt = "hello marked-for-the-cli"
	if err := c.SignalWorkflow(ctx, protocol.SessionID("plainly"), "", protocol.SignalMessage, protocol.Message{ID: "m-1", Text: prompt, By: "me"}); err != nil {
		t.Fatal(err)
	}
	e2e.Ended(t, "plainly", 1)
	if text := e2e.LastText(t, "plainly"); !strings.Contains(text, prompt) {
		t.Errorf("the session says %q", text)
	}
	decoder := through(st.Temporal.CodecEndpoint)
	it := c.GetWorkflowHistory(ctx, protocol.SessionID("plainly"), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		signal := ev.GetWorkflowExecutionSignaledEventAttributes()
		if signal.GetSignalName() != protocol.SignalMessage {
			continue
		}
		sealed := signal.GetInput().GetPayloads()
		opened, err := decoder.Decode(sealed)
		if err != nil || len(opened) != 1 || !bytes.Contains(opened[0].GetData(), []byte(prompt)) || bytes.Contains(sealed[0].GetData(), []byte(prompt)) {
			t.Errorf("the message %v is decoded to %v, %v", sealed, opened, err)
		}
		return
	}
	t.Error("the history has no message")
}

// logIn opens the link of `ctl ui --temporal` as a browser does, and returns its cookie.
func logIn(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(e2e.Within(t), http.MethodGet, strings.TrimSpace(e2e.OK(t, "ui", "--temporal")), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cookies := res.Cookies()
	if res.StatusCode != http.StatusOK || len(cookies) != 1 {
		t.Fatalf("the link of `ctl ui --temporal` is answered %s with %d cookies", res.Status, len(cookies))
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

func ask(t *testing.T, method, url string, head http.Header, body []byte, want int) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(e2e.Within(t), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range head {
		req.Header[k] = v
	}
	req.Host = head.Get("Host")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		t.Fatalf("%s %s: %s, %v: %.300s", method, url, res.Status, err, data)
	}
	return data
}

// collect returns every encrypted payload in the UI's JSON.
func collect(v any) (found []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		meta, _ := v["metadata"].(map[string]any)
		if enc, _ := meta["encoding"].(string); enc == base64.StdEncoding.EncodeToString([]byte("binary/encrypted")) {
			return []map[string]any{v}
		}
		for _, x := range v {
			found = append(found, collect(x)...)
		}
	case []any:
		for _, x := range v {
			found = append(found, collect(x)...)
		}
	}
	return found
}
