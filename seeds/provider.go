package seeds

import (
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// builtin are model providers that need neither a table nor a key.
var builtin = map[string]bool{"ollama": true, "lmstudio": true}

// providerOf reports whether a config.toml selects a model provider that needs no
// auth.json. With invalid TOML, codex would silently use its defaults.
func providerOf(config []byte) (bool, error) {
	if config == nil {
		return false, nil
	}
	c, err := parseConfig(config)
	if err != nil {
		return false, err
	}
	providers, _ := c["model_providers"].(map[string]any)
	name, _ := c["model_provider"].(string)
	switch {
	case name == "" || name == "openai":
		return false, nil
	case builtin[name] && providers[name] == nil:
		return true, nil
	}
	p, ok := providers[name].(map[string]any)
	if !ok {
		return false, fmt.Errorf("config.toml selects model provider %q and defines no [model_providers.%s]", name, name)
	}
	if needs, _ := p["requires_openai_auth"].(bool); needs {
		return false, nil
	}
	if url, _ := p["base_url"].(string); url == "" {
		return false, fmt.Errorf("config.toml: [model_providers.%s] has no base_url", name)
	}
	key, _ := p["experimental_bearer_token"].(string)
	if env, _ := p["env_key"].(string); env != "" && key == "" {
		return false, fmt.Errorf("config.toml: [model_providers.%s] takes its key from the environment (%s), where it is never put on a host: "+
			"set experimental_bearer_token in its place; the file is planted for the user alone", name, env)
	}
	return true, nil
}

// parseConfig quotes no line in its errors, because a line may contain a token.
func parseConfig(data []byte) (map[string]any, error) {
	var c map[string]any
	if err := toml.Unmarshal(data, &c); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, col := at.Position()
			return nil, fmt.Errorf("config.toml is not valid TOML at line %d, column %d", row, col)
		}
		return nil, errors.New("config.toml is not valid TOML")
	}
	return c, nil
}
