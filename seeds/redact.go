package seeds

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
)

// A Redactor finds known secrets in text: raw, escaped for JSON or a URL, in base64 and in
// hex. It does not find a secret that was cut, wrapped or encoded in another way, so it
// stops nobody who wants to hide one. The zero value and nil find nothing. It is safe for
// concurrent use.
type Redactor struct {
	label  []byte
	search atomic.Pointer[searcher]

	mu      sync.Mutex
	needles map[string]bool // guarded by mu; forms of secrets
	secrets map[string]bool // guarded by mu
}

// MinSecret is the least length in bytes of a secret that is searched.
const MinSecret = 8

// NewRedactor returns a redactor that names the seed in place of its secrets.
func NewRedactor(seed string, secrets []Secret) *Redactor {
	r := &Redactor{label: []byte("[redacted:" + seed + "]")}
	r.Add(secrets)
	return r
}

// Add adds secrets, also to streams that have begun.
func (r *Redactor) Add(secrets []Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needles == nil {
		r.needles, r.secrets = map[string]bool{}, map[string]bool{}
	}
	before := len(r.needles)
	for _, s := range secrets {
		if len(s.Reveal()) >= MinSecret {
			r.secrets[s.Reveal()] = true
		}
		for _, form := range forms(s.Reveal()) {
			if len(form) >= MinSecret {
				r.needles[string(form)] = true
			}
		}
	}
	if len(r.needles) == before && r.search.Load() != nil {
		return
	}
	all := make([][]byte, 0, len(r.needles))
	for n := range r.needles {
		all = append(all, []byte(n))
	}
	r.search.Store(newSearcher(all))
}

// Secrets returns the known secrets, sorted.
func (r *Redactor) Secrets() []Secret {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Secret, 0, len(r.secrets))
	for _, text := range slices.Sorted(maps.Keys(r.secrets)) {
		out = append(out, NewSecret(text))
	}
	return out
}

func forms(secret string) [][]byte {
	if len(secret) < MinSecret {
		return nil
	}
	written := [][]byte{[]byte(secret)}
	found := [][]byte{[]byte(url.QueryEscape(secret)), []byte(url.PathEscape(secret))}
	add := func(to *[][]byte, form []byte) {
		if !slices.ContainsFunc(*to, func(f []byte) bool { return bytes.Equal(f, form) }) {
			*to = append(*to, form)
		}
	}
	for _, html := range []bool{false, true} {
		form := []byte(secret)
		for level := range escapeLevels {
			form = jsonEscaped(string(form), html)
			add(&found, form)
			if level == 0 {
				add(&written, form)
			}
		}
	}
	for _, text := range written {
		add(&found, text)
		add(&found, []byte(hex.EncodeToString(text)))
		for _, form := range base64Forms(text) {
			add(&found, form)
		}
	}
	return found
}

// escapeLevels is how often a secret may be escaped: in config.toml, in the JSON of a
// command that printed it, in a program's text, in the rollout.
const escapeLevels = 4

// Forms returns the ways in which secrets of at least MinSecret bytes may be written.
func Forms(secrets []Secret) []string {
	var out []string
	for _, s := range secrets {
		for _, form := range forms(s.Reveal()) {
			if len(form) >= MinSecret {
				out = append(out, string(form))
			}
		}
	}
	return out
}

// base64Forms returns the base64 of a secret inside a longer text, for each of the three
// alignments. It leaves out the characters at both ends, which depend on the neighbours.
func base64Forms(secret []byte) (found [][]byte) {
	for skip := range 3 {
		padded := append(make([]byte, skip), secret...)
		padded = padded[:len(padded)-len(padded)%3]
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			text := []byte(enc.EncodeToString(padded))
			if first := []int{0, 2, 3}[skip]; len(text) > first {
				found = append(found, text[first:])
			}
		}
	}
	return found
}

func jsonEscaped(s string, html bool) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(s); err != nil {
		return nil
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return bytes.Clone(text[1 : len(text)-1])
}

func (r *Redactor) finder() *searcher {
	if r == nil {
		return nil
	}
	if s := r.search.Load(); s != nil && len(s.needles) > 0 {
		return s
	}
	return nil
}

// Bytes returns p with each secret replaced by [redacted:<seed>], or p itself. Redact a
// text before you cut an excerpt, not after.
func (r *Redactor) Bytes(p []byte) []byte {
	search := r.finder()
	if search == nil {
		return p
	}
	at, length := search.next(p, 0)
	if at < 0 {
		return p
	}
	var out []byte
	done := 0
	for at >= 0 {
		out = append(append(out, p[done:at]...), r.label...)
		done = at + length
		at, length = search.next(p, done)
	}
	return append(out, p[done:]...)
}

// String is Bytes for strings.
func (r *Redactor) String(s string) string {
	search := r.finder()
	if search == nil {
		return s
	}
	if at, _ := search.next([]byte(s), 0); at < 0 {
		return s
	}
	return string(r.Bytes([]byte(s)))
}

// Error returns err with its text redacted, or err itself. errors.Is and errors.As still
// work.
func (r *Redactor) Error(err error) error {
	if err == nil || r.finder() == nil {
		return err
	}
	text := err.Error()
	if clean := r.String(text); clean != text {
		return &redactedError{clean, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// Stream returns a Stream with the redactor's label in place of secrets.
func (r *Redactor) Stream() *Stream { return &Stream{r: r} }

// MaskStream returns a Stream that overwrites secrets with '*', so that offsets stay.
func (r *Redactor) MaskStream() *Stream { return &Stream{r: r, mask: true} }

// A Stream redacts a text in pieces. It holds back the end of a piece only while it may
// begin a secret. It is not safe for concurrent use.
type Stream struct {
	r     *Redactor
	mask  bool
	held  []byte
	out   []byte
	count int
}

// Next takes a piece and returns what may be shown, valid until the next call.
func (s *Stream) Next(p []byte) []byte {
	if len(s.held) == 0 && s.r.finder() == nil {
		return p
	}
	s.held = append(s.held, p...)
	return s.take(false)
}

// Flush returns the rest and resets the stream.
func (s *Stream) Flush() []byte {
	if len(s.held) == 0 && s.r.finder() == nil {
		return nil
	}
	return s.take(true)
}

// Count returns how many secrets were found.
func (s *Stream) Count() int { return s.count }

// take replaces every secret that no earlier or longer match can displace; with all, every
// one.
func (s *Stream) take(all bool) []byte {
	search := s.r.search.Load()
	s.out = s.out[:0]
	done := 0
	for {
		open := len(s.held)
		if !all {
			open -= search.open(s.held[done:])
		}
		at, length := search.next(s.held, done)
		if at < 0 || at >= open {
			s.out = append(s.out, s.held[done:open]...)
			s.held = append(s.held[:0], s.held[open:]...)
			return s.out
		}
		s.out = s.hide(append(s.out, s.held[done:at]...), length)
		s.count++
		done = at + length
	}
}

func (s *Stream) hide(out []byte, length int) []byte {
	if !s.mask {
		return append(out, s.r.label...)
	}
	return append(out, bytes.Repeat([]byte{'*'}, length)...)
}
