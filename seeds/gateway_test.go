package seeds

import (
	"strings"
	"testing"
)

const gatewayKey = "sk-of-the-provider-0123456789"

// bundleOf makes a bundle of files.
func bundleOf(t *testing.T, texts map[string]string) *Bundle {
	t.Helper()
	var files []file
	for name, text := range texts {
		files = append(files, file{path: name, data: []byte(text)})
	}
	b, err := newBundle(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheModelGatewayAsksWhatCodexWouldAsk(t *testing.T) {
	api := `{"auth_mode":"apikey","OPENAI_API_KEY":"` + gatewayKey + `"}`
	table := "model_provider = \"team\"\nmodel = \"m\"\n[model_providers.team]\nbase_url = \"http://llm.example/v1\"\n"
	for name, c := range map[string]struct {
		files           map[string]string
		base, key, fail string
		header, query   string
	}{
		"OpenAI":           {files: map[string]string{"auth.json": api}, base: "https://api.openai.com/v1", key: gatewayKey},
		"OpenAI elsewhere": {files: map[string]string{"auth.json": api, "config.toml": `openai_base_url = "https://eu.example/v1"`}, base: "https://eu.example/v1", key: gatewayKey},
		"a provider":       {files: map[string]string{"config.toml": table + "experimental_bearer_token = \"" + gatewayKey + "\"\n"}, base: "http://llm.example/v1", key: gatewayKey},
		"the key of auth.json": {files: map[string]string{"auth.json": api, "config.toml": table + "requires_openai_auth = true\n"},
			base: "http://llm.example/v1", key: gatewayKey},
		"headers": {files: map[string]string{"config.toml": table + "http_headers = { X-Key = \"" + gatewayKey + "\" }\nquery_params = { v = \"1\" }\n"},
			base: "http://llm.example/v1", header: gatewayKey, query: "1"},
		"settings": {files: map[string]string{"auth.json": api, "settings.yaml": "provider: {name: team, base_url: \"http://llm.example/v1\", bearer_token: " + gatewayKey + "}\n"},
			base: "http://llm.example/v1", key: gatewayKey},
		"a command": {files: map[string]string{"config.toml": table + "auth = { command = \"get-key\" }\n"}, fail: "from a command on the host"},
	} {
		b := bundleOf(t, c.files)
		e, err := EndpointOf(b)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || e.BaseURL != c.base || e.Key.Reveal() != c.key || e.Header.Get("X-Key") != c.header || e.Query.Get("v") != c.query {
			t.Errorf("%s: asks %s with %q, %v, %v: %v", name, e.BaseURL, e.Key.Reveal(), e.Header, e.Query, err)
		}
		bare, err := b.ForGateway()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, f := range bare.files {
			if strings.Contains(string(f.data), gatewayKey) || strings.Contains(string(f.data), "example") {
				t.Errorf("%s: the host gets %s:\n%s", name, f.path, f.data)
			}
		}
		if _, err := Unpack(append([]byte{}, bare.Bytes()...)); err == nil {
			t.Errorf("%s: what the host gets can be taken for a seed", name)
		}
	}
}

func TestAChatGPTLoginIsNotForTheModelGateway(t *testing.T) {
	for _, kind := range []Kind{KindChatGPT, KindAccessToken} {
		if err := CheckGateway(kind); err == nil || !strings.Contains(err.Error(), string(kind)) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// What has nothing to do with a provider stays as it was.
func TestTheModelGatewayLeavesOtherSettings(t *testing.T) {
	config := "# mine\nmodel = \"m\"\n\n[mcp_servers.docs]\nurl = \"https://docs.example\"\n"
	b := bundleOf(t, map[string]string{"auth.json": `{"auth_mode":"apikey","OPENAI_API_KEY":"` + gatewayKey + `"}`, "config.toml": config})
	bare, err := b.ForGateway()
	if err != nil || string(bare.File("config.toml")) != config {
		t.Errorf("%v:\n%s", err, bare.File("config.toml"))
	}
}

func TestTheModelGatewayAsksTheFallBackOfASeedAndTheHostNeverKnowsOfIt(t *testing.T) {
	const second = "sk-of-the-second-0123456789"
	settings := "provider: {name: team, base_url: \"http://llm.example/v1\", bearer_token: " + gatewayKey + "}\n" +
		"fallback:\n  on: [connect, quota]\n  attempts: 2\n  stay: 1m\n  upstreams:\n" +
		"    - {name: backup, base_url: \"http://backup.example/v1\", bearer_token: " + second + ", headers: {X-Key: header-0123456789}, query: {v: \"2\"}, models: {\"m*\": m2}}\n"
	b := bundleOf(t, map[string]string{"settings.yaml": settings})
	f, err := FallBackOf(b)
	if err != nil || len(f.Upstreams) != 1 || f.Attempts != 2 || f.Stay.String() != "1m0s" || strings.Join(f.On, " ") != "connect quota" {
		t.Fatalf("%+v: %v", f, err)
	}
	if u := f.Upstreams[0]; u.Name != "backup" || u.BaseURL != "http://backup.example/v1" || u.Key.Reveal() != second || u.Header.Get("X-Key") != "header-0123456789" || u.Query.Get("v") != "2" || u.Models["m*"] != "m2" {
		t.Errorf("it asks %+v", u)
	}
	if config, err := b.configWithSettings(); err != nil || strings.Contains(string(config), "backup") || strings.Contains(string(config), second) {
		t.Errorf("codex's configuration has the fall-back (%v):\n%s", err, config)
	}
	bare, err := b.ForGateway()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range bare.files {
		if text := string(file.data); strings.Contains(text, second) || strings.Contains(text, "backup") || strings.Contains(text, gatewayKey) {
			t.Errorf("the host gets %s:\n%s", file.path, text)
		}
	}
	var found []string
	s, err := ParseSettings([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	s.secrets(func(text string) { found = append(found, text) })
	for _, want := range []string{second, "header-0123456789"} {
		if !strings.Contains(strings.Join(found, " "), want) {
			t.Errorf("%q is not masked", want)
		}
	}
	if f, err := FallBackOf(bundleOf(t, map[string]string{"auth.json": `{"auth_mode":"apikey","OPENAI_API_KEY":"` + gatewayKey + `"}`})); err != nil || len(f.Upstreams) > 0 {
		t.Errorf("without one: %+v, %v", f, err)
	}
}

func TestABadFallBackIsRefusedWithoutItsValues(t *testing.T) {
	const key = "sk-secret-0123456789"
	for name, text := range map[string]string{
		"no upstream":   "{}",
		"a failure":     "{on: [sometimes], upstreams: [{name: b, base_url: \"https://b/v1\"}]}",
		"attempts":      "{attempts: 100, upstreams: [{name: b, base_url: \"https://b/v1\"}]}",
		"stay":          "{stay: 1000h, upstreams: [{name: b, base_url: \"https://b/v1\"}]}",
		"name":          "{upstreams: [{name: \"b b\", base_url: \"https://b/v1\"}]}",
		"the same name": "{upstreams: [{name: openai, base_url: \"https://b/v1\"}]}",
		"two of a name": "{upstreams: [{name: b, base_url: \"https://b/v1\"}, {name: b, base_url: \"https://c/v1\"}]}",
		"address":       "{upstreams: [{name: b, base_url: \"ftp://b/v1\"}]}",
		"query":         "{upstreams: [{name: b, base_url: \"https://b/v1?key=" + key + "\"}]}",
		"user":          "{upstreams: [{name: b, base_url: \"https://u:" + key + "@b/v1\"}]}",
		"token":         "{upstreams: [{name: b, base_url: \"https://b/v1\", bearer_token: \"" + key + " x\"}]}",
		"header":        "{upstreams: [{name: b, base_url: \"https://b/v1\", headers: {\"a b\": " + key + "}}]}",
		"model":         "{upstreams: [{name: b, base_url: \"https://b/v1\", models: {m: \"\"}}]}",
		"unknown field": "{upstreams: [{name: b, base_url: \"https://b/v1\", token: " + key + "}]}",
	} {
		_, err := ParseSettings([]byte("fallback: " + text + "\n"))
		if err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
