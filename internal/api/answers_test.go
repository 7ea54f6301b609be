package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
)

// TestSecretAnswersAreCheckedSealedAndNeverShown checks that nothing is stored if the
// answers do not fit the questions of the request, and that no error repeats an answer.
func TestSecretAnswersAreCheckedSealedAndNeverShown(t *testing.T) {
	b := serve(t, nil)
	c := b.client("")
	digest, secret := strings.Repeat("a", 64), "hunter2-hunter2"
	asked, err := json.Marshal(protocol.Request{Digest: digest, Questions: []protocol.Question{{ID: "user"}, {ID: "pin", Secret: true, Type: "integer"}, {ID: "password", Secret: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.store.Put(t.Context(), "requests/s1/"+digest, asked); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]struct {
		session, digest string
		in              SecretAnswers
		kind            string
	}{
		"no such request":     {"s2", digest, SecretAnswers{}, ErrNotFound},
		"no digest":           {"s1", "x", SecretAnswers{}, ErrBadInput},
		"no session":          {"S1", digest, SecretAnswers{}, ErrBadInput},
		"one is missing":      {"s1", digest, SecretAnswers{Answers: map[string][]string{"password": {secret}}}, ErrBadInput},
		"a word for a number": {"s1", digest, SecretAnswers{Answers: map[string][]string{"password": {"x"}, "pin": {secret}}, Apart: []string{"user"}}, ErrBadInput},
		"of nobody":           {"s1", digest, SecretAnswers{Answers: map[string][]string{"other": {secret}}, Apart: []string{"user"}}, ErrBadInput},
	} {
		var e *Error
		if got, err := c.PutAnswers(t.Context(), bad.session, bad.digest, bad.in); !errors.As(err, &e) || e.Kind != bad.kind || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if left, err := b.store.List(t.Context(), site.AnswersPrefix); err != nil || len(left) > 0 {
		t.Errorf("kept is %v (%v)", left, err)
	}
	in := SecretAnswers{Answers: map[string][]string{"password": {secret}, "pin": {" 7 "}}, Apart: []string{"user"}}
	got, err := c.PutAnswers(t.Context(), "s1", digest, in)
	if err != nil {
		t.Fatal(err)
	}
	data, err := b.store.Get(t.Context(), got.Blob)
	if err != nil || string(data) != `{"password":["hunter2-hunter2"],"pin":["7"]}` {
		t.Errorf("kept is %s (%v)", data, err)
	}
	if again, err := c.PutAnswers(t.Context(), "s1", digest, in); err != nil || again.Blob == got.Blob {
		t.Errorf("the name tells what was answered: %v (%v)", again, err)
	}
	in.Approval = "s1.a1" // set if several people must agree
	one, err := c.PutAnswers(t.Context(), "s1", digest, in)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := c.PutAnswers(t.Context(), "s1", digest, in); err != nil || two != one || one == got {
		t.Errorf("the same answers to one approval are %v and %v (%v)", one, two, err)
	}
	plain := serve(t, func(o *Options) { o.Listen = "127.0.0.1:0" })
	var e *Error
	if _, err := plain.client("").PutAnswers(t.Context(), "s1", digest, in); !errors.As(err, &e) || e.Kind != ErrRefused {
		t.Errorf("where others can listen: %v", err)
	}
}
