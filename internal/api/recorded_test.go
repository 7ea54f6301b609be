package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/owned"
)

// journal keeps records in the order in which they come.
type journal struct {
	sync.Mutex
	records []audit.Record
}

func (j *journal) add(r audit.Record) {
	j.Lock()
	defer j.Unlock()
	j.records = append(j.records, r)
}

func (j *journal) take() []audit.Record {
	j.Lock()
	defer j.Unlock()
	all := j.records
	j.records = nil
	return all
}

func TestRefusedRequestsAndWhatCallersDoToTokensAreOnRecord(t *testing.T) {
	var j journal
	var judge Authority
	c := lockedBench(t, func(o *Options) { o.Record, judge = j.add, o.Authority })
	one := func(what string, want audit.Record, says string) {
		t.Helper()
		all := j.take()
		if len(all) != 1 || !strings.Contains(all[0].Reason, says) || all[0].Reason == "" {
			t.Errorf("%s: %+v", what, all)
			return
		}
		got := all[0]
		want.Reason, want.Access = got.Reason, judge.Current().Digest
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	now := time.Now()
	refused := func(who, source string, verb access.Verb, object string) audit.Record {
		return audit.Record{Principal: who, Source: source, Verb: string(verb), Object: object, Outcome: audit.Refused}
	}
	const live = "/v1/sessions/s1/live?with=secret"
	if _, err := c.as("vic").ExportSeed(t.Context(), "team", ExportSeed{}); errorKind(err) != ErrForbidden {
		t.Error(err)
	}
	one("an export by a viewer", refused("vic", audit.Key, access.SeedExport, "seed/team"), "seed.export")
	once := c.signed("vic", "GET", live, "", now)
	c.raw("GET", live, "", once)
	if all := j.take(); len(all) != 0 {
		t.Errorf("what is allowed: %+v", all)
	}
	c.raw("GET", live, "", once)
	one("a request made again", refused("vic", audit.Key, access.SessionRead, "session/s1"), "counts once")
	c.raw("GET", live, "", c.signed("vic", "GET", live, "", now.Add(-6*time.Minute)))
	one("a request of another time", refused("vic", audit.Key, access.SessionRead, "session/s1"), "clock")
	c.raw("GET", live, "", c.signed("stranger", "GET", live, "", now.Add(-6*time.Minute)))
	one("a stranger's request of another time", refused("", audit.Key, access.SessionRead, "session/s1"), "")
	theirs, ok := owned.FolderOf(aFolder, "own")
	if !ok {
		t.Fatal(aFolder)
	}
	for _, path := range []string{"/v1/messages?folder=" + theirs, "/v1/inputs/images?folder=" + theirs, "/v1/batches?folder=" + theirs, "/v1/tokens?repo=x&folder=" + theirs} {
		if status, body := c.raw("POST", path, "hi", c.signed("ann", "POST", path, "hi", now)); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, status, body)
		}
		one(path, refused("ann", audit.Key, access.SessionMessage, "session/s-1"), "belongs to another principal")
	}
	if _, err := c.as("vic").CreateAPIToken(t.Context(), NewToken{Name: "ci", Roles: []access.Role{access.Viewer}}); errorKind(err) != ErrForbidden {
		t.Error(err)
	}
	one("a token without the right", refused("vic", audit.Key, access.TokenWrite, "/v1/api-tokens"), "token.write")
	c.raw("GET", "/v1/audit?session=s1", "", nil)
	one("an unsigned request", refused("", audit.Workflow, access.AuditRead, "/v1/audit"), "")

	accepted := func(who, verb string) audit.Record {
		return audit.Record{Principal: who, Source: audit.Workflow, Verb: verb, Object: "api-token/ci", Outcome: audit.Accepted}
	}
	made := c.token("ann", NewToken{Name: "ci", Roles: []access.Role{access.Viewer}})
	all := j.records
	one("a token is made", accepted("ann", "token.write"), "created")
	if text := fmt.Sprint(all); strings.Contains(text, made.Secret) {
		t.Error("the record has the secret")
	}
	if _, err := c.withToken(made.Secret).CertifyAPIToken(t.Context(), "ssh-ed25519 AAAA"); err != nil {
		t.Error(err)
	}
	one("a certificate", accepted("token:ci", "certificate.issue"), "ann")
	if _, err := c.withToken(made.Secret).PutSeed(t.Context(), "team", nil); errorKind(err) != ErrForbidden {
		t.Error(err)
	}
	one("beyond the role of a token", refused("token:ci", audit.Workflow, access.SeedWrite, "seed/team"), "")
	if _, err := c.as("ann").RevokeAPIToken(t.Context(), "ci"); err != nil {
		t.Error(err)
	}
	one("a token is revoked", accepted("ann", "token.write"), "revoked")

	for _, r := range routes { // a worker that starts again, and a stranger who asks what is open to all
		if r.open {
			c.raw(methodOf(r.pattern), example[r.pattern], "", nil)
		}
	}
	h, err := command.SignRequest(keyOf(t, "vic"), "vic", command.Request{Method: "GET", Target: live, Worker: "another", Body: command.BodyDigest(nil)}, now)
	if err != nil {
		t.Fatal(err)
	}
	c.raw("GET", live, "", http.Header{http.CanonicalHeaderKey(command.RequestHeader): {h}})
	if _, err := c.as("ann").RevokeAPIToken(t.Context(), "none"); errorKind(err) != ErrNotFound {
		t.Error(err)
	}
	if all := j.take(); len(all) != 0 {
		t.Errorf("these are no refusals: %+v", all)
	}
}

func TestARequestWithoutTheTokenOfAWorkerIsOnRecord(t *testing.T) {
	var j, principals journal
	b := serve(t, func(o *Options) {
		o.Listen, o.Token, o.Record, o.RecordStranger = "127.0.0.1:0", "a token of some length", principals.add, j.add
	})
	get := func(path, token string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.Address()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	get("/v1/status", "")
	get("/v1/sessions/s1/feed?with=secret", "")
	get("/v1/audit", "another token")
	get("/v1/"+strings.Repeat("x", 8<<10), "")
	want := []audit.Record{
		{Source: audit.Workflow, Verb: audit.APIRequest, Object: "/v1/sessions/s1/feed", Outcome: audit.Refused, Reason: "this worker's API needs its token"},
		{Source: audit.Workflow, Verb: audit.APIRequest, Object: "/v1/audit", Outcome: audit.Refused, Reason: "this worker's API needs its token"},
		{Source: audit.Workflow, Verb: audit.APIRequest, Object: "/v1/" + strings.Repeat("x", maxPath-len("/v1/")), Outcome: audit.Refused, Reason: "this worker's API needs its token"},
	}
	if all := principals.take(); len(all) != 0 {
		t.Errorf("strangers use up the room of principals: %+v", all)
	}
	if got := j.take(); !slices.Equal(got, want) {
		t.Errorf("on record are %+v, want %+v", got, want)
	}
}
