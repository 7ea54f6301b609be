package api

import (
	"errors"
	"strings"
	"testing"

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
