package conversation

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// minSecret is the shortest secret that is redacted. Shorter ones would damage ordinary
// words.
const minSecret = 8

// placeholder is repeated over a secret's length, so that byte positions stay.
const placeholder = "[redacted]"

// A Redactor overwrites known secrets with placeholders of equal length. A nil Redactor
// changes nothing. It is safe for concurrent use.
type Redactor struct {
	mu    sync.Mutex
	known atomic.Pointer[known]
}

type known struct {
	secrets []string // longest first
	replace *strings.Replacer
}

// NewRedactor returns a Redactor. It ignores secrets shorter than 8 bytes.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{}
	r.known.Store(&known{})
	r.Add(secrets...)
	return r
}

// Add adds secrets.
func (r *Redactor) Add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.known.Load()
	k := &known{secrets: slices.Clone(before.secrets)}
	for _, s := range secrets {
		if len(s) >= minSecret && !slices.Contains(k.secrets, s) {
			k.secrets = append(k.secrets, s)
		}
	}
	if len(k.secrets) == len(before.secrets) && before.replace != nil {
		return
	}
	sort.Slice(k.secrets, func(i, j int) bool {
		a, b := k.secrets[i], k.secrets[j]
		return len(a) > len(b) || len(a) == len(b) && a < b
	})
	var pairs []string
	for _, s := range k.secrets {
		pairs = append(pairs, s, mask(len(s)))
	}
	k.replace = strings.NewReplacer(pairs...)
	r.known.Store(k)
}

func mask(n int) string {
	return strings.Repeat(placeholder, n/len(placeholder)+1)[:n]
}

// String returns s without the secrets.
func (r *Redactor) String(s string) string {
	if r == nil {
		return s
	}
	k := r.known.Load()
	if !k.in(s) {
		return s
	}
	return k.replace.Replace(s)
}

// in reports whether s contains a secret, far cheaper than replacing.
func (k *known) in(s string) bool {
	for _, secret := range k.secrets {
		if len(secret) <= len(s) && strings.Contains(s, secret) {
			return true
		}
	}
	return false
}

// split cuts s before a suffix that may begin a secret.
func (r *Redactor) split(s string) (whole, begun string) {
	if r == nil {
		return s, ""
	}
	at := len(s)
	for _, secret := range r.known.Load().secrets {
		for i := max(0, len(s)-len(secret)+1); i < at; i++ {
			next := strings.IndexByte(s[i:at], secret[0])
			if next < 0 {
				break
			}
			if i += next; strings.HasPrefix(secret, s[i:]) {
				at = i
			}
		}
	}
	return s[:at], s[at:]
}

// afterEnd drops a prefix of s that may end a secret.
func (r *Redactor) afterEnd(s string) string {
	if r == nil {
		return s
	}
	at := 0
	for _, secret := range r.known.Load().secrets {
		for n := min(len(secret)-1, len(s)); n > at; n-- {
			if strings.HasPrefix(s, secret[len(secret)-n:]) {
				at = n
				break
			}
		}
	}
	return s[at:]
}
