package authority

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// webPages makes the requests of web pages in the browser of a user who has logged in to the
// UI. Their commands are signed by root and encrypted, so that nothing but the page's origin
// speaks against them.
type webPages struct {
	address string // 127.0.0.1:port
	port    string
	cookie  string
}

func newWebPages(t *testing.T) *webPages {
	t.Helper()
	ctx := e2e.Within(t)
	var st lab.Status
	if err := e2e.Lab.JSON(ctx, &st, "status"); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(st.Temporal.UI)
	if err != nil {
		t.Fatal(err)
	}
	w := &webPages{address: u.Host, port: u.Port()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(e2e.OK(t, "ui", "--temporal")), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		w.cookie = c.Name + "=" + c.Value
	}
	if res.StatusCode != http.StatusOK || w.cookie == "" {
		t.Fatalf("the link of `ctl ui --temporal` is answered %s", res.Status)
	}
	return w
}

// page returns what a page of an origin does, whose browser sends that Host header.
func (w *webPages) page(origin, host, site string) attempt {
	p := &webPage{w, http.Header{"Origin": {origin}, "Sec-Fetch-Site": {site}, "Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"},
		"Content-Type": {"application/json"}, "X-Namespace": {"default"}, "Cookie": {w.cookie}}, host}
	return p.try
}

type webPage struct {
	*webPages
	head http.Header
	host string
}

func (p *webPage) try(ctx context.Context, deed, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	switch deed {
	case deedStart:
		return nil, p.start(ctx, deed, id, protocol.SessionID(id), protocol.TypeSession, session.Input{ID: id, Options: sessionOptions()})
	case deedMessage:
		return nil, p.message(ctx, protocol.SessionID(target), protocol.SignalMessage, protocol.Message{ID: "m-" + id, Text: saying(id)})
	case deedDecide:
		d, err := decision(ctx)
		if err != nil {
			return nil, err
		}
		return nil, p.message(ctx, protocol.SessionID(target), protocol.SignalDecide, d)
	case deedExec:
		return nil, p.start(ctx, deed, id, execID(id), protocol.TypeExec, execInput(id))
	case deedImport:
		return nil, anyOf(p.start(ctx, deed, id, protocol.SeedID(id), protocol.TypeSeed, seed.Input{Name: id}),
			p.update(ctx, protocol.SeedID(id), protocol.UpdatePutSeed, putSeed(id)),
			p.worker(ctx, http.MethodPost, "/v1/seeds/"+id, scene.bundle, nil))
	case deedExport:
		var got []byte
		err := anyOf(p.update(ctx, protocol.SeedID("team"), protocol.UpdateExportSeed, protocol.ExportSeed{By: id, Recipient: recipient(id)}),
			p.worker(ctx, http.MethodPost, "/v1/seeds/team/export", asJSON(api.ExportSeed{By: id, Recipient: recipient(id)}), &got))
		if got != nil {
			return opened(id, got)
		}
		return nil, err
	case deedTranscript:
		var got []byte
		err := p.worker(ctx, http.MethodGet, "/v1/sessions/"+target+"/transcript?from=1", nil, &got)
		return got, err
	case deedDecode:
		return p.decode(ctx)
	}
	return nil, fmt.Errorf("no such deed: %s", deed)
}

func (p *webPage) start(ctx context.Context, deed, id, workflowID, kind string, in any) error {
	input, err := sealed(ctx, p.webPages, workflowID, "", kind, in)
	if err != nil {
		return err
	}
	_, err = p.ask(ctx, http.MethodPost, workflowPath(workflowID), map[string]any{
		"workflowType": map[string]string{"name": kind}, "taskQueue": map[string]string{"name": protocol.TaskQueue}, "input": input})
	if err != nil {
		return err
	}
	return fate(ctx, deed, id, workflowID, "")
}

func (p *webPage) message(ctx context.Context, workflowID, name string, msg any) error {
	input, err := sealed(ctx, p.webPages, workflowID, "/signal/"+name, name, msg)
	if err != nil {
		return err
	}
	_, err = p.ask(ctx, http.MethodPost, workflowPath(workflowID)+"/signal/"+name, map[string]any{"input": input})
	return anyOf(err, p.update(ctx, workflowID, name, msg))
}

func (p *webPage) update(ctx context.Context, workflowID, name string, msg any) error {
	input, err := sealed(ctx, p.webPages, workflowID, "/update/"+name, name, msg)
	if err != nil {
		return err
	}
	_, err = p.ask(ctx, http.MethodPost, workflowPath(workflowID)+"/update/"+name, map[string]any{
		"request":    map[string]any{"meta": map[string]string{"updateId": rand.Text()}, "input": map[string]any{"name": name, "args": input}},
		"waitPolicy": map[string]any{"lifecycleStage": "UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED"}})
	return err
}

func (p *webPage) decode(ctx context.Context) ([]byte, error) {
	// What is to be decoded, the page may have from elsewhere.
	history, err := asOwnPage(ctx, p.webPages, http.MethodGet, workflowPath(protocol.SessionID(target))+"/history", nil)
	if err != nil {
		return nil, err
	}
	var all any
	if err := json.Unmarshal(history, &all); err != nil {
		return nil, err
	}
	found := encrypted(all)
	if len(found) == 0 {
		return nil, errors.New("nothing in the history is encrypted")
	}
	out, err := p.ask(ctx, http.MethodPost, "/codec/decode", map[string]any{"payloads": found})
	_, serr := p.ask(ctx, http.MethodGet, workflowPath(protocol.SessionID(target))+"/history", nil)
	return append(out, e2e.Payloads(out)...), anyOf(err, serr)
}

// worker asks the worker's API, by a request that root has signed: at the UI's port and, as a
// browser that could reach it would, at its socket.
func (p *webPage) worker(ctx context.Context, method, target string, body []byte, got *[]byte) error {
	sign := func(head http.Header) (http.Header, error) {
		text, err := signedByRoot(method, target, body)
		head = head.Clone()
		head.Set(command.RequestHeader, text)
		return head, err
	}
	head, err := sign(p.head)
	if err != nil {
		return err
	}
	_, err = request(ctx, http.DefaultClient, method, "http://"+p.address+target, p.host, head, body)
	if p.host != p.address {
		return err // no name leads to a socket
	}
	if head, serr := sign(p.head); serr == nil {
		out, serr := request(ctx, overSocket(), method, "http://worker"+target, p.host, head, body)
		if serr == nil && got != nil {
			*got = out
		}
		err = anyOf(err, serr)
	}
	return err
}

func (p *webPage) ask(ctx context.Context, method, path string, body any) ([]byte, error) {
	var data []byte
	if body != nil {
		data = asJSON(body)
	}
	return request(ctx, http.DefaultClient, method, "http://"+p.address+path, p.host, p.head, data)
}

func asOwnPage(ctx context.Context, w *webPages, method, path string, body any) ([]byte, error) {
	own := &webPage{w, http.Header{"Origin": {"http://" + w.address}, "Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"},
		"X-Namespace": {"default"}, "Cookie": {w.cookie}}, w.address}
	return own.ask(ctx, method, path, body)
}

// sealed has a command of root signed and encrypted for its place.
func sealed(ctx context.Context, w *webPages, workflowID, place, name string, v any) (any, error) {
	arg, err := scene.boss.signed(workflowID, name, v)
	if err != nil {
		return nil, err
	}
	plain := map[string]any{"payloads": []any{map[string]any{"metadata": map[string]string{"encoding": base64.StdEncoding.EncodeToString([]byte("json/plain"))}, "data": asJSON(arg)}}}
	data, err := asOwnPage(ctx, w, http.MethodPost, "/codec/workflow/"+url.PathEscape(workflowID)+place+"/encode", plain)
	if err != nil {
		return nil, fmt.Errorf("the test encrypts a payload: %w", err)
	}
	var out any
	return out, json.Unmarshal(data, &out)
}

func workflowPath(id string) string {
	return "/api/v1/namespaces/default/workflows/" + url.PathEscape(id)
}

// request returns the answer to a request, if its status says that it was answered.
func request(ctx context.Context, c *http.Client, method, address, host string, head http.Header, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header, req.Host = head.Clone(), host
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.200s", method, req.URL.Path, res.Status, data)
	}
	return data, err
}

func apiSocket() string { return filepath.Join(e2e.Lab.State, "api.sock") }

func overSocket() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", apiSocket())
	}}}
}

// encrypted returns every encrypted payload in the UI's JSON.
func encrypted(v any) (found []any) {
	switch v := v.(type) {
	case map[string]any:
		meta, _ := v["metadata"].(map[string]any)
		if enc, _ := meta["encoding"].(string); enc == base64.StdEncoding.EncodeToString([]byte("binary/encrypted")) {
			return []any{v}
		}
		for _, x := range v {
			found = append(found, encrypted(x)...)
		}
	case []any:
		for _, x := range v {
			found = append(found, encrypted(x)...)
		}
	}
	return found
}
