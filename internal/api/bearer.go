package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// bearers are the tokens that callers may show. Digests are compared, so that a comparison does
// not reveal a length.
type bearers struct {
	all  [32]byte
	read [32]byte
	// reads says that there is a token that only reads.
	reads bool
}

func bearersOf(o Options) bearers {
	return bearers{all: sha256.Sum256([]byte(o.Token)), read: sha256.Sum256([]byte(o.ReadToken)), reads: o.ReadToken != ""}
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
