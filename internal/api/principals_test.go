package api

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// example is a request to each route that its handler could answer.
var example = map[string]string{
	"GET /v1/status":                                   "/v1/status",
	"GET /v1/login":                                    "/v1/login",
	"POST /v1/login":                                   "/v1/login",
	"POST /v1/whoami":                                  "/v1/whoami",
	"GET /v1/sessions/{id}/feed":                       "/v1/sessions/s1/feed",
	"GET /v1/sessions/{id}/transcript":                 "/v1/sessions/s1/transcript",
	"GET /v1/sessions/{id}/live":                       "/v1/sessions/s1/live",
	"GET /v1/sessions/{id}/requests/{digest}":          "/v1/sessions/s1/requests/" + strings.Repeat("0", 64),
	"POST /v1/sessions/{id}/requests/{digest}/answers": "/v1/sessions/s1/requests/" + strings.Repeat("0", 64) + "/answers",
	"GET /v1/sessions/{id}/deliverables":               "/v1/sessions/s1/deliverables",
	"GET /v1/sessions/{id}/deliverables/{call}":        "/v1/sessions/s1/deliverables/c1",
	"GET /v1/sessions/{id}/instructions":               "/v1/sessions/s1/instructions",
	"GET /v1/sessions/{id}/model-bodies":               "/v1/sessions/s1/model-bodies",
	"GET /v1/sessions/{id}/model-bodies/{body}":        "/v1/sessions/s1/model-bodies/b1",
	"GET /v1/sessions/{id}/diffs/{turn}":               "/v1/sessions/s1/diffs/last",
	"GET /v1/sessions/{id}/diff":                       "/v1/sessions/s1/diff",
	"GET /v1/sessions/{id}/files":                      "/v1/sessions/s1/files?path=a",
	"GET /v1/exec/{id}":                                "/v1/exec/x-1?host=h1",
	"POST /v1/tunnels/{host}/{port}":                   "/v1/tunnels/h1/8080",
	"POST /v1/messages":                                "/v1/messages?folder=session.s1.0123456789abcdef",
	"POST /v1/inputs/{kind}":                           "/v1/inputs/file?folder=session.s1.0123456789abcdef&name=a&bytes=1&sha256=" + command.BodyDigest([]byte("x")),
	"POST /v1/batches":                                 "/v1/batches?folder=batch.b2.0123456789abcdef",
	"POST /v1/tokens":                                  "/v1/tokens?session=s1&repo=https://git.example.com/a.git",
	"GET /v1/batches/results/{folder}/{part}":          "/v1/batches/results/batch.b1.0123456789abcdef/" + strings.Repeat("0", 64),
	"POST /v1/uploads/missing":                         "/v1/uploads/missing",
	"POST /v1/uploads":                                 "/v1/uploads?session=s1",
	"POST /v1/seeds/{name}":                            "/v1/seeds/team",
	"POST /v1/seeds/{name}/export":                     "/v1/seeds/team/export",
	"GET /v1/snapshots":                                "/v1/snapshots?session=s1",
	"GET /v1/snapshots/{id}":                           "/v1/snapshots/s1.snap-20260101t000000-012345",
	"GET /v1/snapshots/{id}/export":                    "/v1/snapshots/s1.snap-20260101t000000-012345/export",
	"DELETE /v1/snapshots/{id}":                        "/v1/snapshots/s1.snap-20260101t000000-012345",
	"GET /v1/audit":                                    "/v1/audit?session=s1",
	"POST /v1/access/why":                              "/v1/access/why",
	"GET /v1/access/versions":                          "/v1/access/versions",
	"GET /v1/access/versions/{digest}":                 "/v1/access/versions/" + strings.Repeat("0", 64),
	"GET /v1/api-tokens":                               "/v1/api-tokens",
	"POST /v1/api-tokens":                              "/v1/api-tokens",
	"DELETE /v1/api-tokens/{name}":                     "/v1/api-tokens/ci",
	"POST /v1/api-tokens/certificate":                  "/v1/api-tokens/certificate",
	"POST /v1/slack/codes":                             "/v1/slack/codes",
	"GET /v1/slack/accounts":                           "/v1/slack/accounts",
	"DELETE /v1/slack/accounts/{team}/{user}":          "/v1/slack/accounts/T1/U1",
	"/": "/v2/anything",
}

// ownAffairs are routes at which each principal may ask about itself.
var ownAffairs = map[string]bool{"/": true, "POST /v1/api-tokens/certificate": true, "POST /v1/access/why": true,
	"GET /v1/slack/accounts": true, "DELETE /v1/slack/accounts/{team}/{user}": true}

func TestEveryHandlerIsInTheTableOfRoutes(t *testing.T) {
	inTable := map[string]bool{}
	registrations := 0
	fset := token.NewFileSet()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var handlers []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(fset, f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if k, ok := n.Key.(*ast.Ident); ok && k.Name == "serve" {
					switch f := n.Value.(type) {
					case *ast.SelectorExpr:
						inTable[f.Sel.Name] = true
					case *ast.Ident:
						inTable[f.Name] = true
					}
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "HandleFunc" || n.Sel.Name == "Handle" {
					registrations++
				}
			case *ast.FuncDecl:
				if takesRequest(n) {
					handlers = append(handlers, n.Name.Name)
				}
			}
			return true
		})
	}
	if registrations != 1 {
		t.Errorf("handlers are registered at %d places: the table of routes is the only one", registrations)
	}
	if len(handlers) < 20 {
		t.Fatalf("only %d handlers were found: this test looks in the wrong place", len(handlers))
	}
	for _, h := range handlers {
		if !inTable[h] {
			t.Errorf("%s takes requests and is not in the table of routes, which says who may make them", h)
		}
	}
	for _, r := range routes {
		if r.needs == nil || r.serve == nil {
			t.Errorf("%s: the table does not say what it needs", r.pattern)
		}
		if example[r.pattern] == "" {
			t.Errorf("%s: no request to it is tried in these tests", r.pattern)
		}
	}
}

// takesRequest reports whether a method is func(http.ResponseWriter, *http.Request), or a
// function is that with a *Server before.
func takesRequest(f *ast.FuncDecl) bool {
	var types []string
	for _, p := range f.Type.Params.List {
		name := ""
		switch e := p.Type.(type) {
		case *ast.SelectorExpr:
			name = e.Sel.Name
		case *ast.StarExpr:
			switch x := e.X.(type) {
			case *ast.SelectorExpr:
				name = x.Sel.Name
			case *ast.Ident:
				name = x.Name
			}
		}
		types = append(types, name)
	}
	if f.Recv == nil && len(types) > 0 && types[0] == "Server" {
		types = types[1:]
	} else if f.Recv == nil {
		return false
	}
	return len(types) == 2 && types[0] == "ResponseWriter" && types[1] == "Request" && f.Type.Results == nil
}

func methodOf(pattern string) string {
	method, _, ok := strings.Cut(pattern, " ")
	if !ok {
		return "GET"
	}
	return method
}

func TestAStrangerReadsNothing(t *testing.T) {
	c := lockedBench(t)
	now := time.Now()
	for _, r := range routes {
		target, method := example[r.pattern], methodOf(r.pattern)
		for what, header := range map[string]http.Header{
			"unsigned":             nil,
			"signed by a stranger": c.signed("stranger", method, target, "", now),
			"in another's name": func() http.Header {
				h, err := command.SignRequest(keyOf(t, "stranger"), "ann", command.Request{Method: method, Target: target, Worker: c.server.id, Body: command.BodyDigest(nil)}, now)
				if err != nil {
					t.Fatal(err)
				}
				return http.Header{http.CanonicalHeaderKey(command.RequestHeader): {h}}
			}(),
		} {
			status, body := c.raw(method, target, "", header)
			if r.open {
				if r.pattern == "GET /v1/status" && (strings.Contains(body, "where-the-store-is") || !strings.Contains(body, `"ready":true`)) || r.pattern != "GET /v1/status" && status == http.StatusOK {
					t.Errorf("%s, %s: %d %s", r.pattern, what, status, body)
				}
				continue
			}
			if status != http.StatusUnauthorized || !strings.Contains(body, `"kind":"unauthorized"`) || !strings.Contains(body, "sign_with") {
				t.Errorf("%s, %s: %d %s", r.pattern, what, status, body)
			}
		}
	}
}

func TestWhoHasNoRoleMayDoNothing(t *testing.T) {
	c := lockedBench(t)
	for _, r := range routes {
		if r.open || ownAffairs[r.pattern] {
			continue
		}
		target, method := example[r.pattern], methodOf(r.pattern)
		status, body := c.raw(method, target, "", c.signed("nobody", method, target, "", time.Now()))
		if status != http.StatusForbidden || !strings.Contains(body, `"kind":"forbidden"`) {
			t.Errorf("%s: %d %s", r.pattern, status, body)
		}
	}
}

func TestAViewerReadsAndDoesNothingElse(t *testing.T) {
	c := lockedBench(t)
	reads := map[string]bool{}
	for _, p := range []string{"feed", "transcript", "live", "requests/{digest}", "deliverables", "deliverables/{call}", "diffs/{turn}", "diff", "files", "instructions"} {
		reads["GET /v1/sessions/{id}/"+p] = true
	}
	for _, p := range []string{"GET /v1/batches/results/{folder}/{part}", "GET /v1/snapshots", "GET /v1/snapshots/{id}", "GET /v1/snapshots/{id}/export"} {
		reads[p] = true
	}
	c.sessions.closed.Store(true) // so that feeds end
	c.keep("s1", 1, 1, entry(1, "a", "hello"))
	for _, r := range routes {
		if r.open || ownAffairs[r.pattern] {
			continue
		}
		target, method := example[r.pattern], methodOf(r.pattern)
		status, body := c.raw(method, target, "", c.signed("vic", method, target, "", time.Now()))
		if refused := status == http.StatusForbidden || status == http.StatusUnauthorized; refused == reads[r.pattern] {
			t.Errorf("%s: %d %s", r.pattern, status, body)
		}
	}
}

func TestConditionsSeeTheObjectOfARequest(t *testing.T) {
	c := lockedBench(t)
	own := c.as("own")
	if _, err := own.Live(t.Context(), "s1"); err != nil {
		t.Errorf("the owner of s1: %v", err)
	}
	for _, id := range []string{"s2", "s-that-temporal-forgot"} {
		var e *Error
		if _, err := own.Live(t.Context(), id); !errors.As(err, &e) || e.Kind != ErrForbidden {
			t.Errorf("%s is not their own: %v", id, err)
		}
	}
	if _, err := own.PutMessage(t.Context(), "session.new.0123456789abcdef", "hello"); err != nil {
		t.Errorf("a message for a session that they may begin: %v", err)
	}
	var e *Error
	if _, err := own.PutMessage(t.Context(), "session.s2.0123456789abcdef", "hello"); !errors.As(err, &e) || e.Kind != ErrForbidden {
		t.Errorf("a message for another's session: %v", err)
	}
	c.things.err = errors.New("no worker answers")
	if _, err := own.Live(t.Context(), "s1"); !errors.As(err, &e) || e.Kind != ErrStore {
		t.Errorf("a session that cannot be asked: %v", err)
	}
	asked := c.things.asked
	if _, err := c.as("vic").Live(t.Context(), "s1"); err != nil || c.things.asked != asked {
		t.Errorf("who needs no condition: %v, and %d sessions were asked", err, c.things.asked-asked)
	}
}

// Data in the store belong to who first had the session's id, whoever starts a session of
// that id later.
func TestDataOfASessionStayTheirOwners(t *testing.T) {
	c := lockedBench(t)
	own := c.as("own")
	first := func(id, owner string) {
		if refused, err := records.Own(t.Context(), c.store, protocol.SessionOwner{Session: id, Owner: owner}); refused != "" || err != nil {
			t.Fatal(refused, err)
		}
	}
	first("s1", "olga") // own started s1 anew
	first("s4", "own")  // Temporal has forgotten s4
	c.things.objects["session/s5"] = access.Object{Session: "s5", Unknown: true}
	first("s5", "own") // own's s5 begins again
	c.things.objects["session/s6"] = access.Object{Session: "s6", Unknown: true}
	for id, want := range map[string]bool{"s1": false, "s4": true, "s5": true, "s6": false} {
		var e *Error
		_, err := own.Live(t.Context(), id)
		if (err == nil) != want || !want && (!errors.As(err, &e) || e.Kind != ErrForbidden) {
			t.Errorf("%s: %v, want it allowed: %v", id, err, want)
		}
	}
}

// A workflow's id can name any host. Where a command ran is what its worker recorded.
func TestOutputOfACommandIsForThoseWhoMayRunItOnItsHost(t *testing.T) {
	c := lockedBench(t)
	c.law.Lock()
	c.law.a = accessFile(t, "  - {name: web, roles: [host-operator], to: [own], when: 'host.name == \"web\"'}\n  - {name: dev, roles: [host-operator], to: [olga], when: 'host.labels.get(\"env\") == \"dev\"'}\n")
	c.law.Unlock()
	for id, p := range map[string]records.ExecPlace{"of-web": {Host: "web", Labels: map[string]string{"env": "dev"}}, "of-db": {Host: "db", Labels: map[string]string{}}, "of-old": {Host: "old"}} {
		if other, err := records.PlaceExec(t.Context(), c.store, id, p); other != "" || err != nil {
			t.Fatal(other, err)
		}
		if err := c.store.Put(t.Context(), records.ExecEndKey(id), []byte(`{"state":"exited"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if other, err := records.PlaceExec(t.Context(), c.store, "of-db", records.ExecPlace{Host: "web"}); other != "db" || err != nil {
		t.Errorf("a command of the same id on another host: it is said to run on %q: %v", other, err)
	}
	for _, r := range []struct {
		who, id, host string
		want          bool
	}{
		{"own", "of-web", "web", true}, {"own", "of-db", "db", false}, {"own", "of-db", "web", false}, {"own", "unknown", "web", false},
		{"olga", "of-web", "web", true}, {"olga", "of-db", "db", false}, {"olga", "of-db", "web", false}, {"olga", "of-old", "old", false},
		{"ann", "of-db", "db", true},
	} {
		var err error
		for _, err = range c.as(r.who).Exec(t.Context(), r.host, r.id, 0, 0) {
			if err != nil {
				break
			}
		}
		var e *Error
		if (err == nil) != r.want || !r.want && (!errors.As(err, &e) || e.Kind != ErrForbidden) {
			t.Errorf("%s asks for %s on %s: %v, want it allowed: %v", r.who, r.id, r.host, err, r.want)
		}
	}
}

func TestAReplayedRequestIsRefused(t *testing.T) {
	c := lockedBench(t)
	h := c.signed("vic", "GET", "/v1/sessions/s1/live", "", time.Now())
	if status, body := c.raw("GET", "/v1/sessions/s1/live", "", h); status != http.StatusOK {
		t.Fatalf("at first: %d %s", status, body)
	}
	if status, body := c.raw("GET", "/v1/sessions/s1/live", "", h); status != http.StatusUnauthorized || !strings.Contains(body, "counts once") {
		t.Errorf("again: %d %s", status, body)
	}
	for what, at := range map[string]time.Time{"six minutes ago": time.Now().Add(-6 * time.Minute), "in six minutes": time.Now().Add(6 * time.Minute)} {
		if status, body := c.raw("GET", "/v1/sessions/s1/live", "", c.signed("vic", "GET", "/v1/sessions/s1/live", "", at)); status != http.StatusUnauthorized || !strings.Contains(body, "clock") {
			t.Errorf("signed %s: %d %s", what, status, body)
		}
	}
	if status, _ := c.raw("GET", "/v1/sessions/s1/live", "", c.signed("vic", "GET", "/v1/sessions/s1/live", "", time.Now().Add(-4*time.Minute))); status != http.StatusOK {
		t.Errorf("a clock that is 4 minutes late: %d", status)
	}
}

func TestARequestThatWasSignedForAnotherPlaceOrBodyIsRefused(t *testing.T) {
	c := lockedBench(t)
	const target = "/v1/messages?folder=session.s2.0123456789abcdef"
	for what, h := range map[string]http.Header{
		"another path":   c.signed("olga", "POST", "/v1/inputs?folder=session.s2.0123456789abcdef", "hello", time.Now()),
		"another query":  c.signed("olga", "POST", "/v1/messages?folder=session.s3.0123456789abcdef", "hello", time.Now()),
		"another method": c.signed("olga", "GET", target, "hello", time.Now()),
	} {
		if status, body := c.raw("POST", target, "hello", h); status != http.StatusUnauthorized {
			t.Errorf("signed for %s: %d %s", what, status, body)
		}
	}
	if status, body := c.raw("POST", target, "hello, changed", c.signed("olga", "POST", target, "hello", time.Now())); status != http.StatusBadRequest || !strings.Contains(body, "the body is not the one that was signed") {
		t.Errorf("another body: %d %s", status, body)
	}
	if status, body := c.raw("POST", target, "hello", c.signed("olga", "POST", target, "hello", time.Now())); status != http.StatusOK {
		t.Errorf("as signed: %d %s", status, body)
	}
	key := c.signed("olga", "POST", target, "hello", time.Now())
	key.Add(command.RequestHeader, "x")
	if status, _ := c.raw("POST", target, "hello", key); status != http.StatusUnauthorized {
		t.Errorf("with two headers: %d", status)
	}
}

func TestAFeedEndsSoonAfterItsViewerIsRevoked(t *testing.T) {
	c := lockedBench(t)
	c.attached("s1", true)
	c.showEntry("s1", entry(1, "a", "hello"))
	var e *Error
	seen := 0
	for ev, err := range c.as("vic").Feed(t.Context(), "s1", 1) {
		switch {
		case err != nil:
			if !errors.As(err, &e) || e.Kind != ErrForbidden && e.Kind != ErrUnauthorized {
				t.Errorf("the feed ended with %v", err)
			}
		case ev.Kind == KindEntry:
			seen++
			c.law.set(accessFile(t, "revoked: {people: [vic]}\n"))
		}
	}
	if seen != 1 || e == nil {
		t.Errorf("%d entries were seen, and the feed ended with %v", seen, e)
	}
}

func TestTheDigestOfWhatOthersKeepIsNotEnoughToGetIt(t *testing.T) {
	c := lockedBench(t)
	data := bytes.Repeat([]byte("a secret of ann's "), 1000)
	batch := c.server.opts.Chunks.NewBatch(t.Context(), chunks.BatchOptions{})
	digest, err := batch.Put(data)
	if err == nil {
		_, err = batch.Flush()
	}
	batch.Abort()
	if err != nil {
		t.Fatal(err)
	}
	olga := c.as("olga")
	var lacking []chunks.Digest
	body, err := json.Marshal([]chunks.Digest{digest})
	if err != nil {
		t.Fatal(err)
	}
	if err := olga.call(t.Context(), http.MethodPost, "/v1/uploads/missing", body, &lacking); err != nil || len(lacking) != 1 {
		t.Errorf("the store says that it has it: %v, %v", lacking, err)
	}
	head, err := json.Marshal([]snapshots.Entry{{Path: "a", Kind: snapshots.File, Mode: 0o600, Size: int64(len(data)), Content: []snapshots.Ref{{Digest: digest}}}})
	if err != nil {
		t.Fatal(err)
	}
	send := func(signed []byte, sent ...byte) error {
		upload := append(append(bytes.Clone(head), '\n'), sent...)
		resp, err := olga.sendStream(t.Context(), http.MethodPost, "/v1/uploads?session=new", bytes.NewReader(upload), -1, command.BodyDigest(signed))
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	var e *Error
	if err := send(head, 0, 0, 0, 0); !errors.As(err, &e) || e.Kind != ErrIncomplete {
		t.Errorf("a tree without its content: %v", err)
	}
	if err := send([]byte("[]"), 0, 0, 0, 0); !errors.As(err, &e) || e.Kind != ErrBadInput || !strings.Contains(e.Message, "signed") {
		t.Errorf("a tree that was not signed: %v", err)
	}
}

func TestALocalTreeIsSentBySignedRequests(t *testing.T) {
	c := lockedBench(t)
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := snapshots.ReadLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the store has all of it
		if m, sent, err := c.as("olga").PutTree(t.Context(), "new", tree); err != nil || m.Files == 0 || sent != 5 {
			t.Errorf("%+v, %d bytes sent, %v", m, sent, err)
		}
	}
}

func TestTheSeedIsExportedForTheVerifiedPrincipal(t *testing.T) {
	c := lockedBench(t)
	_, err := c.as("ann").ExportSeed(t.Context(), "team", ExportSeed{Recipient: ageIdentity(t).Recipient().String(), By: "somebody else"})
	if who := c.desk.who(); len(who) != 1 || who[0].By != "ann" {
		t.Errorf("%v; the seed heard of %+v", err, who)
	}
}

func TestSnapshotsOfAllSessionsAreThoseThatTheCallerMayRead(t *testing.T) {
	c := lockedBench(t)
	for _, id := range []string{"s1", "s2"} {
		if _, err := snapshots.Make(t.Context(), c.server.opts.Chunks, id, "", time.Now(), nil, func() ([]byte, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for who, want := range map[string]int{"vic": 2, "own": 1, "nobody": 0} {
		if got := listed(t, c.as(who), ""); len(got) != want {
			t.Errorf("%s sees %d snapshots, want %d", who, len(got), want)
		}
	}
}

func TestRequestsOfOnePrincipalAreBounded(t *testing.T) {
	var n nonces
	now := time.Now()
	for i := range maxNonces {
		if err := n.use(command.SignedRequest{Principal: "ann", Nonce: fmt.Sprint(i), At: now}, now); err != nil {
			t.Fatal(err)
		}
	}
	one := command.SignedRequest{Principal: "ann", Nonce: "more", At: now}
	if err := n.use(one, now); !errors.Is(err, errTooMany) {
		t.Errorf("one more: %v", err)
	}
	if err := n.use(command.SignedRequest{Principal: "bob", Nonce: "0", At: now}, now); err != nil {
		t.Errorf("another principal: %v", err)
	}
	later := now.Add(command.MaxSkew + time.Second)
	one.At = later
	if err := n.use(one, later); err != nil || n.count != 1 {
		t.Errorf("when the old ones cannot count any more: %v, %d are remembered", err, n.count)
	}
}

// Each worker remembers only the requests that were made to it.
func TestARequestToOneWorkerCountsAtNoOther(t *testing.T) {
	const live = "/v1/sessions/s1/live"
	one, other := lockedBench(t), lockedBench(t)
	h := one.signed("vic", "GET", live, "", time.Now())
	if status, body := one.raw("GET", live, "", h); status != http.StatusOK {
		t.Fatalf("where it was made: %d %s", status, body)
	}
	if status, body := other.raw("GET", live, "", h); status != http.StatusUnauthorized || !strings.Contains(body, ErrOtherWorker) {
		t.Errorf("replayed at another worker: %d %s", status, body)
	}
	if _, err := command.SignRequest(keyOf(t, "vic"), "vic", command.Request{Method: "GET", Target: live, Body: command.BodyDigest(nil)}, time.Now()); err == nil {
		t.Error("a request was signed that names no worker")
	}
}

// A client goes on when another process answers at the same address, as after a restart.
func TestAClientSignsForTheWorkerThatAnswers(t *testing.T) {
	c := lockedBench(t)
	olga := c.as("olga")
	before := "the process before"
	for what, do := range map[string]func() error{
		"a question": func() error { _, err := olga.Live(t.Context(), "s1"); return err },
		"its status": func() error {
			st, err := olga.Status(t.Context())
			if err == nil && st.Store.ID == "" && st.PID == 0 {
				err = errors.New("it was told what strangers are told")
			}
			return err
		},
		"a body": func() error {
			_, err := olga.PutMessage(t.Context(), "session.s2.0123456789abcdef", "hello")
			return err
		},
		"a stream": func() error {
			_, err := olga.PutInput(t.Context(), "session.s2.0123456789abcdef",
				protocol.Input{Kind: protocol.InputFile, Name: "a", Bytes: 1, Digest: command.BodyDigest([]byte("x"))}, io.NopCloser(strings.NewReader("x")))
			return err
		},
	} {
		olga.worker.Store(&before)
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A name of a blob is no secret: who can read Temporal sees it.
func TestUploadsAreNamedAfterWhoSentThem(t *testing.T) {
	c := lockedBench(t)
	const folder = "session.s2.0123456789abcdef"
	keys := map[string]func(*Client) (string, error){
		"a message": func(as *Client) (string, error) {
			m, err := as.PutMessage(t.Context(), folder, "hello")
			return m.Blob, err
		},
		"a file": func(as *Client) (string, error) {
			in, err := as.PutInput(t.Context(), folder, protocol.Input{Kind: protocol.InputFile, Name: "a", Bytes: 1, Digest: command.BodyDigest([]byte("x"))}, strings.NewReader("x"))
			return in.Blob, err
		},
		"a page": func(as *Client) (string, error) {
			p, err := as.PutBatchPage(t.Context(), "batch.b2.0123456789abcdef", protocol.BatchPage{Options: []protocol.BatchOptions{{}}, Items: []protocol.BatchItem{{ID: "i", First: []byte(`{}`)}}})
			return p.Blob, err
		},
		"a session's token": func(as *Client) (string, error) {
			return as.PutToken(t.Context(), "s2", "", "https://git.example.com/a.git", "secret")
		},
		"a shared token": func(as *Client) (string, error) {
			return as.PutToken(t.Context(), "", "batch.b2.0123456789abcdef", "https://git.example.com/a.git", "secret")
		},
	}
	for what, put := range keys {
		mine, err := put(c.as("olga"))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if tag, ok := owned.Uploader(mine); !ok || tag != owned.Tag("olga") {
			t.Errorf("%s of olga's is %s", what, mine)
		}
		others, err := put(c.as("ann"))
		if err != nil || others == mine {
			t.Errorf("%s of ann's is %s, %v", what, others, err)
		}
	}
	var e *Error
	if _, err := c.as("ann").PutMessage(t.Context(), folder+"-"+owned.Tag("olga"), "hello"); !errors.As(err, &e) || e.Kind != ErrForbidden {
		t.Errorf("in the folder of another: %v", err)
	}
	open := serve(t, nil)
	if m, err := open.client("").PutMessage(t.Context(), folder, "hello"); err != nil || !strings.HasPrefix(m.Blob, "owned/"+folder+"/") {
		t.Errorf("where nobody asks who calls: %s, %v", m.Blob, err)
	}
}

// Who enters the code of a login decides whose account the seed has.
func TestTheCodeOfALoginIsForWhoMayWriteItsSeed(t *testing.T) {
	c := lockedBench(t)
	c.law.set(accessFile(t, "  - {name: the seed team, roles: [seed-admin], to: [vic], when: seed == \"team\"}\n"))
	c.things.objects["host/h1/login-1"] = access.Object{Host: "h1", Seed: "team", Owner: "olga"}
	c.things.objects["host/h1/login-2"] = access.Object{Host: "h1", Seed: "other", Owner: "vic"}
	get := func(who, target string) int {
		h := c.signed(who, "GET", target, "", time.Now())
		return c.head(t.Context(), target, h)
	}
	for target, want := range map[string]map[string]bool{
		"/v1/exec/login-1?host=h1": {"ann": true, "vic": true, "olga": false, "nobody": false},
		"/v1/exec/login-2?host=h1": {"ann": true, "vic": false, "olga": false},
		"/v1/exec/login-3?host=h1": {"ann": true, "vic": false}, // nobody knows it
		"/v1/exec/login-1":         {"ann": true, "vic": false},
	} {
		for who, may := range want {
			if status := get(who, target); (status == http.StatusOK) != may || !may && status != http.StatusForbidden {
				t.Errorf("%s by %s: %d", target, who, status)
			}
		}
	}
}

// head makes a request and returns the status, whatever the body.
func (c *court) head(ctx context.Context, target string, header http.Header) int {
	c.Helper()
	path := strings.TrimPrefix(c.server.Address(), "unix://")
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer tr.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://worker"+target, http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	r.Header = header
	resp, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		c.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// The supervisor of a stack has the key of its workers, and shows what their status says.
func TestWhoHasTheKeyOfAWorkerReadsTheStatusAndNothingElse(t *testing.T) {
	c := lockedBench(t)
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := Connect(c.server.Address(), config.API{}, ProofOfWorker(file))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if st, err := client.Status(t.Context()); err != nil || st.Store.URL != "" {
		t.Errorf("a key that the access file does not list is told %+v, %v", st, err)
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(keyOf(t, "worker").PublicKey())))
	c.law.set(accessFile(t, fmt.Sprintf("  - {name: all, roles: [viewer], to: [everybody]}\nworkers: [%q]\n", line)))
	if st, err := client.Status(t.Context()); err != nil || st.Store.URL == "" {
		t.Errorf("the key of a worker is told %+v, %v", st, err)
	}
	var e *Error
	if _, err := client.Live(t.Context(), "s1"); !errors.As(err, &e) || e.Kind != ErrForbidden {
		t.Errorf("the key of a worker reads a session: %v", err)
	}
	c.law.set(accessFile(t, fmt.Sprintf("workers: [%q]\nrevoked: {keys: [%q]}\n", line, ssh.FingerprintSHA256(keyOf(t, "worker").PublicKey()))))
	if st, err := client.Status(t.Context()); err != nil || st.Store.URL != "" {
		t.Errorf("a revoked key is told %+v, %v", st, err)
	}
}
