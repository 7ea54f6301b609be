package api

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/login"
)

// A desk answers logins as a test says.
type desk struct {
	asked []login.Request
	err   error
}

func (d *desk) Settings() login.Settings {
	return login.Settings{Issuer: "https://id.example.com", ClientID: "c", Scopes: []string{"openid"}}
}

func (d *desk) Certify(_ context.Context, r login.Request) (login.Certificate, error) {
	d.asked = append(d.asked, r)
	return login.Certificate{Principal: "dora@example.com", Certificate: "line"}, d.err
}

func (d *desk) Admits(who login.Person) error {
	if who.Principal == "dora@example.com" {
		return d.err
	}
	return fmt.Errorf("%w: by the access file, a certificate for %s would not count", login.ErrRefused, who.Principal)
}

// overTLS starts a server that demands a token and returns clients with and without it.
func overTLS(t *testing.T, change func(*Options)) (b *bench, with, without *Client) {
	t.Helper()
	cert, ca := certificate(t)
	b = serve(t, func(o *Options) {
		o.Listen, o.TLS, o.Token = "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}}, "0123456789abcdef"
		change(o)
	})
	made := func(token string) *Client {
		c, err := NewClient(b.server.Address(), ClientOptions{Token: token, CA: ca})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	return b, made("0123456789abcdef"), made("")
}

func TestALoginNeedsNoOtherCredentialWherePeopleLogIn(t *testing.T) {
	d := &desk{}
	var j journal
	b, _, without := overTLS(t, func(o *Options) { o.Login, o.Record = d, j.add })
	s, err := without.LoginSettings(t.Context())
	if err != nil || s.Issuer != "https://id.example.com" || s.ClientID != "c" || !slices.Equal(s.Scopes, []string{"openid"}) {
		t.Errorf("%+v, %v", s, err)
	}
	c, err := without.LogIn(t.Context(), login.Request{IDToken: "t", PublicKey: "k", Proof: "p", Nonce: "n"})
	if err != nil || c.Principal != "dora@example.com" || len(d.asked) != 1 || d.asked[0] != (login.Request{IDToken: "t", PublicKey: "k", Proof: "p", Nonce: "n"}) {
		t.Errorf("%+v, %v, asked %+v", c, err, d.asked)
	}
	if all := j.take(); len(all) != 1 || all[0].Verb != "certificate.issue" || all[0].Principal != "dora@example.com" || all[0].Outcome != "accepted" || all[0].Source != "workflow" {
		t.Errorf("on record: %+v", all)
	}
	var e *Error
	for what, ask := range map[string]func() error{
		"the status": func() error { _, err := without.Status(t.Context()); return err },
		"whoami, without an access file": func() error {
			_, err := without.Whoami(t.Context(), func(string, string, []byte) ([]byte, error) { return []byte("{}"), nil })
			return err
		},
	} {
		if err := ask(); !errors.As(err, &e) || e.Status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %v", what, err)
		}
	}
	for _, path := range []string{"/v1/login/", "/v1/login/../status", "//v1/login", "/v1/Login"} {
		if err := without.call(t.Context(), http.MethodGet, path, nil, &struct{}{}); !errors.As(err, &e) || e.Status != http.StatusUnauthorized {
			t.Errorf("%s of %s: %v", path, b.server.Address(), err)
		}
	}
}

func TestWhereNobodyLogsInALoginIsNotOpenToStrangers(t *testing.T) {
	_, with, without := overTLS(t, func(*Options) {})
	var e *Error
	if _, err := without.LoginSettings(t.Context()); !errors.As(err, &e) || e.Status != http.StatusUnauthorized {
		t.Errorf("without the token: %v", err)
	}
	if _, err := with.LoginSettings(t.Context()); !errors.As(err, &e) || e.Kind != ErrNotFound {
		t.Errorf("with it: %v", err)
	}
	if _, err := with.LogIn(t.Context(), login.Request{}); !errors.As(err, &e) || e.Kind != ErrNotFound {
		t.Errorf("with it: %v", err)
	}
}

func TestWhyALoginFailedIsToldButNotTheFilesOfTheWorker(t *testing.T) {
	d := &desk{}
	b := serve(t, func(o *Options) { o.Login = d })
	c := b.client("")
	for _, want := range []struct {
		err    error
		kind   string
		status int
		says   string
	}{
		{fmt.Errorf("%w: no key", login.ErrBadInput), ErrBadInput, 400, "no key"},
		{fmt.Errorf("%w: wrong audience", login.ErrRefused), ErrRefused, 403, "wrong audience"},
		{fmt.Errorf("%w: id.example.com", login.ErrIssuer), ErrIssuer, 502, "id.example.com"},
		{fmt.Errorf("%w: /etc/fairlead/ca", login.ErrKey), ErrInternal, 500, "cannot sign"},
	} {
		d.err = want.err
		var e *Error
		if _, err := c.LogIn(t.Context(), login.Request{}); !errors.As(err, &e) || e.Kind != want.kind || e.Status != want.status || !strings.Contains(e.Message, want.says) || strings.Contains(e.Message, "/etc/") {
			t.Errorf("%v became %#v", want.err, err)
		}
	}
	d.asked, d.err = nil, nil
	var e *Error
	for what, body := range map[string]string{"no JSON": "x", "too long": strings.Repeat("x", maxLogin+1)} {
		if err := c.call(t.Context(), http.MethodPost, "/v1/login", []byte(body), &struct{}{}); !errors.As(err, &e) || e.Kind != ErrBadInput || len(d.asked) > 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestARefusedLoginIsOnRecordAndItsTokenIsNot(t *testing.T) {
	const secret = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl"
	d := &desk{}
	var strangers, principals journal
	a := &access.Access{Digest: "d1"}
	b := serve(t, func(o *Options) {
		o.Login, o.Record, o.RecordStranger, o.Access = d, principals.add, strangers.add, func() *access.Access { return a }
	})
	c := b.client("")
	of := func(reason, principal string) audit.Record {
		return audit.Record{Source: audit.Workflow, Verb: audit.CertificateIssue, Object: "login", Outcome: audit.Refused, Reason: reason, Principal: principal, Access: "d1"}
	}
	for _, want := range []struct {
		err   error
		in    *journal
		entry audit.Record
	}{
		{&login.Denied{Err: fmt.Errorf("%w: the ID token ended", login.ErrRefused), Claimed: `email="eve@example.com"`}, &strangers,
			of(`the login is refused: the ID token ended; its token claims, which nobody has verified: email="eve@example.com"`, "")},
		{&login.Denied{Err: fmt.Errorf("%w: no key", login.ErrBadInput)}, &strangers, of("the request to log in cannot be used: no key", "")},
		{&login.Denied{Err: fmt.Errorf("%w: dora is revoked", login.ErrRefused), Claimed: `email="dora@example.com"`, Person: login.Person{Principal: "dora@example.com"}}, &principals,
			of("the login is refused: dora is revoked", "dora@example.com")},
	} {
		d.err = want.err
		if _, err := c.LogIn(t.Context(), login.Request{IDToken: secret}); err == nil {
			t.Fatalf("%v was taken", want.err)
		}
		if all := want.in.take(); !slices.Equal(all, []audit.Record{want.entry}) {
			t.Errorf("on record is %+v, want %+v", all, want.entry)
		}
	}
	d.err = nil
	if err := c.call(t.Context(), http.MethodPost, "/v1/login", []byte(secret), &struct{}{}); err == nil {
		t.Error("a token alone was taken")
	}
	if all := strangers.take(); len(all) != 1 || strings.Contains(fmt.Sprint(all), secret) {
		t.Errorf("on record: %+v", all)
	}
	for _, err := range []error{login.ErrIssuer, login.ErrKey} { // this is no refusal
		d.err = err
		if _, err := c.LogIn(t.Context(), login.Request{}); err == nil {
			t.Error("it was taken")
		}
	}
	if all := append(strangers.take(), principals.take()...); len(all) != 0 {
		t.Errorf("on record: %+v", all)
	}
}

func TestAnIDTokenDoesNotTravelInTheClear(t *testing.T) {
	d := &desk{}
	b := serve(t, func(o *Options) { o.Listen, o.Login = "127.0.0.1:0", d })
	c := b.client("")
	var e *Error
	if _, err := c.LogIn(t.Context(), login.Request{}); !errors.As(err, &e) || e.Kind != ErrRefused {
		t.Errorf("the client sends it: %v", err)
	}
	if err := c.call(t.Context(), http.MethodPost, "/v1/login", []byte("{}"), &struct{}{}); !errors.As(err, &e) || e.Kind != ErrRefused || len(d.asked) > 0 {
		t.Errorf("the server takes it: %v", err)
	}
}

func TestAWorkerTellsASignerItsRoles(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	a, err := access.Parse(fmt.Appendf(nil, "people: [{name: dora, keys: [%q]}]\ngroups: [{name: ops, members: [dora]}]\nbindings: [{name: o, roles: [operator, approver], to: ['group:ops']}]\n%s",
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey()))), ""))
	if err != nil {
		t.Fatal(err)
	}
	_, _, without := overTLS(t, func(o *Options) { o.Access = func() *access.Access { return a } })
	sign := func(who string, at time.Time) func(string, string, []byte) ([]byte, error) {
		return func(workflow, name string, args []byte) ([]byte, error) {
			return command.Sign(key, who, workflow, name, args, at)
		}
	}
	c, err := without.Whoami(t.Context(), sign("dora", time.Now()))
	if err != nil || c.Principal != "dora" || !slices.Equal(c.Groups, []string{"ops"}) || !slices.Equal(c.Roles, []access.Role{access.Operator, access.Approver}) {
		t.Errorf("%+v, %v", c, err)
	}
	var e *Error
	for name, s := range map[string]func(string, string, []byte) ([]byte, error){
		"another name": sign("root", time.Now()),
		"an old one":   sign("dora", time.Now().Add(-time.Hour)),
		"unsigned":     func(string, string, []byte) ([]byte, error) { return []byte("{}"), nil },
		"of other use": func(_, _ string, args []byte) ([]byte, error) {
			return command.Sign(key, "dora", "session/s1", "close", args, time.Now())
		},
	} {
		if c, err := without.Whoami(t.Context(), s); !errors.As(err, &e) || e.Kind != ErrRefused || c.Principal != "" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}
