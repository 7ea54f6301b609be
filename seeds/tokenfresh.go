package seeds

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const freshFor = 48 * time.Hour

// Fresh returns whether a login's access token is valid for long enough by its own claims,
// and until when.
func (i Issuer) Fresh(b *Bundle) (Answer, time.Time) {
	var a authJSON
	if b.Kind() != KindChatGPT || json.Unmarshal(b.Auth(), &a) != nil || a.Tokens == nil {
		return Answer{Verdict: VerdictUnknown, Reason: "nothing in it says how long it is good"}, time.Time{}
	}
	issued, until := lifetime(a.Tokens.Access)
	if until.IsZero() {
		return Answer{Verdict: VerdictUnknown, Reason: "its access token does not say how long it is good"}, until
	}
	before := freshFor
	if !issued.IsZero() {
		before = min(before, until.Sub(issued)/4)
	}
	if left := until.Sub(i.now()); left <= before {
		return Answer{Verdict: VerdictUnknown, Reason: fmt.Sprintf("its access token ends at %s", until.UTC().Format(time.RFC3339))}, until
	}
	return Answer{Verdict: VerdictFresh, Reason: fmt.Sprintf("its access token is valid until %s by its own claims; the issuer was not asked", until.UTC().Format(time.RFC3339))}, until
}

func lifetime(token string) (issued, until time.Time) {
	var c struct {
		IssuedAt float64 `json:"iat"`
		Expires  float64 `json:"exp"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return issued, until
	}
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || json.Unmarshal(data, &c) != nil {
		return issued, until
	}
	at := func(s float64) time.Time {
		if s <= 0 || s > 1<<40 {
			return time.Time{}
		}
		return time.Unix(int64(s), 0)
	}
	return at(c.IssuedAt), at(c.Expires)
}
