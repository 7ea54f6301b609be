package api

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
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
	c := lockedBench(t, func(o *Options) { o.Record = j.add })
	one := func(what string, want audit.Record, says string) {
		t.Helper()
		all := j.take()
		if len(all) != 1 || !strings.Contains(all[0].Reason, says) || all[0].Reason == "" {
			t.Errorf("%s: %+v", what, all)
			return
		}
		got := all[0]
		want.Reason = got.Reason
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
	one("a request of another time", refused("", audit.Key, access.SessionRead, "session/s1"), "clock")
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
