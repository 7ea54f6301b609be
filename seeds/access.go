package seeds

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An Access is the access token of a ChatGPT login.
type Access struct {
	Token   Secret
	Account string
	Plan    string    // empty if the token does not say
	Expires time.Time // zero if the token does not say
}

// AccessOf reads a bundle's Access. Only a ChatGPT login has one.
func AccessOf(b *Bundle) (Access, error) {
	if b.Kind() != KindChatGPT {
		return Access{}, fmt.Errorf("a seed of kind %s has no access token of a ChatGPT login", b.Kind())
	}
	var auth struct {
		Tokens struct {
			Access  string `json:"access_token"`
			Account string `json:"account_id"`
		} `json:"tokens"`
	}
	if err := json.Unmarshal(b.File(authFile), &auth); err != nil {
		return Access{}, malformedAuth(err)
	}
	parts := strings.Split(auth.Tokens.Access, ".")
	if len(parts) != 3 {
		return Access{}, errors.New("auth.json: tokens.access_token is not a JWT: cut, or half written (log in with codex again)")
	}
	var claims struct {
		Expires float64 `json:"exp"`
		Auth    struct {
			Account string `json:"chatgpt_account_id"`
			Plan    string `json:"chatgpt_plan_type"`
		} `json:"https://api.openai.com/auth"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return Access{}, errors.New("auth.json: the claims of tokens.access_token cannot be read: cut, or half written (log in with codex again)")
	}
	a := Access{Token: NewSecret(auth.Tokens.Access), Account: auth.Tokens.Account, Plan: claims.Auth.Plan}
	if a.Account == "" {
		a.Account = claims.Auth.Account
	}
	if claims.Expires > 0 {
		a.Expires = time.Unix(int64(claims.Expires), 0)
	}
	if a.Account == "" {
		return Access{}, errors.New("auth.json names no account (log in with codex again)")
	}
	return a, nil
}

// WithoutAuth returns a bundle of the same kind without auth.json.
func (b *Bundle) WithoutAuth() *Bundle {
	c := &Bundle{kind: b.kind}
	for _, f := range b.files {
		if f.path != authFile {
			c.files = append(c.files, f)
		}
	}
	return c
}
