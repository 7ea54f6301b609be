package api

import (
	"errors"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/access"
)

// People have no access file, so the worker says what theirs allows them.
func TestAPersonAsksTheWorkerWhatTheAccessFileAllows(t *testing.T) {
	c := lockedBench(t)
	own := access.Object{Session: "s1", Owner: "own"}
	for _, q := range []struct {
		by      string
		ask     WhyAsked
		allowed bool
		says    string
	}{
		{"own", WhyAsked{Who: "own", Verb: access.SessionClose, Object: own}, true, "own sessions"},
		{"own", WhyAsked{Who: "own", Verb: access.SessionClose, Object: access.Object{Session: "s2", Owner: "olga"}}, false, "no binding"},
		{"nobody", WhyAsked{Who: "nobody", Verb: access.SessionRead}, false, "no binding names nobody"},
		{"ann", WhyAsked{Who: "vic", Verb: access.SessionRead}, true, "viewers"},
		{"ann", WhyAsked{Who: "vic", Verb: access.SessionClose}, false, "no binding"},
		{"ann", WhyAsked{Who: "ann", Verb: "fly"}, false, "none of the verbs"},
	} {
		a, err := c.as(q.by).Why(t.Context(), q.ask)
		if err != nil || a.Allowed != q.allowed || !strings.Contains(a.Binding+a.Reason, q.says) || a.Access != c.law.Current().Digest {
			t.Errorf("%s asks %+v: %+v, %v", q.by, q.ask, a, err)
		}
	}
	for _, q := range []WhyAsked{{Who: "ann", Verb: access.SessionRead}, {Who: "vic", Groups: []string{"ops"}, Verb: access.SessionRead}, {Verb: access.SessionRead}} {
		if a, err := c.as("vic").Why(t.Context(), q); errorKind(err) != ErrForbidden || !strings.Contains(err.Error(), "access.read") {
			t.Errorf("a viewer asks %+v: %+v, %v", q, a, err)
		}
	}
	if _, err := c.as("stranger").Why(t.Context(), WhyAsked{Who: "stranger", Verb: access.SessionRead}); errorKind(err) != ErrUnauthorized {
		t.Errorf("a stranger: %v", err)
	}
	var e *Error
	if _, err := serve(t, nil).client("").Why(t.Context(), WhyAsked{Who: "ann", Verb: access.SessionRead}); !errors.As(err, &e) || e.Kind != ErrRefused || !strings.Contains(e.Hint, "authority: required") {
		t.Errorf("without an access file: %v", err)
	}
}
