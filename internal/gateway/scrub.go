package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// minSecret is a length in bytes. Shorter values of headers and queries are not taken for
// secrets, and shorter secrets are not searched for in answers.
const minSecret = 12

const hiddenSecret = "[secret]"

// credential matches names of headers and queries that carry credentials.
var credential = regexp.MustCompile(`(?i)auth|key|token|secret|cookie|sig|pass|credential`)

// secretsOf returns what must be in no error and no record, the longest first. With credentials
// it returns only the keys, and the values of headers and queries with the name of a credential:
// these must be in no answer either. Other values, such as a version, may stand in a text of the
// model, which must not change.
func secretsOf(upstreams []Upstream, credentials bool) []string {
	var all []string
	add := func(text string, least int) {
		if len(text) >= least {
			all = append(all, text, url.QueryEscape(text))
		}
	}
	for _, u := range upstreams {
		add(u.Key, 1)
		for _, more := range []map[string][]string{u.Header, u.Query} {
			for name, values := range more {
				if credentials && !credential.MatchString(name) {
					continue
				}
				for _, v := range values {
					add(v, minSecret)
					_, token, _ := strings.Cut(v, " ") // of "Bearer …"
					add(token, minSecret)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(all)
}

// long returns the secrets that are searched in answers: a short key would be found in texts
// that have nothing to do with it.
func long(secrets []string) (out []string) {
	for _, s := range secrets {
		if len(s) >= minSecret {
			out = append(out, s)
		}
	}
	return out
}

// scrub removes secrets from a text for people.
func (g *Gateway) scrub(text string) string { return replaceAll(text, g.secrets) }

func replaceAll(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, hiddenSecret)
	}
	return text
}

func containsAny(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) })
}

// copyAnswered copies headers of a provider for codex, without secrets.
func (g *Gateway) copyAnswered(to, from http.Header) {
	clean := make(http.Header, len(from))
	for n, values := range from {
		for _, v := range values {
			clean[n] = append(clean[n], replaceAll(v, g.searched))
		}
	}
	copyHeaders(to, clean, answered)
}

// scrubBody removes secrets from an answer that is no stream. An answer that is cut, or is not
// JSON, is replaced by a note if it has a secret in an escaped form.
func (g *Gateway) scrubBody(text []byte) []byte {
	secrets := g.searched
	if json.Valid(text) {
		return scrubJSON(text, secrets)
	}
	clean := replaceAll(string(text), secrets)
	clean = clean[:len(clean)-openAt(clean, secrets)]
	if hasEscaped(clean, secrets) {
		clean = "(the provider's answer had a secret in it)"
	}
	return []byte(clean)
}

// nested is how many levels deep a JSON text may be quoted within another one, as arguments of
// tools are.
const nested = 2

// hasEscaped reports whether a JSON text has a secret, also in an escaped form.
func hasEscaped(text string, secrets []string) bool {
	for range nested + 1 {
		if containsAny(text, secrets) {
			return true
		}
		if !strings.Contains(text, `\`) {
			return false
		}
		text = unescape(text)
	}
	return containsAny(text, secrets)
}

// unescape takes JSON's escapes out of a text, of which only a part need be JSON. Characters
// beyond ASCII, which no secret has, become others.
func unescape(text string) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		i++
		if text[i] != 'u' || i+4 >= len(text) {
			out = append(out, text[i])
			continue
		}
		var c uint16
		if _, err := fmt.Sscanf(text[i+1:i+5], "%04x", &c); err != nil || c >= utf8.RuneSelf {
			c = '?'
		}
		out = append(out, byte(c))
		i += 4
	}
	return string(out)
}

// scrubJSON removes secrets from the texts of a JSON value, or returns the value as it is.
func scrubJSON(text []byte, secrets []string) []byte {
	if len(secrets) == 0 || !hasEscaped(string(text), secrets) {
		return text
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return text // the caller has checked it
	}
	return mustJSON(scrubValue(v, secrets, nested))
}

func scrubValue(v any, secrets []string, depth int) any {
	switch v := v.(type) {
	case string:
		return scrubString(v, secrets, depth)
	case json.Number:
		if containsAny(v.String(), secrets) {
			return hiddenSecret
		}
	case []any:
		for i := range v {
			v[i] = scrubValue(v[i], secrets, depth)
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for k, e := range v {
			clean[scrubString(k, secrets, depth)] = scrubValue(e, secrets, depth)
		}
		return clean
	}
	return v
}

func scrubString(text string, secrets []string, depth int) string {
	text = replaceAll(text, secrets)
	if depth == 0 || !hasEscaped(text, secrets) {
		return text
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) == nil && !d.More() {
		return string(mustJSON(scrubValue(v, secrets, depth-1)))
	}
	return hiddenSecret
}

// openAt returns the length of the longest suffix of text that is a prefix of a secret.
func openAt(text string, secrets []string) (n int) {
	for _, s := range secrets {
		for i := min(len(s)-1, len(text)); i > n; i-- {
			if strings.HasSuffix(text, s[:i]) {
				n = i
				break
			}
		}
	}
	return n
}

// A scrubber removes secrets from the events of one stream, also if a secret is spread over
// several deltas of one text. It holds back the end of a delta only while a secret may begin
// with it.
type scrubber struct {
	secrets []string
	held    []*heldText
}

// A heldText is the end of a text that was not sent yet.
type heldText struct {
	key  string
	like map[string]json.RawMessage // its last delta
	text string
}

// take returns the events to send in place of f.
func (s *scrubber) take(f frame) []frame {
	if len(s.secrets) == 0 || f.done() {
		return append(s.flush(), f)
	}
	if strings.HasSuffix(f.kind, ".delta") {
		if out, ok := s.delta(f); ok {
			return out
		}
	}
	s.clean(&f)
	f.kind = replaceAll(f.kind, s.secrets)
	return append(s.flush(), f)
}

// clean removes secrets that the data has as a whole.
func (s *scrubber) clean(f *frame) {
	if data := scrubJSON(f.data, s.secrets); len(data) != len(f.data) || &data[0] != &f.data[0] {
		f.data, f.read = data, nil
	}
}

// plain reports that the text of a delta can be sent as it is: nothing is held back, and it neither
// has a secret nor ends as one begins. It returns false for all that is not simple.
func (s *scrubber) plain(f frame) bool {
	m := members{text: f.data}
	if len(s.held) > 0 || !m.open() {
		return false
	}
	var delta []byte
	for {
		name, value, ok := m.next()
		switch {
		case !ok:
			if len(delta) < 2 || delta[0] != '"' || bytes.IndexByte(delta, '\\') >= 0 {
				return false
			}
			text := string(delta[1 : len(delta)-1])
			return !containsAny(text, s.secrets) && openAt(text, s.secrets) == 0
		case bytes.IndexByte(name, '\\') >= 0:
			return false // the name may be another one than it seems
		case string(name) == `"delta"`:
			delta = value
		}
	}
}

func (s *scrubber) delta(f frame) ([]frame, bool) {
	if s.plain(f) {
		s.clean(&f)
		return []frame{f}, true
	}
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal(f.data, &members) != nil || json.Unmarshal(members["delta"], &text) != nil {
		return nil, false
	}
	key := fmt.Sprintf("%s %s %s %s %s", f.kind, members["item_id"], members["output_index"], members["content_index"], members["summary_index"])
	at := slices.IndexFunc(s.held, func(h *heldText) bool { return h.key == key })
	before := ""
	if at >= 0 {
		before = s.held[at].text
		s.held = slices.Delete(s.held, at, at+1)
	}
	clean := replaceAll(before+text, s.secrets)
	keep := openAt(clean, s.secrets)
	send := clean[:len(clean)-keep]
	if keep > 0 {
		s.held = append(s.held, &heldText{key: key, like: members, text: clean[len(clean)-keep:]})
	}
	if send == text {
		s.clean(&f)
		return []frame{f}, true
	}
	return []frame{s.deltaOf(members, send)}, true
}

func (s *scrubber) deltaOf(like map[string]json.RawMessage, text string) frame {
	m := make(map[string]json.RawMessage, len(like))
	for k, v := range like {
		m[k] = v
	}
	m["delta"] = mustJSON(text)
	var kind string
	_ = json.Unmarshal(m["type"], &kind) // the splitter has read it
	return frame{kind: kind, data: scrubJSON(mustJSON(m), s.secrets)}
}

// flush returns events with the texts that were held back. They did not continue as a secret.
func (s *scrubber) flush() (out []frame) {
	for _, h := range s.held {
		out = append(out, s.deltaOf(h.like, h.text))
	}
	s.held = nil
	return out
}
