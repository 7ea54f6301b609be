package seeds

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// authJSON is auth.json as codex 0.169 reads and writes it.
type authJSON struct {
	Mode        string          `json:"auth_mode"`
	APIKey      *string         `json:"OPENAI_API_KEY"`
	Tokens      *authTokens     `json:"tokens"`
	AccessToken *string         `json:"personal_access_token"`
	LastRefresh json.RawMessage `json:"last_refresh"`
}

type authTokens struct {
	ID      string `json:"id_token"`
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

var errLoggedOut = errors.New("auth.json is logged out: it holds neither a key nor tokens (log in with codex, then import again)")

// kindOf returns the kind of a seed; nil stands for a missing file. Errors contain no
// content.
func kindOf(auth, config []byte) (Kind, error) {
	provider, err := providerOf(config)
	if err != nil {
		return "", err
	}
	if auth != nil {
		return checkAuth(auth)
	}
	if !provider {
		return "", errors.New("neither auth.json nor a model provider in config.toml: codex could not log in " +
			"(log in with codex, or set model_provider and its [model_providers.…])")
	}
	return KindProvider, nil
}

// checkAuth refuses an auth.json with which codex starts and then fails.
func checkAuth(data []byte) (Kind, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return "", errors.New("auth.json is empty: half written, or logged out (log in with codex, then import again)")
	}
	var a authJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&a); err != nil {
		return "", malformedAuth(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("auth.json is malformed: something follows its object")
	}
	mode := a.Mode
	if mode == "" { // older versions wrote no mode
		switch {
		case a.AccessToken != nil:
			mode = "personalAccessToken"
		case a.APIKey != nil:
			mode = "apikey"
		case a.Tokens != nil:
			mode = "chatgpt"
		default:
			return "", errLoggedOut
		}
	}
	switch mode {
	case "apikey":
		if a.APIKey == nil {
			return "", errLoggedOut
		}
		return KindAPIKey, token("OPENAI_API_KEY", *a.APIKey)
	case "personalAccessToken":
		if a.AccessToken == nil {
			return "", errLoggedOut
		}
		return KindAccessToken, token("personal_access_token", *a.AccessToken)
	case "chatgpt":
		if a.Tokens == nil {
			return "", errLoggedOut
		}
		return KindChatGPT, checkTokens(a)
	}
	if strings.ContainsFunc(mode, func(r rune) bool { return (r|0x20 < 'a' || r|0x20 > 'z') }) || len(mode) > 40 {
		return "", errors.New("auth.json has an invalid auth_mode (valid: apikey, chatgpt, personalAccessToken)")
	}
	return "", fmt.Errorf("auth.json has auth_mode %q, which cannot be a seed (apikey, chatgpt and personalAccessToken can)", mode)
}

func checkTokens(a authJSON) error {
	for _, t := range []struct{ name, value string }{
		{"id_token", a.Tokens.ID}, {"access_token", a.Tokens.Access}, {"refresh_token", a.Tokens.Refresh},
	} {
		if err := token("tokens."+t.name, t.value); err != nil {
			return err
		}
	}
	if err := checkIDToken(a.Tokens.ID); err != nil {
		return err
	}
	if len(a.LastRefresh) > 0 && string(a.LastRefresh) != "null" {
		var at string
		var err error
		if json.Unmarshal(a.LastRefresh, &at) == nil {
			_, err = time.Parse(time.RFC3339Nano, at)
		}
		if at == "" || err != nil {
			return errors.New("auth.json: last_refresh is not a time")
		}
	}
	return nil
}

// checkIDToken refuses a token that codex cannot decode at start.
func checkIDToken(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("auth.json: tokens.id_token is not a JWT: cut, or half written (log in with codex again)")
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || !json.Valid(claims) {
		return errors.New("auth.json: the claims of tokens.id_token cannot be read: cut, or half written (log in with codex again)")
	}
	return nil
}

func token(name, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("auth.json: %s is empty: half written, or logged out (log in with codex, then import again)", name)
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("auth.json: %s has characters that no token has (was it pasted with a line break?)", name)
	}
	return nil
}

// malformedAuth says where the fault is, but does not quote the text.
func malformedAuth(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("auth.json ends in the middle: half written (log in with codex, then import again)")
	case errors.As(err, &syntax):
		return fmt.Errorf("auth.json is malformed: not JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("auth.json is malformed: %s should not be a %s", kind.Field, strings.Fields(kind.Value)[0])
	}
	return errors.New("auth.json is malformed: not JSON")
}
