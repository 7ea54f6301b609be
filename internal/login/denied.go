package login

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A Denied says for the audit record why somebody gets no certificate, and who that is. Of the
// ID token it has only a few claims.
type Denied struct {
	Err error
	// Person is the person whom the ID token names, if the token is valid. Then the refusal has
	// another reason than the token.
	Person Person
	// Claimed is what the ID token says. Unless there is a Person, nothing of that is verified:
	// anybody can write such a token. It is empty if it cannot be read.
	Claimed string
}

func (d *Denied) Error() string { return d.Err.Error() }

func (d *Denied) Unwrap() error { return d.Err }

// maxClaim bounds, in bytes, a claim in Denied.Claimed.
const maxClaim = 120

// claimed returns the claims of an ID token that say whose it is, for whom and until when. It
// verifies nothing.
func (v *Verifier) claimed(raw string) string {
	parts := strings.Split(raw[:min(len(raw), maxToken)], ".")
	if len(raw) > maxToken || len(parts) != 3 {
		return ""
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims map[string]any
	if json.Unmarshal(data, &claims) != nil {
		return ""
	}
	var said []string
	seen := map[string]bool{}
	for _, name := range []string{v.claims.Principal, "sub", "iss", "aud", "iat", "exp"} {
		if text := claimText(claims[name]); text != "" && !seen[name] {
			seen[name] = true
			said = append(said, fmt.Sprintf("%s=%q", name, text))
		}
	}
	return strings.Join(said, " ")
}

// claimText returns a claim as text; of a list, the first text.
func claimText(claim any) string {
	switch c := claim.(type) {
	case string:
		return clip(c)
	case float64: // a time
		if c >= 0 && c < 1<<40 {
			return time.Unix(int64(c), 0).UTC().Format(time.RFC3339)
		}
	case []any:
		if len(c) > 0 {
			if first, ok := c[0].(string); ok {
				return clip(first)
			}
		}
	}
	return ""
}

func clip(text string) string {
	if len(text) <= maxClaim {
		return text
	}
	n := maxClaim
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
