package seeds

import (
	"encoding/json"
	"slices"
	"strings"
)

// KnownSecrets returns the secrets that a bundle contains. From auth.json it takes
// every text except those known to be public. From config.toml it takes values whose
// key is named like a secret, also in headers and URLs. From the settings it takes
// tokens, headers that may carry a token, and secrets in URLs. Secrets shorter than
// MinSecret are left out, because they would match everywhere.
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
					// Commands may print the token of "Bearer …" without the first
					// word.
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

// publicAuthKeys are keys of auth.json whose values are not secret. The account id must
// not be hidden, because messages contain it.
var publicAuthKeys = map[string]bool{"auth_mode": true, "account_id": true, "last_refresh": true, "email": true, "plan_type": true}

// secretName reports whether a key's name marks its value as a secret. Keys that
// end in _var or begin with env_ hold names of variables, not values.
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

// walkTexts calls f for every text in v with the text's key.
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
