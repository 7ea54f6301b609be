package seeds

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

// rotatedAuth returns an auth.json whose tokens were issued at one time and written
// at another, by different clocks. A zero time is left out.
func rotatedAuth(account, refresh string, issued, written time.Time) []byte {
	claims := `{"a":1}`
	if !issued.IsZero() {
		claims = fmt.Sprintf(`{"iat":%d}`, issued.Unix())
	}
	id := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	last := ""
	if !written.IsZero() {
		last = fmt.Sprintf(`,"last_refresh":%q`, written.Format(time.RFC3339Nano))
	}
	return fmt.Appendf(nil, `{"auth_mode":"chatgpt","tokens":{"id_token":%q,"access_token":"at-%s","refresh_token":%q,"account_id":%q}%s}`,
		id, refresh, refresh, account, last)
}

// The issuer's time decides which login is later. A host's clock may be wrong by
// more than the time between two refreshes.
func TestTheLaterLoginIsKnownByItsIssuersClock(t *testing.T) {
	var none time.Time
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	seed := rotatedAuth("acct", "rt-0", at, at)
	for name, c := range map[string]struct {
		host []byte
		want Rotation
	}{
		"the same":                        {seed, RotationNone},
		"the same, written otherwise":     {[]byte(strings.ReplaceAll(string(seed), `":`, `" : `)), RotationNone},
		"later":                           {rotatedAuth("acct", "rt-1", at.Add(time.Hour), at.Add(time.Hour)), RotationLater},
		"later, on a host that is late":   {rotatedAuth("acct", "rt-1", at.Add(time.Hour), at.Add(-time.Hour)), RotationLater},
		"earlier, on a host that is fast": {rotatedAuth("acct", "rt-1", at.Add(-time.Hour), at.Add(time.Hour)), RotationEarlier},
		"within a second":                 {rotatedAuth("acct", "rt-1", at, at.Add(time.Millisecond)), RotationLater},
		"no issuer's time":                {rotatedAuth("acct", "rt-1", none, at.Add(time.Second)), RotationLater},
		"no issuer's time, before":        {rotatedAuth("acct", "rt-1", none, at.Add(-time.Second)), RotationEarlier},
		"no time at all":                  {rotatedAuth("acct", "rt-1", none, none), RotationUnclear},
		"the same times":                  {rotatedAuth("acct", "rt-1", at, at), RotationUnclear},
		"another account":                 {rotatedAuth("other", "rt-1", at.Add(time.Hour), at.Add(time.Hour)), RotationForeign},
		"a key":                           {[]byte(`{"auth_mode":"apikey","OPENAI_API_KEY":"sk-made-up-1"}`), RotationForeign},
		"logged out":                      {[]byte(`{"auth_mode":"chatgpt","tokens":null}`), RotationLoggedOut},
		"logged out, nothing left":        {[]byte(`{}`), RotationLoggedOut},
		"empty":                           {nil, RotationTorn},
		"cut":                             {seed[:len(seed)-9], RotationTorn},
		"two in one":                      {append(append([]byte{}, seed...), seed[20:]...), RotationTorn},
	} {
		got, err := CompareAuth(seed, c.host)
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		bad := got == RotationTorn || got == RotationForeign || got == RotationUnclear
		if (err != nil) != bad {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "rt-") || strings.Contains(err.Error(), "sk-")) {
			t.Errorf("%s: the error shows a token: %v", name, err)
		}
	}
}

// A file that was cut at any byte while it was written is never taken for a login.
func TestNoBeginningOfALoginIsALogin(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	seed, next := rotatedAuth("acct", "rt-0", at, at), rotatedAuth("acct", "rt-1", at.Add(time.Hour), at.Add(time.Hour))
	for n := range next {
		if got, _ := CompareAuth(seed, next[:n]); got != RotationTorn {
			t.Errorf("%d of %d bytes: %s", n, len(next), got)
		}
	}
}

func TestARedactorLearnsWhileItIsUsed(t *testing.T) {
	r := NewRedactor("team", []Secret{NewSecret("the-old-token")})
	s := r.Stream()
	out := string(s.Next([]byte("the-old-token the-new-to")))
	r.Add([]Secret{NewSecret("the-new-token"), NewSecret("the-old-token")})
	out += string(s.Next([]byte("ken the-new-tok")))
	out += string(s.Next([]byte("en!"))) + string(s.Flush())
	if strings.Count(out, "[redacted:team]") < 2 || strings.Contains(strings.TrimPrefix(out, "[redacted:team] the-new-token"), "the-new-token") {
		t.Errorf("stream: %q", out)
	}
	if got := r.String("the-old-token, the-new-token"); got != "[redacted:team], [redacted:team]" {
		t.Errorf("text: %q", got)
	}
	var zero Redactor
	zero.Add([]Secret{NewSecret("some-secret")})
	if got := zero.String("some-secret"); strings.Contains(got, "some-secret") {
		t.Errorf("a zero one: %q", got)
	}
}
