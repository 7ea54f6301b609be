package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/access"
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
