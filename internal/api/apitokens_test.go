package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/access"
)

// withToken returns a client of a program.
func (c *court) withToken(secret string) *Client {
	c.Helper()
	client, err := NewClient(c.server.Address(), ClientOptions{Token: secret, Patience: 20 * time.Second})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { client.Close() })
	return client
}

func (c *court) token(by string, in NewToken) MadeToken {
	c.Helper()
	made, err := c.as(by).CreateAPIToken(c.Context(), in)
	if err != nil {
		c.Fatal(err)
	}
	return made
}

func errorKind(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func TestAProgramCallsWithItsTokenWithinItsRolesAndScope(t *testing.T) {
	c := lockedBench(t)
	made := c.token("ann", NewToken{Name: "ci", Roles: []access.Role{access.Viewer}})
	if made.Owner != "ann" || made.Key == "" || made.ExpiresAt.Sub(made.CreatedAt).Round(24*time.Hour) != 90*24*time.Hour {
		t.Errorf("%+v", made.Token)
	}
	p := c.withToken(made.Secret)
	if _, err := p.Live(t.Context(), "s1"); err != nil {
		t.Error(err)
	}
	if _, err := p.PutMessage(t.Context(), "session.s1.0123456789abcdef", "x"); errorKind(err) != ErrForbidden {
		t.Errorf("beyond its role: %v", err)
	}
	if _, err := p.PutSeed(t.Context(), "team", nil); errorKind(err) != ErrForbidden {
		t.Errorf("the import of a seed: %v", err)
	}
	narrow := c.withToken(c.token("ann", NewToken{Name: "narrow", Roles: []access.Role{access.Operator}, Scope: []access.Verb{access.SessionMessage}}).Secret)
	if _, err := narrow.Live(t.Context(), "s1"); errorKind(err) != ErrForbidden || !strings.Contains(err.Error(), "scope") {
		t.Errorf("beyond its scope: %v", err)
	}
	if _, err := narrow.PutMessage(t.Context(), "session.s1.0123456789abcdef", "x"); err != nil {
		t.Errorf("within its scope: %v", err)
	}
}

func TestATokenThatListsCreatesOrRevokesTokensIsRefused(t *testing.T) {
	c := lockedBench(t)
	p := c.withToken(c.token("ann", NewToken{Name: "ci", Roles: []access.Role{access.Admin}}).Secret)
	if all, err := p.APITokens(t.Context()); errorKind(err) != ErrForbidden || all != nil {
		t.Errorf("lists %v, %v", all, err)
	}
	if made, err := p.CreateAPIToken(t.Context(), NewToken{Name: "ci2", Roles: []access.Role{access.Viewer}}); errorKind(err) != ErrForbidden || made.Secret != "" {
		t.Errorf("creates: %v", err)
	}
	if _, err := p.RevokeAPIToken(t.Context(), "ci"); errorKind(err) != ErrForbidden {
		t.Errorf("revokes: %v", err)
	}
	for _, who := range []string{"vic", "olga", "nobody"} {
		if _, err := c.as(who).APITokens(t.Context()); errorKind(err) != ErrForbidden {
			t.Errorf("%s lists: %v", who, err)
		}
		if _, err := c.as(who).CreateAPIToken(t.Context(), NewToken{Name: "mine", Roles: []access.Role{access.Viewer}}); errorKind(err) != ErrForbidden {
			t.Errorf("%s creates: %v", who, err)
		}
	}
}

func TestATokenEndsWhenItIsRevokedOrItsOwnerIs(t *testing.T) {
	c := lockedBench(t)
	made := c.token("ann", NewToken{Name: "ci", Roles: []access.Role{access.Viewer}})
	other := c.token("ann", NewToken{Name: "other", Roles: []access.Role{access.Viewer}})
	if got, err := c.as("ann").RevokeAPIToken(t.Context(), "ci"); err != nil || got.RevokedBy != "ann" || got.RevokedAt.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := c.withToken(made.Secret).Live(t.Context(), "s1"); errorKind(err) != ErrUnauthorized || strings.Contains(err.Error(), made.Secret[3:]) {
		t.Errorf("a revoked token: %v", err)
	}
	all, err := c.as("ann").APITokens(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "ci" || all[0].RevokedBy != "ann" || all[1].RevokedBy != "" {
		t.Errorf("the list: %+v, %v", all, err)
	}
	p := c.withToken(other.Secret)
	if _, err := p.Live(t.Context(), "s1"); err != nil {
		t.Errorf("before its owner is revoked: %v", err)
	}
	c.law.set(accessFile(t, "revoked: {people: [ann]}\n"))
	if _, err := p.Live(t.Context(), "s1"); errorKind(err) != ErrUnauthorized || !strings.Contains(err.Error(), "ended with its owner") {
		t.Errorf("after its owner was revoked: %v", err)
	}
	c.law.set(accessFile(t, "revoked: {keys: [\""+made.Key+"\"]}\n"))
	if _, err := p.Live(t.Context(), "s1"); errorKind(err) != ErrUnauthorized {
		t.Errorf("after the key that made it was revoked: %v", err)
	}
	c.law.set(accessFile(t, "revoked: {people: [\"token:other\"]}\n"))
	if _, err := p.Live(t.Context(), "s1"); errorKind(err) != ErrUnauthorized {
		t.Errorf("after the access file revoked it: %v", err)
	}
}

func TestAFeedOfAProgramEndsSoonAfterItsTokenIsRevoked(t *testing.T) {
	c := lockedBench(t)
	made := c.token("ann", NewToken{Name: "ci", Roles: []access.Role{access.Viewer}})
	c.attached("s1", true)
	c.showEntry("s1", entry(1, "a", "hello"))
	var end error
	for ev, err := range c.withToken(made.Secret).Feed(t.Context(), "s1", 1) {
		if err != nil {
			end = err
		} else if ev.Kind == KindEntry {
			if _, err := c.as("ann").RevokeAPIToken(t.Context(), "ci"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if k := errorKind(end); k != ErrForbidden && k != ErrUnauthorized {
		t.Errorf("the feed ended with %v", end)
	}
}

func TestATokenHasNoMoreThanItsCreatorAtTheTimeOfItsCreation(t *testing.T) {
	c := lockedBench(t)
	c.law.set(accessFile(t, `  - {name: conditional, roles: [admin], to: [vic], when: seed == "team"}`+"\n"))
	// vic may make tokens where the condition holds, which is nowhere for tokens.
	if _, err := c.as("vic").CreateAPIToken(t.Context(), NewToken{Name: "ci", Roles: []access.Role{access.Viewer}}); errorKind(err) != ErrForbidden {
		t.Error(err)
	}
	for what, in := range map[string]NewToken{
		"an unknown role":  {Name: "ci", Roles: []access.Role{"king"}},
		"no role":          {Name: "ci"},
		"too long":         {Name: "ci", Roles: []access.Role{access.Viewer}, Seconds: 366 * 24 * 3600},
		"a bad name":       {Name: "C I", Roles: []access.Role{access.Viewer}},
		"before it begins": {Name: "ci", Roles: []access.Role{access.Viewer}, Seconds: -1},
	} {
		if made, err := c.as("ann").CreateAPIToken(t.Context(), in); errorKind(err) != ErrBadInput || made.Secret != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.token("ann", NewToken{Name: "ci", Roles: []access.Role{access.Viewer}})
	if _, err := c.as("ann").CreateAPIToken(t.Context(), NewToken{Name: "ci", Roles: []access.Role{access.Viewer}}); errorKind(err) != ErrRefused {
		t.Errorf("a name that is taken: %v", err)
	}
}

func TestOnlyAProgramGetsACertificateForItsToken(t *testing.T) {
	c := lockedBench(t)
	made := c.token("ann", NewToken{Name: "ci", Roles: []access.Role{access.Viewer}, Seconds: 1800})
	got, err := c.withToken(made.Secret).CertifyAPIToken(t.Context(), "ssh-ed25519 AAAA")
	if err != nil || got.Certificate != "certificate of token:ci for ssh-ed25519 AAAA 30m0s" || got.Principal != "token:ci" || got.ExpiresAt.After(made.ExpiresAt.Add(time.Second)) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.as("ann").CertifyAPIToken(t.Context(), "ssh-ed25519 AAAA"); errorKind(err) != ErrBadInput {
		t.Errorf("a person: %v", err)
	}
}

func TestATokenThatCouldSignNothingIsNotMadeAndTheErrorSaysWhatToConfigure(t *testing.T) {
	c := lockedBench(t, func(o *Options) { o.Certify = nil })
	refused := func(says string) {
		t.Helper()
		made, err := c.as("ann").CreateAPIToken(t.Context(), NewToken{Name: "ci", Roles: []access.Role{access.Viewer}})
		var e *Error
		if !errors.As(err, &e) || e.Kind != ErrRefused || !strings.Contains(e.Hint, says) || !strings.Contains(e.Hint, "--api-only") || made.Secret != "" {
			t.Errorf("%+v, %v", made.Token, err)
		}
	}
	refused("login.certificate_key")
	if made := c.token("ann", NewToken{Name: "reader", Roles: []access.Role{access.Viewer}, APIOnly: true}); made.Secret == "" {
		t.Error("a token for the API only is not made")
	}
	c = lockedBench(t)
	text := strings.Replace(accessText(t, ""), "token:*", "*@example.com", 1)
	a, err := access.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c.law.set(a)
	refused("token:*")
}

func TestAPITokensAreNotTakenInClear(t *testing.T) {
	b := serve(t, func(o *Options) {
		o.Listen, o.Authority = "127.0.0.1:0", &law{a: accessFile(t, "")}
	})
	r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.Address()+"/v1/sessions/s1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer fl_"+strings.Repeat("0", 49))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Error(resp.Status)
	}
	if _, err := NewClient(b.server.Address(), ClientOptions{Token: "fl_" + strings.Repeat("0", 49)}); err == nil {
		t.Error("a client would send an API token in clear")
	}
}

func TestWithoutAnAuthorityThereAreNoAPITokens(t *testing.T) {
	b := serve(t, nil)
	for _, err := range []error{
		func() error { _, err := b.client("").APITokens(t.Context()); return err }(),
		func() error { _, err := b.client("").CreateAPIToken(t.Context(), NewToken{}); return err }(),
		func() error { _, err := b.client("").RevokeAPIToken(t.Context(), "ci"); return err }(),
		func() error { _, err := b.client("").CertifyAPIToken(t.Context(), "x"); return err }(),
	} {
		var e *Error
		if !errors.As(err, &e) || e.Kind != ErrRefused || !strings.Contains(e.Hint, "authority: required") {
			t.Error(err)
		}
	}
}
