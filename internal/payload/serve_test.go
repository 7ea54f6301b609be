package payload

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestTheCodecEndpointEncryptsForThePlaceThatItsURLNames(t *testing.T) {
	c := NewCodec("default", key(t))
	server := httptest.NewServer(c.Handler(ServeOptions{Loopback: true}))
	defer server.Close()
	p := plain(t, "hello")
	for url, at := range map[string]place{
		"/workflow/session%2Fa":                   {kind: ofWorkflow, workflow: "session/a"},
		"/workflow/session%2Fa/signal/interrupt":  {kind: toSignal, workflow: "session/a", name: "interrupt"},
		"/workflow/seed%2Fa%20b/update/save_seed": {kind: toUpdate, workflow: "seed/a b", name: "save_seed"},
	} {
		remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: server.URL + Path + url})
		out, err := remote.Encode([]*commonpb.Payload{p})
		if err != nil || len(out) != 1 {
			t.Fatalf("%s: %v, %v", url, out, err)
		}
		if got, err := c.decodeAt(at, time.Time{}, out[0]); err != nil || !proto.Equal(got, p) {
			t.Errorf("%s: %v, %v", url, got, err)
		}
		if _, err := c.decodeAt(at.message(toSignal, "close"), time.Time{}, out[0]); !errors.Is(err, ErrMoved) {
			t.Errorf("%s, for another signal: %v", url, err)
		}
		for _, endpoint := range []string{"", url} {
			back, err := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: server.URL + Path + endpoint}).Decode(out)
			if err != nil || len(back) != 1 || !proto.Equal(back[0], p) {
				t.Errorf("%s: decoded at %q to %v, %v", url, endpoint, back, err)
			}
		}
	}
	res, err := http.Post(server.URL+Path+"/encode", "application/json", strings.NewReader(`{"payloads":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("without a place: %s", res.Status)
	}
}

// The endpoint encrypts for whoever may call it.
func TestTheCodecEndpointMarksNothingAsWrittenByAWorker(t *testing.T) {
	c := NewCodec("default", key(t)).ForWorkers(Workers{Keys: []Key{key(t)}, Required: true, Internal: func(Message) bool { return true }})
	at := place{kind: toSignal, workflow: "pool/default", name: "acquire"}
	plain, err := converter.GetDefaultDataConverter().ToPayload("x")
	if err != nil {
		t.Fatal(err)
	}
	input := place{kind: ofWorkflow, workflow: "pool/default"}
	mine, err := c.encodeFor(input, forInput("HostPool"), []*commonpb.Payload{plain})
	if err != nil || !c.ByWorkers("HostPool", mine) || c.ByWorkers("Seed", mine) {
		t.Fatalf("a worker does not mark what it writes: %v", err)
	}
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: []*commonpb.Payload{plain}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, Path+"/workflow/pool%2Fdefault/signal/acquire/encode", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	c.Handler(ServeOptions{}).ServeHTTP(w, r)
	var out commonpb.Payloads
	if err := protojson.Unmarshal(w.Body.Bytes(), &out); err != nil || len(out.Payloads) != 1 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if got, err := c.decodeAt(at, time.Time{}, out.Payloads[0]); err != nil || string(got.GetData()) != `"x"` {
		t.Errorf("it encrypts for the place: %v, %v", got, err)
	}
	if o, err := c.origin(time.Time{}, "", out.Payloads); o != FromOthers || err != nil {
		t.Error("it marks what anybody asks for")
	}
}
