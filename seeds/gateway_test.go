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
