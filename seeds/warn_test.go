package seeds

import (
	"strings"
	"testing"
)

func TestWhatWouldNotWorkOnAHostIsSaid(t *testing.T) {
	b := pack(t, map[string]string{"auth.json": apiKeyJSON, "config.toml": `
[mcp_servers.gh]
url = "https://h/mcp"
bearer_token_env_var = "marked-name"
[mcp_servers.local]
command = "x"
env = { GITHUB_TOKEN = "marked-0123", LANG = "C", TOKEN_FILE = "/etc/marked" }
[mcp_servers.off]
url = "https://h/mcp"
bearer_token_env_var = "marked-name"
enabled = false
[mcp_servers.fine]
url = "https://h/mcp"
http_headers = { Authorization = "Bearer marked" }
[model_providers.p]
base_url = "https://h/v1"
env_key = "marked-name"
`})
	got := strings.Join(b.Warnings(), "\n")
	for _, want := range []string{"[mcp_servers.gh] takes bearer_token_env_var", "[mcp_servers.local] puts GITHUB_TOKEN into", "[model_providers.p] takes env_key"} {
		if !strings.Contains(got, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if len(b.Warnings()) != 3 || strings.Contains(got, "marked") {
		t.Errorf("said:\n%s", got)
	}
	if got := pack(t, map[string]string{"auth.json": apiKeyJSON}).Warnings(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
