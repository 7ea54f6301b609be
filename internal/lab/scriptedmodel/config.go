package scriptedmodel

import "fmt"

// ConfigTOML returns a minimal config.toml that makes codex talk to a server at
// baseURL (Server.BaseURL) with a bearer token, and to nobody else: with it,
// codex 0.169 opens no other connection. There are few retries, so that
// failures show soon.
func ConfigTOML(baseURL, token string) string {
	return configTOML(baseURL, "experimental_bearer_token = "+string(mustJSON(token)))
}

// LoginConfigTOML is the same for a codex that is logged in: it sends the
// access token of its auth.json, and refreshes after a 401 (see package
// scriptedauth).
func LoginConfigTOML(baseURL string) string {
	return configTOML(baseURL, "requires_openai_auth = true")
}

func configTOML(baseURL, auth string) string {
	// JSON strings are also TOML strings. Without markers codex does not look for a
	// repository in each folder above the work folder. Under a permission profile each look
	// is a sandboxed process: about a quarter of the CPU time of a test with a session.
	return fmt.Sprintf(`model_provider = "scripted"
check_for_update_on_startup = false
project_root_markers = []

[model_providers.scripted]
name = "scripted model"
base_url = %s
wire_api = "responses"
%s
request_max_retries = 1
stream_max_retries = 2

[analytics]
enabled = false

[features]
plugins = false
apps = false
remote_plugin = false
skill_search = false
`, mustJSON(baseURL), auth)
}
