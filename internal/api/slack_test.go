package api

import (
	"errors"
	"net/http"
	"testing"
)

// A program may act by its token, or by a certificate that was made for it.
func TestNoProgramLinksAnAccountOfSlack(t *testing.T) {
	s := &Server{opts: Options{Slack: noSlack{}}}
	for who, refused := range map[string]bool{"": false, "ann": false, "token:bot": true} {
		var e *Error
		if err := hasSlack(s, &caller{principal: who}); errors.As(err, &e) != refused || refused && e.Status != http.StatusForbidden {
			t.Errorf("%q: %v", who, err)
		}
	}
}

type noSlack struct{ Slack }
