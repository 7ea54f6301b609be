package seeds

import (
	"encoding/json"
	"slices"
	"strings"
)

// KnownSecrets returns the secrets of a bundle that have at least MinSecret bytes: every
// text of auth.json that is not known to be public, values of config.toml whose key is
// named like a secret (also in headers and URLs), and tokens and likely tokens of the
// settings.
func KnownSecrets(b *Bundle) []Secret {
	if b == nil {
		return nil
	}
	found := map[string]bool{}
	findInAuth(b.File(authFile), found)
	if data := b.File(configFile); data != nil {
		if c, err := parseConfig(data); err == nil {
			walkTexts("", c, func(key, text string) {
				if secretName(key) {
					found[text] = true
					// Commands may print the token of "Bearer …" alone.
					if _, token, cut := strings.Cut(text, " "); cut {
						found[strings.TrimSpace(token)] = true
					}
				}
				secretsOfURL(text, func(text string) { found[text] = true })
			})
		}
	}
	if own, err := settingsOf(b.File(settingsFile)); err == nil {
		own.secrets(func(text string) { found[text] = true })
	}
	return worthHiding(found)
}

// AuthSecrets returns the secrets of an auth.json; none if it is not JSON.
func AuthSecrets(auth []byte) []Secret {
	found := map[string]bool{}
	findInAuth(auth, found)
	return worthHiding(found)
}

func findInAuth(auth []byte, found map[string]bool) {
	var v any
	if json.Unmarshal(auth, &v) != nil {
		return
	}
	walkTexts("", v, func(key, text string) {
		if !publicAuthKeys[key] {
			found[text] = true
		}
	})
}

func worthHiding(found map[string]bool) []Secret {
	var texts []string
	for text := range found {
		if len(text) >= MinSecret {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	secrets := make([]Secret, len(texts))
	for i, text := range texts {
		secrets[i] = NewSecret(text)
	}
	return secrets
}

// publicAuthKeys are keys of auth.json without secrets. Messages contain the account id, so
// it must not be hidden.
var publicAuthKeys = map[string]bool{"auth_mode": true, "account_id": true, "last_refresh": true, "email": true, "plan_type": true}

// secretName reports whether a key is named like a secret. Keys that end in _var or begin
// with env_ hold names of variables.
func secretName(key string) bool {
	k := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	if strings.HasSuffix(k, "_var") || strings.HasPrefix(k, "env_") {
		return false
	}
	for _, word := range []string{"token", "secret", "password", "passwd", "authorization", "credential", "cookie", "api_key", "apikey", "access_key", "private_key"} {
		if strings.Contains(k, word) {
			return true
		}
	}
	return k == "key" || strings.HasSuffix(k, "_key")
}

func walkTexts(key string, v any, f func(key, text string)) {
	switch v := v.(type) {
	case string:
		f(key, v)
	case []any:
		for _, e := range v {
			walkTexts(key, e, f)
		}
	case map[string]any:
		for k, e := range v {
			walkTexts(k, e, f)
		}
	}
}
