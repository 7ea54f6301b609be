package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
)

// Bearers are the tokens that callers may show, which may be renewed while a server runs.
type Bearers struct{ now atomic.Pointer[bearers] }

// NewBearers returns tokens for Options. They are also Options.Token and Options.ReadToken.
func NewBearers(token, readToken string) *Bearers {
	b := &Bearers{}
	b.now.Store(bearersOf(token, readToken))
	return b
}

// bearers are the tokens of a moment. Digests are compared, so that a comparison does
// not reveal a length.
type bearers struct {
	all  [32]byte
	read [32]byte
	// reads says that there is a token that only reads.
	reads bool
	// none says that no token is needed.
	none bool
}

func bearersOf(token, readToken string) *bearers {
	return &bearers{none: token == "", all: sha256.Sum256([]byte(token)), read: sha256.Sum256([]byte(readToken)), reads: readToken != ""}
}

// Renew puts other tokens in force. A server that began without a token needs none.
func (b *Bearers) Renew(token, readToken string) error {
	if was := b.now.Load(); was.none || token == "" {
		return errors.New("change the API's token: a server with a token stays one, and one without stays without")
	}
	b.now.Store(bearersOf(token, readToken))
	return nil
}

// check says why a request may not be made with the token that it shows, or returns nil.
func (b *bearers) check(r *http.Request) *Error {
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	digest := sha256.Sum256([]byte(shown))
	switch {
	case ok && subtle.ConstantTimeCompare(digest[:], b.all[:]) == 1:
		return nil
	case !ok || !b.reads || subtle.ConstantTimeCompare(digest[:], b.read[:]) != 1:
		return problem(http.StatusUnauthorized, ErrUnauthorized, "this worker's API needs its token").hinted("set api.token_file in the config")
	case !onlyReads(r):
		return problem(http.StatusForbidden, ErrForbidden, "this token of the worker's API may only read").hinted("use the token of the worker's api.token_file")
	}
	return nil
}

// onlyReads reports whether a request changes nothing. The output of commands on hosts is no
// reading: that of a login shows a code, and who enters the code decides whose login a seed gets.
func onlyReads(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(r.URL.Path, "/v1/exec/")
}
