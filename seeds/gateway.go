package seeds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
)

// tokenFile is in CODEX_HOME and has the token for the model gateway. Only its content
// changes while codex runs: see the note on rename at the permission profiles.
const tokenFile = "model-token"

// TokenFile is the path of the file with the token for the model gateway.
func TokenFile(codexHome string) string { return path.Join(codexHome, tokenFile) }

// TokenLength is the length in bytes of a token for the model gateway. tokenFile has a token
// and a newline. It has the same length before the first token is written.
const TokenLength = 55

// gatewayProvider is the id of the model provider by which codex reaches the model gateway.
const gatewayProvider = "fairlead-gateway"

// How often codex repeats a request to the gateway, and a stream that failed. The pauses double
// from 200 ms. codex runs the command for the token only before a stream, and only this command
// waits while nobody serves the port. So the pauses between requests must stay short. Otherwise
// codex would still pause when a worker is back. All pauses together bridge more than ten
// minutes in which the gateway is there, but its provider is not.
const (
	gatewayRequests = "6"
	gatewayStreams  = "11"
)

// Settings of codex's command for the token, in ms: how long codex uses a token, and how long
// the command may wait for the port, which is until the turn's own time limit ends it.
const (
	tokenAge  = "1000"
	tokenWait = "604800000"
)

// tokenCommand prints the token in $1. It waits until sshd, as root or as this user, listens
// at port $2 (hexadecimal): only then does a worker serve it. So codex asks as soon as a
// worker is back, however long none was, and gives the token to no program of another user
// that listens there meanwhile. It ends with codex. Without /proc/net/tcp it does not wait.
const tokenCommand = `at="^ *[0-9]*: [0-9A-F]*:$2 [0-9A-F]*:0000 0A [0-9A-F:]* [0-9A-F:]* [0-9A-F]*  *"
me=$(id -u) || exit
until grep -q -e "${at}0 " -e "$at$me " /proc/net/tcp 2>/dev/null || [ $? != 1 ]; do
	[ -d "/proc/$PPID" ] && sleep 1 || exit
done
exec cat -- "$1"`

// gatewaySettings are those for a codex that reaches the model through a port of its host.
func gatewaySettings(codexHome string, port int) (top, table []setting) {
	at := []string{"model_providers", gatewayProvider}
	add := func(key, value string) { table = append(table, setting{table: at, key: key, value: value, must: true}) }
	add("name", tomlString("model gateway of Fairlead"))
	add("base_url", tomlString(fmt.Sprintf("http://127.0.0.1:%d/v1", port)))
	add("wire_api", tomlString("responses"))
	add("request_max_retries", gatewayRequests)
	add("stream_max_retries", gatewayStreams)
	var args []string
	for _, arg := range []string{"-c", tokenCommand, "sh", TokenFile(codexHome), fmt.Sprintf("%04X", port)} {
		args = append(args, tomlString(arg))
	}
	add("auth", fmt.Sprintf("{ command = \"sh\", args = [%s], refresh_interval_ms = %s, timeout_ms = %s }", strings.Join(args, ", "), tokenAge, tokenWait))
	return []setting{{key: "model_provider", value: tomlString(gatewayProvider), must: true}}, table
}

func noToken() []byte { return append(bytes.Repeat([]byte("-"), TokenLength), '\n') }

// An Endpoint is what a codex with a seed would ask for a model.
type Endpoint struct {
	Name    string // of the provider
	BaseURL string
	Key     Secret // zero if headers replace it, or if the provider wants none
	Header  http.Header
	Query   url.Values
	// Models maps the names of models that codex asks for to those of this provider.
	Models map[string]string
}

// EndpointOf returns the Endpoint of a seed with an API key, or with a model provider.
func EndpointOf(b *Bundle) (Endpoint, error) {
	if err := CheckGateway(b.Kind()); err != nil {
		return Endpoint{}, err
	}
	var a authJSON
	if auth := b.Auth(); auth != nil && json.Unmarshal(auth, &a) != nil {
		return Endpoint{}, errors.New("its auth.json cannot be read")
	}
	config, err := b.configWithSettings()
	if err != nil {
		return Endpoint{}, err
	}
	p, err := chosenProvider(config)
	if err != nil {
		return Endpoint{}, err
	}
	switch {
	case p.elsewhere != "":
		return Endpoint{}, fmt.Errorf("model provider %q takes its key from %s on the host, so a worker does not have it (set experimental_bearer_token)", p.name, p.elsewhere)
	case p.base == "":
		return Endpoint{}, fmt.Errorf("model provider %q has no base_url", p.name)
	}
	e := Endpoint{Name: p.name, BaseURL: p.base, Header: http.Header{}, Query: p.query}
	for name, value := range p.headers {
		e.Header.Set(name, value)
	}
	switch key := a.APIKey; {
	case p.key != "" && !p.own:
		e.Key = NewSecret(p.key)
	case key != nil && (p.own || p.wants):
		e.Key = NewSecret(*key)
	case p.own || p.wants:
		return Endpoint{}, fmt.Errorf("the seed has no key for model provider %q", p.name)
	}
	return e, nil
}

// CheckGateway refuses a seed of a kind that the model gateway cannot use.
func CheckGateway(kind Kind) error {
	switch kind {
	case KindAPIKey, KindProvider:
		return nil
	}
	return fmt.Errorf("a seed of kind %s cannot be used by the model gateway, which needs an API key or a model provider", kind)
}

// elsewhere are the settings of config.toml that say where codex finds a model.
var elsewhere = []string{"model_provider", "model_providers", "openai_base_url", "chatgpt_base_url"}

// ForGateway returns a bundle of the same kind without what codex needs to reach a model
// itself: auth.json, model providers and their keys.
func (b *Bundle) ForGateway() (*Bundle, error) {
	c := &Bundle{kind: b.kind}
	for _, f := range b.files {
		var err error
		switch f.path {
		case authFile, tokenFile:
			continue
		case configFile:
			f.data, err = withoutProviders(f.data)
		case settingsFile:
			f.data, err = withoutProvider(f.data)
		}
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, f)
	}
	return c, nil
}

func withoutProviders(config []byte) ([]byte, error) {
	all, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	n := len(all)
	for _, key := range elsewhere {
		delete(all, key)
	}
	if profiles, ok := all["profiles"].(map[string]any); ok {
		for _, p := range profiles {
			if profile, ok := p.(map[string]any); ok {
				if _, ok := profile["model_provider"]; ok {
					delete(profile, "model_provider")
					n++
				}
			}
		}
	}
	if len(all) == n {
		return config, nil
	}
	out, err := toml.Marshal(all)
	if err != nil {
		return nil, errors.New("config.toml cannot be written without its model providers")
	}
	if again, err := parseConfig(out); err != nil || !sameTables(all, again) {
		return nil, errors.New("config.toml cannot be written without its model providers")
	}
	return out, nil
}

func withoutProvider(settings []byte) ([]byte, error) {
	own, err := settingsOf(settings)
	if err != nil || own == nil || own.Provider == nil && own.FallBack == nil {
		return settings, err
	}
	var all yaml.MapSlice
	if err := yaml.Unmarshal(settings, &all); err != nil {
		return nil, errors.New("settings.yaml cannot be read")
	}
	all = slices.DeleteFunc(all, func(item yaml.MapItem) bool { return item.Key == "provider" || item.Key == "fallback" })
	if len(all) == 0 {
		return []byte("{}\n"), nil
	}
	out, err := yaml.Marshal(all)
	if err != nil {
		return nil, errors.New("settings.yaml cannot be written without its provider")
	}
	if again, err := settingsOf(out); err != nil || again == nil || again.Provider != nil || again.FallBack != nil {
		return nil, errors.New("settings.yaml cannot be written without its provider")
	}
	return out, nil
}
