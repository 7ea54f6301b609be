package seeds

import (
	"fmt"
	"maps"
	"slices"
)

// Warnings lists settings in config.toml that will not work in a session or that expose a
// secret, as sorted sentences without values.
func (b *Bundle) Warnings() []string {
	c, err := parseConfig(b.File(configFile))
	if err != nil {
		return nil // newBundle refuses such a file
	}
	var found []string
	warn := func(table, name, format string, args ...any) {
		found = append(found, fmt.Sprintf("config.toml: [%s] ", dottedKey([]string{table, name}))+fmt.Sprintf(format, args...))
	}
	servers, _ := c["mcp_servers"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s, _ := servers[name].(map[string]any)
		if on, set := s["enabled"].(bool); set && !on {
			continue
		}
		for _, key := range []string{"bearer_token_env_var", "env_http_headers", "env_vars"} {
			if s[key] != nil {
				warn("mcp_servers", name, "takes %s from an environment, in which it is not on a host: use bearer_token or headers_helper in --settings", key)
			}
		}
		env, _ := s["env"].(map[string]any)
		for _, variable := range slices.Sorted(maps.Keys(env)) {
			if text, _ := env[variable].(string); secretVariable(variable, text) {
				warn("mcp_servers", name, "puts %s into an environment, which shows it to every process of the user", variable)
			}
		}
	}
	providers, _ := c["model_providers"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		p, _ := providers[name].(map[string]any)
		for _, key := range []string{"env_key", "env_http_headers"} {
			if p[key] != nil {
				warn("model_providers", name, "takes %s from an environment, in which it is not on a host: use experimental_bearer_token", key)
			}
		}
	}
	return found
}
