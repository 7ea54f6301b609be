package seeds

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Rotation says how an auth.json on a host relates to its seed's.
type Rotation string

const (
	// RotationNone means the same tokens.
	RotationNone Rotation = "none"
	// RotationLater means the same login, refreshed since. The seed's refresh token may be
	// used up.
	RotationLater Rotation = "later"
	// RotationEarlier means an earlier state of the login. It may be discarded.
	RotationEarlier Rotation = "earlier"
	// RotationLoggedOut means no login.
	RotationLoggedOut Rotation = "logged_out"
	// RotationTorn means half written or damaged: read the file again.
	RotationTorn Rotation = "torn"
	// RotationForeign means another account or another kind.
	RotationForeign Rotation = "foreign"
	// RotationUnclear means other tokens of the login, and nothing shows which are later.
	RotationUnclear Rotation = "unclear"
)

// CompareAuth returns how an auth.json on a host relates to the seed's. Only a later one
// may replace it. If it is torn, foreign or unclear, the error says why, without content.
//
// The issuer's times in the tokens count first: a host's clock may be wrong by more than
// the time between two refreshes.
func CompareAuth(seed, host []byte) (Rotation, error) {
	kind, err := checkAuth(host)
	switch {
	case errors.Is(err, errLoggedOut):
		return RotationLoggedOut, nil
	case err != nil:
		return RotationTorn, err
	case kind != KindChatGPT:
		return RotationForeign, fmt.Errorf("auth.json on the host is of kind %s now: it was replaced by hand (log in to the seed's account again, or give it up)", kind)
	}
	was, err := loginOf(seed)
	if err != nil {
		return RotationUnclear, fmt.Errorf("read the seed's stored auth.json: %w", err)
	}
	now, err := loginOf(host)
	switch {
	case err != nil:
		return RotationTorn, err
	case was.account != now.account:
		return RotationForeign, errors.New("auth.json on the host belongs to another account than the seed: somebody logged in there (import that login under a name of its own, or give it up)")
	case was.tokens == now.tokens:
		return RotationNone, nil
	}
	for _, t := range [][2]time.Time{{was.issued, now.issued}, {was.refreshed, now.refreshed}} {
		switch {
		case t[0].IsZero() || t[1].IsZero() || t[0].Equal(t[1]):
		case t[1].After(t[0]):
			return RotationLater, nil
		default:
			return RotationEarlier, nil
		}
	}
	return RotationUnclear, errors.New("auth.json on the host has other tokens of the same login, and nothing in them tells which came later")
}

// rotatedFrom reports whether a host's auth.json is a later one of the seed's login. To
// overwrite it would lose the login.
func rotatedFrom(seed, host []byte) bool {
	r, _ := CompareAuth(seed, host)
	return r == RotationLater
}

type login struct {
	tokens    authTokens
	account   string
	issued    time.Time // by the issuer's clock; zero if unknown
	refreshed time.Time // by the clock of the machine that wrote it
}

func loginOf(auth []byte) (login, error) {
	var a struct {
		Tokens struct {
			authTokens
			Account string `json:"account_id"`
		} `json:"tokens"`
		LastRefresh json.RawMessage `json:"last_refresh"`
	}
	if err := json.Unmarshal(auth, &a); err != nil {
		return login{}, malformedAuth(err)
	}
	l := login{tokens: a.Tokens.authTokens, account: a.Tokens.Account}
	for _, token := range []string{l.tokens.ID, l.tokens.Access} {
		c := claimsOf(token)
		if l.account == "" {
			l.account = c.Auth.Account
		}
		if at := time.Unix(int64(c.IssuedAt), 0); c.IssuedAt > 0 && at.After(l.issued) {
			l.issued = at
		}
	}
	// checkAuth has refused an invalid time.
	_ = json.Unmarshal(a.LastRefresh, &l.refreshed)
	return l, nil
}

type claims struct {
	IssuedAt float64 `json:"iat"`
	Auth     struct {
		Account string `json:"chatgpt_account_id"`
	} `json:"https://api.openai.com/auth"`
}

func claimsOf(token string) (c claims) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c
	}
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err == nil {
		_ = json.Unmarshal(data, &c)
	}
	return c
}

// AuthDigest returns the SHA-256 (hex) of an auth.json, by which workflows identify it.
func AuthDigest(auth []byte) string { return digest(auth) }

// Auth returns the bundle's auth.json, nil if it has none.
func (b *Bundle) Auth() []byte { return b.File(authFile) }

// WithAuth returns a copy with another auth.json of the same kind.
func (b *Bundle) WithAuth(auth []byte) (*Bundle, error) {
	files := slices.Clone(b.files)
	i := slices.IndexFunc(files, func(f file) bool { return f.path == authFile })
	if i < 0 {
		return nil, errors.New("the seed has no auth.json that could be replaced")
	}
	files[i].data = slices.Clone(auth)
	next, err := newBundle(files, slices.Clone(b.ignored))
	if err == nil && next.kind != b.kind {
		err = fmt.Errorf("auth.json would make a seed of kind %s out of one of kind %s", next.kind, b.kind)
	}
	if err != nil {
		return nil, err
	}
	return next, nil
}
