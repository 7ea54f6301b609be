package httpapi_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/tokens"
)

// A place is the API over a fake of the workflows, served by a real api.Server on a unix
// socket, with tokens of each role.
type place struct {
	*testing.T
	fake    *fake
	server  *api.Server
	records *api.Records
	hub     *api.Hub
	store   *store.Store
	api     *httpapi.API
	secrets map[string]string // of tokens, by role
	mu      sync.Mutex
	refused []audit.Record
}

// running says that each session runs.
type running struct{}

func (running) Running(context.Context, string) (bool, error) { return true, nil }
func (running) Now(context.Context, string) (inquiry.SessionNow, error) {
	return inquiry.SessionNow{Runs: true}, nil
}

func serve(t *testing.T, change ...func(*api.Options)) *place {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(t.TempDir(), "store"), Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	p := &place{T: t, fake: &fake{}, hub: api.NewHub(nil), store: st, secrets: map[string]string{}}
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	a, err := access.Parse(fmt.Appendf(nil, "people:\n  - {name: ann, keys: [%q]}\nbindings:\n  - {name: admins, roles: [admin], to: [ann]}\n", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))))
	if err != nil {
		t.Fatal(err)
	}
	book := tokens.Open(st, slog.New(slog.DiscardHandler))
	for _, role := range access.Roles {
		if p.secrets[string(role)], _, err = book.Create(t.Context(), access.Token{Name: string(role), Owner: "ann", Roles: []access.Role{role}, ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if p.secrets["narrow"], _, err = book.Create(t.Context(), access.Token{Name: "narrow", Owner: "ann", Roles: []access.Role{access.Operator}, Scope: []access.Verb{access.SessionMessage}, ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	keeper := authority.Fixed(a, time.Now)
	keeper.Know(book)
	opts := api.Options{
		Listen: "unix://" + filepath.Join(t.TempDir(), "api.sock"), Store: st, Hub: p.hub, Sessions: running{}, Authority: keeper, Tokens: book,
		Status: func() api.Status { return api.Status{} },
		Alive:  20 * time.Millisecond, Workspaces: folders{},
		Record: func(r audit.Record) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.refused = append(p.refused, r)
		},
		Programs: func(r *api.Records) api.Programs {
			p.records, p.api = r, httpapi.New(p.fake, r)
			return p.api
		},
	}
	for _, f := range change {
		f(&opts)
	}
	if p.server, err = api.Serve(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.server.Close() })
	return p
}

// A reply is an answer of the API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) problem(t *testing.T) httpapi.Problem {
	t.Helper()
	var p httpapi.Problem
	if err := json.Unmarshal(r.body, &p); err != nil || r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("status %d is no problem: %s %s", r.status, r.header.Get("Content-Type"), r.body)
	}
	return p
}

// ask makes a request with the token of a role, or with none.
func (p *place) ask(role, method, target, body string, header ...string) reply {
	p.Helper()
	resp := p.open(p.Context(), role, method, target, body, header...)
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		p.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, data}
}

func (p *place) open(ctx context.Context, role, method, target, body string, header ...string) *http.Response {
	p.Helper()
	resp, err := p.try(ctx, role, method, target, body, header...)
	if err != nil {
		p.Fatal(err)
	}
	return resp
}

// try makes a request whose connection may be cut.
func (p *place) try(ctx context.Context, role, method, target, body string, header ...string) (*http.Response, error) {
	p.Helper()
	path, unix := strings.CutPrefix(p.server.Address(), "unix://")
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if unix {
			network, address = "unix", path
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	p.Cleanup(tr.CloseIdleConnections)
	base := "http://worker"
	if !unix {
		base = p.server.Address()
	}
	r, err := http.NewRequestWithContext(ctx, method, base+target, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	if role != "" {
		r.Header.Set("Authorization", "Bearer "+p.secrets[role])
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return (&http.Client{Transport: tr}).Do(r)
}

// A fake is the workflows: it knows session s1 with approval s1.1, and keeps what it is asked.
type fake struct {
	sync.Mutex
	keys []string
	msgs []any
	err  error
	// gone are approvals that are not listed any more, and lists is called by each list.
	gone  []string
	lists func()
}

func (f *fake) took(key string, msg any) error {
	f.Lock()
	defer f.Unlock()
	f.keys, f.msgs = append(f.keys, key), append(f.msgs, msg)
	return f.err
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func session(id string) protocol.SessionView {
	return protocol.SessionView{ID: id, State: protocol.Waiting, Host: "web-1", Turn: &protocol.TurnBrief{N: 1, ID: "t", Status: "inProgress", StartedAt: noon},
		Requests: []protocol.RequestBrief{{ID: id + ".1", Kind: "command", Summary: "run ls", AskedAt: noon, ExpiresAt: noon.Add(time.Hour)}},
		Attempt:  1, Messages: []protocol.MessageView{}, CreatedAt: noon, UpdatedAt: noon, Budget: &protocol.BudgetView{},
		Options: map[string]string{"sandbox": "read-only"}}
}

func approval(id string) protocol.Approval {
	session, _, _ := protocol.CutApproval(id)
	return protocol.Approval{ID: id, Session: session, Turn: 1, Kind: "command", Summary: "run ls", Command: "ls", CWD: "/w", Digest: strings.Repeat("a", 64),
		Offered: []string{"accept", "decline"}, AskedAt: noon, ExpiresAt: noon.Add(time.Hour), State: protocol.ApprovalOpen}
}

func (f *fake) Start(_ context.Context, key string, in httpapi.StartSession) (httpapi.Started, error) {
	return httpapi.Started{ID: "s9", N: 1, MessageID: "m-1"}, f.took(key, in)
}

// kept is a session as it is shown while no worker answers.
func kept(id string) any {
	return map[string]any{"id": id, "state": "idle", "host": "", "seed": "", "thread_id": "", "turn": map[string]any{"n": 1, "id": nil, "status": nil, "started_at": nil},
		"requests": nil, "attempt": nil, "process": nil, "usage": nil, "messages": nil, "updated_at": nil, "created_at": noon, "error": nil}
}

func (f *fake) List(_ context.Context, in httpapi.Filter, limit int, after []byte) ([]httpapi.Listed, []byte, error) {
	if f.lists != nil {
		f.lists()
	}
	if err := f.took(string(after), in); err != nil {
		return nil, nil, err
	}
	if len(after) > 0 {
		return []httpapi.Listed{{ID: "s2", View: kept("s2")}}, nil, nil
	}
	return []httpapi.Listed{{ID: "s1", View: session("s1")}}, []byte("s1"), nil
}

func (f *fake) Show(_ context.Context, id string) (any, error) { return session(id), f.took("", id) }

func (f *fake) Send(_ context.Context, key, id string, in httpapi.NewMessage) (protocol.MessageAccepted, error) {
	return protocol.MessageAccepted{Session: id, N: 2, MessageID: "m-2"}, f.took(key, in)
}

func (f *fake) Turn(_ context.Context, id string, n int) (protocol.TurnView, error) {
	return protocol.TurnView{Session: id, N: n, Status: "completed", FinalText: "done", StartedAt: noon, EndedAt: noon}, f.took("", n)
}

func (f *fake) Tell(_ context.Context, key, id string, msg any) (any, error) {
	return session(id), f.took(key, msg)
}

func (f *fake) SetSession(_ context.Context, key, id string, in httpapi.SessionSettings) (any, error) {
	return session(id), f.took(key, in)
}

func (f *fake) Act(_ context.Context, key, id string, act protocol.Act, review *protocol.Review) (protocol.MessageAccepted, error) {
	return protocol.MessageAccepted{Session: id, N: 2, MessageID: "m-2"}, f.took(key, act)
}

func (f *fake) Models(_ context.Context, id string) (protocol.ModelsView, error) {
	return protocol.ModelsView{Session: id, Model: "gpt", At: noon, Models: []protocol.Model{{ID: "gpt", Name: "GPT", Efforts: []string{"low"}}}}, f.took("", id)
}

func (f *fake) Push(_ context.Context, key, id string, in httpapi.Pushing) (httpapi.Pushed, error) {
	return httpapi.Pushed{Branch: in.Branch, Commit: id}, f.took(key, in)
}

func (f *fake) TakeSnapshot(_ context.Context, key, id string) (protocol.SnapshotAccepted, error) {
	return protocol.SnapshotAccepted{Session: id, N: 1}, f.took(key, "snapshot")
}

func (f *fake) Restore(_ context.Context, key, snapshot string, in httpapi.StartSession) (httpapi.Started, error) {
	return httpapi.Started{ID: "s1b"}, f.took(key, in)
}

func (f *fake) Fork(_ context.Context, key, id string, in httpapi.StartSession) (httpapi.Started, error) {
	return httpapi.Started{ID: "s1b"}, f.took(key, in)
}

func (f *fake) Approvals(_ context.Context, of string, all bool, may func(string) bool) ([]protocol.Approval, error) {
	list := []protocol.Approval{}
	for _, id := range []string{"s1.1", "s1.2", "s2.1"} {
		if ap := approval(id); (of == "" || of == ap.Session) && may(ap.Session) && !slices.Contains(f.gone, id) {
			list = append(list, ap)
		}
	}
	return list, f.took("", all)
}

func (f *fake) Approval(_ context.Context, id string) (protocol.Approval, error) {
	return approval(id), f.took("", id)
}

func (f *fake) Decide(_ context.Context, key string, d protocol.Decide) (protocol.Approval, error) {
	ap := approval(d.Approval)
	ap.State, ap.Decision = protocol.ApprovalDecided, &protocol.Decision{Outcome: d.Outcome, By: "token:approver", At: noon, Scope: "once"}
	return ap, f.took(key, d)
}

// kept returns the records of refusals.
func (p *place) kept() []audit.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]audit.Record(nil), p.refused...)
}
