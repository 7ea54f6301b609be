package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/login"
)

func TestALoginFromInsideIsForThoseWhomTheDeskWouldCertify(t *testing.T) {
	d := &desk{}
	l := &law{a: accessFile(t, "revoked: {people: [eve@example.com]}\n")}
	in := Insiders(serve(t, func(o *Options) { o.Login, o.Authority = d, l }).server)
	if err := in.Admits(Person{Principal: "dora@example.com"}); err != nil {
		t.Error(err)
	}
	if err := in.Admits(Person{Principal: "ann"}); !errors.Is(err, login.ErrRefused) {
		t.Errorf("a name that the desk does not certify: %v", err)
	}
	var e *Error
	if err := in.Admits(Person{Principal: "eve@example.com"}); !errors.As(err, &e) || !strings.Contains(e.Message, "revoked") {
		t.Errorf("a revoked person: %v", err)
	}
	none := Insiders(serve(t, func(o *Options) { o.Authority = l }).server)
	if err := none.Admits(Person{Principal: "dora@example.com"}); !errors.Is(err, login.ErrRefused) {
		t.Errorf("where nobody logs in: %v", err)
	}
}

func TestALoginOfAPersonIsNotTheOwnersWithoutAnAuthority(t *testing.T) {
	in := Insiders(serve(t, nil).server)
	ended := ""
	for _, c := range []struct {
		who    Person
		ends   string
		counts bool
	}{
		{Person{}, "", true},
		{Person{Principal: "ann"}, "", false},
		{Person{Holds: func() string { return ended }}, "", true},
		{Person{Holds: func() string { return ended }}, "this login has ended", false},
	} {
		ended = c.ends
		if err := in.Counts(c.who); (err == nil) != c.counts {
			t.Errorf("%+v counts: %v", c.who, err)
		}
		if may := in.May(t.Context(), c.who, access.SessionRead, ""); may != c.counts {
			t.Errorf("%+v may read: %t", c.who, may)
		}
		w := httptest.NewRecorder()
		in.Inside(c.who).ServeHTTP(w, httptest.NewRequest("GET", "/v1/status", nil))
		if (w.Code == http.StatusOK) != c.counts || !c.counts && w.Code != http.StatusUnauthorized {
			t.Errorf("a request of %+v is answered %d: %s", c.who, w.Code, w.Body)
		}
	}
}

func TestLoginsFromInsideAreOnRecord(t *testing.T) {
	var principals, strangers journal
	l := &law{a: accessFile(t, "")}
	in := Insiders(serve(t, func(o *Options) { o.Authority, o.Record, o.RecordStranger = l, principals.add, strangers.add }).server)
	dora := Person{Principal: "dora@example.com", Groups: []string{"ops"}}
	in.LoggedIn(dora, "the issuer", nil)
	in.LoggedIn(dora, "the issuer", errors.New("she is revoked"))
	in.LoggedIn(Person{}, "a link", errors.New("it was used"))
	known, unknown := principals.take(), strangers.take()
	if len(known) != 2 || len(unknown) != 1 {
		t.Fatalf("on record: %+v, and of strangers %+v", known, unknown)
	}
	for _, r := range append(known, unknown...) {
		if r.Verb != audit.ConsoleLogin || r.Object != "login" || r.Access != l.a.Digest {
			t.Errorf("on record: %+v", r)
		}
	}
	if r := known[0]; r.Principal != dora.Principal || r.Outcome != audit.Accepted || r.Source != audit.Workflow || !strings.Contains(r.Reason, "the issuer, groups [ops]") {
		t.Errorf("a login: %+v", r)
	}
	if r := known[1]; r.Principal != dora.Principal || r.Outcome != audit.Refused || !strings.Contains(r.Reason, "revoked") {
		t.Errorf("a refused login: %+v", r)
	}
	if r := unknown[0]; r.Principal != "" || r.Outcome != audit.Refused || !strings.Contains(r.Reason, "a link: it was used") {
		t.Errorf("a refused login of a stranger: %+v", r)
	}
	in.Recorded(dora, audit.PasskeyAdd, "passkey/1", "a laptop", nil)
	in.Recorded(dora, audit.PasskeyAdd, "passkey", "", errors.New("her login is old"))
	if all := principals.take(); len(all) != 2 || all[0].Outcome != audit.Accepted || all[0].Object != "passkey/1" || all[0].Reason != "a laptop" ||
		all[1].Outcome != audit.Refused || all[1].Reason != "her login is old" || all[1].Principal != dora.Principal || all[1].Source != audit.Workflow || all[1].Access != l.a.Digest {
		t.Errorf("on record of passkeys: %+v", all)
	}
	owner := Insiders(serve(t, func(o *Options) { o.Record = principals.add }).server)
	owner.LoggedIn(Person{}, "a link", nil)
	if all := principals.take(); len(all) != 1 || all[0].Principal != "" || all[0].Outcome != audit.Accepted || all[0].Source != audit.Unix {
		t.Errorf("a login of the owner: %+v", all)
	}
	owner.Recorded(Person{}, audit.PasskeyRemove, "passkey/1", "", errors.New("no"))
	if all := principals.take(); len(all) != 1 || all[0].Principal != "" || all[0].Outcome != audit.Refused || all[0].Source != audit.Unix {
		t.Errorf("a refusal of the owner: %+v", all)
	}
}
