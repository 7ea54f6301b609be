package seeds

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/followup"
	"fairlead.dev/fairlead/internal/strictyaml"
)

// settingsFile is never planted: its content goes into our part of config.toml.
const settingsFile = "settings.yaml"

// Settings are what a seed adds to every session's config.toml, its tools and its rules for
// follow-ups. They may contain secrets,
// so they are only in the encrypted bundle and in the 0600 file. An import is refused if
// config.toml sets the same keys.
type Settings struct {
	Model    string            `yaml:"model"`
	Effort   string            `yaml:"effort"`
	Provider *providerSettings `yaml:"provider"`
	// FallBack is for the model gateway alone.
	FallBack *fallBackSettings    `yaml:"fallback"`
	MCP      map[string]mcpServer `yaml:"mcp_servers"`
	// Plugins maps name@marketplace to whether it is on.
	Plugins      map[string]bool        `yaml:"plugins"`
	Marketplaces map[string]marketplace `yaml:"marketplaces"`
	Features     map[string]bool        `yaml:"features"`
	// Tools are a list as in a file of tools. Each session with the seed has them, and
	// config.toml does not: see Bundle.Tools.
	Tools any `yaml:"tools"`
	// FollowUps are rules for each session with the seed, and not for codex.
	FollowUps []followup.Rule `yaml:"follow_ups"`
	// Trust is auto (a work folder is trusted unless it has a .codex) or never.
	Trust string `yaml:"trust"`
}

type providerSettings struct {
	Name         string            `yaml:"name"`
	BaseURL      string            `yaml:"base_url"`
	BearerToken  string            `yaml:"bearer_token"`
	TokenCommand []string          `yaml:"token_command"` // prints the token
	Headers      map[string]string `yaml:"headers"`
	Query        map[string]string `yaml:"query"`
	OpenAIAuth   bool              `yaml:"openai_auth"` // takes the key of auth.json
}

type mcpServer struct {
	Command string            `yaml:"command"`
	Args    []string          `yaml:"args"`
	CWD     string            `yaml:"cwd"`
	Env     map[string]string `yaml:"env"`

	URL           string            `yaml:"url"`
	Headers       map[string]string `yaml:"headers"`
	BearerToken   string            `yaml:"bearer_token"`
	HeadersHelper string            `yaml:"headers_helper"` // prints headers as JSON

	Enabled        *bool         `yaml:"enabled"`
	Required       bool          `yaml:"required"`
	StartupTimeout time.Duration `yaml:"startup_timeout"`
	ToolTimeout    time.Duration `yaml:"tool_timeout"`
	EnabledTools   []string      `yaml:"enabled_tools"`
	DisabledTools  []string      `yaml:"disabled_tools"`
}

type marketplace struct {
	Source string `yaml:"source"` // absolute path on the host, or git URL
	Ref    string `yaml:"ref"`
}

// A SettingsError lists all mistakes of a settings file, without values.
type SettingsError struct{ Problems []strictyaml.Problem }

func (e *SettingsError) Error() string { return strictyaml.Tell("settings", e.Problems) }

// ParseSettings returns mistakes as one *SettingsError.
func ParseSettings(data []byte) (*Settings, error) {
	if len(data) > maxSettings {
		return nil, fmt.Errorf("settings: %d KiB are too much (at most %d)", len(data)>>10, maxSettings>>10)
	}
	var s Settings
	f := strictyaml.Read(data, &s)
	s.check(f)
	if len(f.Problems) > 0 {
		strictyaml.Sort(f.Problems)
		return nil, &SettingsError{f.Problems}
	}
	return &s, nil
}

const maxSettings = 1 << 20

// unasked are features that are off unless a seed turns them on. With the first four, codex
// fetches catalogues in the background; with goals, it begins turns that nobody asked for.
var unasked = []string{"plugins", "apps", "remote_plugin", "skill_search", "goals"}

func (s *Settings) render() []setting {
	if s == nil {
		return nil
	}
	var out []setting
	add := func(key, value string, table ...string) {
		out = append(out, setting{table: table, key: key, value: value, must: true, whole: len(table) > 1})
	}
	if s.Model != "" {
		add("model", tomlString(s.Model))
	}
	if s.Effort != "" {
		add("model_reasoning_effort", tomlString(s.Effort))
	}
	s.Provider.render(add)
	for _, name := range slices.Sorted(maps.Keys(s.MCP)) {
		s.MCP[name].render(func(key, value string) { add(key, value, "mcp_servers", name) })
	}
	for _, name := range slices.Sorted(maps.Keys(s.Marketplaces)) {
		m := s.Marketplaces[name]
		kind := "git"
		if path.IsAbs(m.Source) {
			kind = "local"
		}
		add("source_type", tomlString(kind), "marketplaces", name)
		add("source", tomlString(m.Source), "marketplaces", name)
		if m.Ref != "" {
			add("ref", tomlString(m.Ref), "marketplaces", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Plugins)) {
		add("enabled", tomlBool(s.Plugins[name]), "plugins", name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Features)) {
		add(name, tomlBool(s.Features[name]), "features")
	}
	return out
}

// features returns the unasked features that render does not set.
func (s *Settings) features() []setting {
	var out []setting
	for _, name := range unasked {
		on := false
		if s != nil {
			if _, said := s.Features[name]; said {
				continue
			}
			on = name == "plugins" && len(s.Plugins) > 0
		}
		out = append(out, setting{table: []string{"features"}, key: name, value: tomlBool(on)})
	}
	return out
}

func (p *providerSettings) render(add func(key, value string, table ...string)) {
	if p == nil {
		return
	}
	id := p.id()
	add("model_provider", tomlString(id))
	in := func(key, value string) { add(key, value, "model_providers", id) }
	in("name", tomlString(id))
	in("base_url", tomlString(p.BaseURL))
	in("wire_api", tomlString("responses"))
	if p.BearerToken != "" {
		in("experimental_bearer_token", tomlString(p.BearerToken))
	}
	if len(p.TokenCommand) > 0 {
		in("auth", "{ command = "+tomlString(p.TokenCommand[0])+", args = "+tomlList(p.TokenCommand[1:])+" }")
	}
	if len(p.Headers) > 0 {
		in("http_headers", tomlTable(p.Headers))
	}
	if len(p.Query) > 0 {
		in("query_params", tomlTable(p.Query))
	}
	if p.OpenAIAuth {
		in("requires_openai_auth", tomlBool(true))
	}
}

func (p *providerSettings) id() string {
	if p.Name == "" {
		return "fairlead"
	}
	return p.Name
}

func (m mcpServer) render(add func(key, value string)) {
	if m.Command != "" {
		add("command", tomlString(m.Command))
		if len(m.Args) > 0 {
			add("args", tomlList(m.Args))
		}
		if m.CWD != "" {
			add("cwd", tomlString(m.CWD))
		}
		if len(m.Env) > 0 {
			add("env", tomlTable(m.Env))
		}
	} else {
		add("url", tomlString(m.URL))
		if headers := m.headers(); len(headers) > 0 {
			add("http_headers", tomlTable(headers))
		}
		if m.HeadersHelper != "" {
			add("http_headers_helper", tomlString(m.HeadersHelper))
		}
	}
	if m.Enabled != nil {
		add("enabled", tomlBool(*m.Enabled))
	}
	if m.Required {
		add("required", tomlBool(true))
	}
	if m.StartupTimeout > 0 {
		add("startup_timeout_sec", tomlSeconds(m.StartupTimeout))
	}
	if m.ToolTimeout > 0 {
		add("tool_timeout_sec", tomlSeconds(m.ToolTimeout))
	}
	if m.EnabledTools != nil {
		add("enabled_tools", tomlList(m.EnabledTools))
	}
	if m.DisabledTools != nil {
		add("disabled_tools", tomlList(m.DisabledTools))
	}
}

// headers includes the bearer token. codex refuses bearer_token in the file (measured with
// 0.169).
func (m mcpServer) headers() map[string]string {
	if m.BearerToken == "" {
		return m.Headers
	}
	all := maps.Clone(m.Headers)
	if all == nil {
		all = map[string]string{}
	}
	all["Authorization"] = "Bearer " + m.BearerToken
	return all
}

func (s *Settings) secrets(f func(text string)) {
	if s == nil {
		return
	}
	named := func(texts map[string]string) {
		for key, text := range texts {
			if secretHeader(key, text) {
				f(text)
				if _, token, cut := strings.Cut(text, " "); cut { // commands may print the token of "Bearer …" alone
					f(strings.TrimSpace(token))
				}
			}
		}
	}
	if p := s.Provider; p != nil {
		f(p.BearerToken)
		named(p.Headers)
		named(p.Query)
		secretsOfURL(p.BaseURL, f)
	}
	s.FallBack.secrets(f, named)
	for _, m := range s.MCP {
		f(m.BearerToken)
		named(m.Headers)
		secretsOfURL(m.URL, f)
	}
	for _, m := range s.Marketplaces {
		secretsOfURL(m.Source, f)
	}
}

func effectiveConfig(config []byte, s *Settings) ([]byte, error) {
	if s == nil {
		return config, nil
	}
	merged, _, err := mergeConfig(config, s.render())
	if errors.Is(err, errTwice) {
		return nil, fmt.Errorf("settings and config.toml set the same thing: %w", err)
	}
	return merged, err
}

func settingsOf(data []byte) (*Settings, error) {
	if data == nil {
		return nil, nil
	}
	return ParseSettings(data)
}

func tomlList(texts []string) string {
	parts := make([]string, len(texts))
	for i, text := range texts {
		parts[i] = tomlString(text)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func tomlTable(texts map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		parts = append(parts, dottedKey([]string{key})+" = "+tomlString(texts[key]))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// tomlSeconds returns a float; codex accepts fractions of a second.
func tomlSeconds(d time.Duration) string {
	text := strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
