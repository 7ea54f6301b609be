package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"sync"
	"time"
)

// Tokens are the bearer tokens of one session. The zero value has none, so that every
// request is refused.
type Tokens struct {
	mu    sync.Mutex
	ended bool
	valid []token // guarded by mu; at most mostTokens
}

// mostTokens bounds the tokens that are valid at a time: each that could not be written to the
// host is followed by another one.
const mostTokens = 16

type token struct {
	sum   [sha256.Size]byte
	until time.Time // zero: until the next is issued
}

// Issue returns a new token. Those before it stay valid for overlap at most, for a codex that
// has not read the new one yet. After End it returns an empty text.
func (t *Tokens) Issue(now time.Time, overlap time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ""
	}
	text := "fl-" + strings.ToLower(rand.Text()+rand.Text())
	var kept []token
	for _, v := range t.valid[max(0, len(t.valid)-mostTokens+1):] {
		if v.until.IsZero() || v.until.After(now.Add(overlap)) {
			v.until = now.Add(overlap)
		}
		if v.until.After(now) {
			kept = append(kept, v)
		}
	}
	t.valid = append(kept, token{sum: sha256.Sum256([]byte(text))})
	return text
}

// End makes all tokens worthless for good.
func (t *Tokens) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.valid = true, nil
}

// accepts takes the same time for every text that is not valid.
func (t *Tokens) accepts(text string, now time.Time) bool {
	sum := sha256.Sum256([]byte(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	found := 0
	for _, v := range t.valid {
		equal := subtle.ConstantTimeCompare(v.sum[:], sum[:])
		if v.until.IsZero() || now.Before(v.until) {
			found |= equal
		}
	}
	return found == 1
}
