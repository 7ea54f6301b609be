package seeds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"

	"fairlead.dev/fairlead/internal/protocol"
)

const wholeSettings = `model: gpt-5.5
effort: low
provider:
  name: team
  base_url: http://127.0.0.1:9/v1?api_key=marked-query-0123
  bearer_token: marked-provider-0123
  headers: {X-Team: platform, X-Auth: marked-x-auth}
  query: {version: "3"}
mcp_servers:
  docs:
    command: /usr/bin/docs
    args: [--stdio, "a \"b\"\u0001"]
    cwd: /srv
    env: {LANG: C.UTF-8, TOKEN_FILE: /etc/docs.token}
    enabled: false
  search:
    url: https://mcp.example/mcp
    bearer_token: marked-mcp-0123
    headers: {X-Opaque: 0123456789abcdefmarked}
    startup_timeout: 1500ms
    tool_timeout: 1m
    required: true
    enabled_tools: [find]
    disabled_tools: [drop]
  helped: {url: "https://h.example/mcp", headers_helper: "/usr/local/bin/token search"}
marketplaces: {team: {source: /srv/plugins}}
plugins: {lint@team: true}
features: {multi_agent: false, apps: true}
trust: never
`

func TestSettingsBecomeOurPartOfTheConfig(t *testing.T) {
	owner := "personality = 'kind'\nzzz_unknown = [1, 2]\n[mcp_servers.theirs]\ncommand = 'x'\n[features]\nshell_tool = true\n"
	b, err := PackWith(folder(t, map[string]string{"config.toml": owner}), []byte(wholeSettings))
	if err != nil || b.Kind() != KindProvider {
		t.Fatalf("%v, %v", b, err)
	}
	own, err := settingsOf(b.File(settingsFile))
	if err != nil {
		t.Fatal(err)
	}
	config := planted(t, []byte(owner), own)
	back, err := StripConfig(config)
	if err != nil || string(back) != owner {
		t.Errorf("stripped %q, %v", back, err)
	}
	again := planted(t, config, own)
	if string(again) != string(config) {
		t.Errorf("written again it differs:\n%s", again)
	}
	var c map[string]any
	if err := toml.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"model": "gpt-5.5", "model_reasoning_effort": "low", "model_provider": "team", "personality": "kind", "zzz_unknown": []any{int64(1), int64(2)},
		"model_providers team base_url":                  "http://127.0.0.1:9/v1?api_key=marked-query-0123",
		"model_providers team experimental_bearer_token": "marked-provider-0123",
		"model_providers team http_headers X-Team":       "platform",
		"model_providers team query_params version":      "3",
		"mcp_servers theirs command":                     "x",
		"mcp_servers docs args":                          []any{"--stdio", "a \"b\"\x01"},
		"mcp_servers docs cwd":                           "/srv",
		"mcp_servers docs enabled":                       false,
		"mcp_servers docs env LANG":                      "C.UTF-8",
		"mcp_servers search http_headers Authorization":  "Bearer marked-mcp-0123",
		"mcp_servers search startup_timeout_sec":         1.5,
		"mcp_servers search tool_timeout_sec":            60.0,
		"mcp_servers search required":                    true,
		"mcp_servers search enabled_tools":               []any{"find"},
		"mcp_servers search disabled_tools":              []any{"drop"},
		"mcp_servers helped http_headers_helper":         "/usr/local/bin/token search",
		"marketplaces team source_type":                  "local",
		"plugins lint@team enabled":                      true,
		"features plugins":                               true,
		"features apps":                                  true,
		"features multi_agent":                           false,
		"features shell_tool":                            true,
		"features remote_plugin":                         false,
		"features goals":                                 false,
		"default_permissions":                            "fairlead",
	} {
		got, _ := lookup(c, strings.Fields(path))
		if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%s is %#v; want %#v", path, got, want)
		}
	}
}

// planted merges settings into a config.toml as Plant does for a session.
func planted(t interface {
	Helper()
	Fatal(...any)
}, owner []byte, own *Settings) []byte {
	t.Helper()
	settings, err := sessionSettings(PlantSpec{CodexHome: "/r/s/codex-home", WorkDir: "/r/s/work", Sandbox: protocol.WorkspaceWrite},
		[]string{configFile, authFile}, trustLevel{dirs: []string{"/r/s/work"}, trusted: true}, own)
	if err != nil {
		t.Fatal(err)
	}
	merged, _, err := mergeConfig(owner, settings)
	if err != nil {
		t.Fatal(err)
	}
	return merged
}

func TestSettingsAreKnownSecrets(t *testing.T) {
	b, err := PackWith("", []byte(wholeSettings))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range KnownSecrets(b) {
		got = append(got, s.Reveal())
	}
	for _, want := range []string{"marked-query-0123", "marked-provider-0123", "marked-x-auth", "marked-mcp-0123", "0123456789abcdefmarked"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not known to be a secret", want)
		}
	}
	if slices.Contains(got, "platform") || slices.Contains(got, "/etc/docs.token") {
		t.Errorf("what is no secret would be hidden: %v", got)
	}
}

func TestEveryMistakeInSettingsIsToldWithItsLine(t *testing.T) {
	_, err := PackWith("", []byte(`modell: x
provider:
  name: openai
  base_url: marked
  bearer_token: "marked\n"
  openai_auth: true
mcp_servers:
  a b: {command: x}
  none: {enabled: true}
  both: {command: x, url: "http://x"}
  env: {command: x, env: {GITHUB_TOKEN: marked-0123, "1": x}}
  argv: {command: x, args: [--api-key, marked-0123]}
  eq: {command: x, args: [--token=marked-0123]}
  mixed: {command: x, bearer_token: marked}
  http: {url: "https://u:marked@h/x", args: [marked]}
  twice: {url: "https://h/x", bearer_token: a, headers: {authorization: marked, "b\n": c}}
  times: {url: "https://h/x", startup_timeout: 0s, tool_timeout: marked}
  cwd: {command: x, cwd: marked}
plugins: {x: true, y@nowhere: true}
features: {Marked-: true}
trust: always
`))
	var told *SettingsError
	if !errors.As(err, &told) {
		t.Fatalf("no *SettingsError: %v", err)
	}
	want := []string{
		"line 1: modell: no such key", "line 2: provider: bearer_token, token_command and openai_auth", "line 3: provider.name", "line 4: provider.base_url",
		"line 5: provider.bearer_token", "line 8: mcp_servers.a b", "line 9: mcp_servers.none", "line 10: mcp_servers.both",
		"line 11: mcp_servers.env.env.GITHUB_TOKEN", "line 11: mcp_servers.env.env.1", "line 12: mcp_servers.argv.command", "line 13: mcp_servers.eq.command",
		"line 14: mcp_servers.mixed.bearer_token", "line 15: mcp_servers.http.url", "line 15: mcp_servers.http.args",
		"line 16: mcp_servers.twice.headers.authorization", "line 16: mcp_servers.twice.headers.b", "line 17: mcp_servers.times.startup_timeout",
		"line 17: mcp_servers.times.tool_timeout", "line 18: mcp_servers.cwd.cwd", "line 19: plugins.x", "line 19: plugins.y@nowhere",
		"line 20: features.Marked-", "line 21: trust",
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("not told: %s", w)
		}
	}
	if len(told.Problems) != len(want) || strings.Contains(err.Error(), "marked") {
		t.Errorf("%d mistakes told; want %d: %v", len(told.Problems), len(want), err)
	}
}

func TestSettingsAndConfigCannotSayTheSame(t *testing.T) {
	for config, settings := range map[string]string{
		"model = 'x'\n":                               "model: y",
		"[mcp_servers.a]\ncommand = 'x'\n":            "mcp_servers: {a: {url: 'http://h/x'}}",
		"mcp_servers = { a = { command = 'x' } }\n":   "mcp_servers: {a: {command: y}}",
		"mcp_servers.a.enabled = false\n":             "mcp_servers: {a: {command: y}}",
		"[model_providers.fairlead]\nname = 'x'\n":    "provider: {base_url: 'http://h/v1'}",
		"model_provider = 'ollama'\n":                 "provider: {base_url: 'http://h/v1'}",
		"[features]\nplugins = true\n":                "features: {plugins: false}",
		"[plugins.\"a@b\"]\nenabled = true\n":         "marketplaces: {b: {source: /x}}\nplugins: {a@b: true}",
		"[marketplaces.b]\nsource_type = \"local\"\n": "marketplaces: {b: {source: /x}}",
	} {
		_, err := PackWith(folder(t, map[string]string{"auth.json": apiKeyJSON, "config.toml": config}), []byte(settings))
		if !errors.Is(err, errTwice) || !strings.Contains(err.Error(), "settings and config.toml set the same thing") {
			t.Errorf("%s with %s: %v", config, settings, err)
		}
	}
}

func TestAFolderBringsNoSettingsByItself(t *testing.T) {
	b := pack(t, map[string]string{"auth.json": apiKeyJSON, settingsFile: "model: x"})
	if b.File(settingsFile) != nil || !slices.Contains(b.Ignored(), settingsFile) {
		t.Errorf("settings.yaml of a folder: %q, ignored %v", b.File(settingsFile), b.Ignored())
	}
}

func TestBundleKeepsItsSettings(t *testing.T) {
	b, err := PackWith(folder(t, map[string]string{"auth.json": apiKeyJSON}), []byte(wholeSettings))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Unpack(b.Bytes())
	if err != nil || string(again.File(settingsFile)) != wholeSettings || again.Kind() != KindAPIKey {
		t.Errorf("%v, %v", again, err)
	}
	bad := &Bundle{files: []file{{path: authFile, data: []byte(apiKeyJSON)}, {path: settingsFile, data: []byte("model: [marked]")}}}
	if _, err := Unpack(bad.Bytes()); err == nil || strings.Contains(err.Error(), "marked") {
		t.Errorf("settings that are none were unpacked: %v", err)
	}
}

// TestAnySettingMakesValidTOML draws settings with control characters, quotes and
// Unicode, and checks that the TOML gives the same texts.
func TestAnySettingMakesValidTOML(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("\"'\\\x00\x01\x07\b\t\n\f\r\x1b\x7f\u0085\u00a0\u2028\ufeff\U0001f600#=[]{}.,")))).
		Filter(func(s string) bool { return writable(s) || strings.ContainsRune(s, 0) })
	texts := rapid.MapOfN(text, text, 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		server := mcpServer{Command: text.Filter(func(s string) bool { return s != "" }).Draw(t, "command"), Args: rapid.SliceOfN(text, 0, 4).Draw(t, "args"), CWD: text.Draw(t, "cwd"), Env: texts.Draw(t, "env")}
		remote := mcpServer{URL: text.Draw(t, "url"), Headers: texts.Draw(t, "headers"), BearerToken: text.Draw(t, "token"), DisabledTools: rapid.SliceOfN(text, 0, 3).Draw(t, "tools")}
		names := rapid.SliceOfNDistinct(text, 2, 2, rapid.ID[string]).Draw(t, "names")
		own := &Settings{Model: text.Draw(t, "model"), MCP: map[string]mcpServer{names[0]: server, names[1]: remote},
			Provider: &providerSettings{Name: "p", BaseURL: text.Draw(t, "base"), Query: texts.Draw(t, "query")}}
		owner := rapid.SampledFrom([]string{"", "x = 1", "[features]", "[mcp_servers.\"fairlead-theirs\"]\ncommand = 'x'", "a='''\n'''"}).Draw(t, "owner")
		merged := planted(t, []byte(owner), own)
		if again := planted(t, merged, own); string(again) != string(merged) {
			t.Fatalf("written again it differs:\n%s", again)
		}
		if back, err := StripConfig(merged); err != nil || string(back) != owner {
			t.Fatalf("stripped %q, %v", back, err)
		}
		var c struct {
			Model string `toml:"model"`
			MCP   map[string]struct {
				Command string            `toml:"command"`
				Args    []string          `toml:"args"`
				Env     map[string]string `toml:"env"`
				URL     string            `toml:"url"`
				Headers map[string]string `toml:"http_headers"`
				Tools   []string          `toml:"disabled_tools"`
			} `toml:"mcp_servers"`
			Providers map[string]struct {
				Query map[string]string `toml:"query_params"`
			} `toml:"model_providers"`
		}
		if err := toml.Unmarshal(merged, &c); err != nil {
			t.Fatalf("%v:\n%s", err, merged)
		}
		a, b := c.MCP[names[0]], c.MCP[names[1]]
		if c.Model != own.Model || a.Command != server.Command || !slices.Equal(a.Args, server.Args) || !maps.Equal(a.Env, server.Env) ||
			b.URL != remote.URL || !maps.Equal(b.Headers, remote.headers()) || !slices.Equal(b.Tools, remote.DisabledTools) ||
			!maps.Equal(c.Providers["p"].Query, own.Provider.Query) {
			t.Fatalf("other values came back:\n%s", merged)
		}
	})
}

// FuzzSettings checks that no file causes a panic and that no message repeats a secret.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(wholeSettings))
	f.Add([]byte("mcp_servers: {a: {command: marked-secret-value, env: {A_TOKEN: marked-secret-value}}}"))
	f.Add([]byte("provider: {base_url: [marked-secret-value]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSettings(data)
		if err != nil {
			var told *SettingsError
			if errors.As(err, &told) && len(told.Problems) == 0 {
				t.Error("an error with no mistake in it")
			}
			return
		}
		if _, err := effectiveConfig(nil, s); err != nil {
			t.Errorf("settings that were taken cannot be written: %v", err)
		}
	})
}

func TestAProviderWithoutAURLIsToldThatItIsMissing(t *testing.T) {
	_, err := ParseSettings([]byte("model: x\nprovider:\n  base_ur: https://h/v1\n"))
	for _, want := range []string{"line 3: provider.base_ur: no such key", "line 2: provider.base_url: is missing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
}
