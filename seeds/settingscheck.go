package seeds

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/followup"
	"fairlead.dev/fairlead/internal/strictyaml"
)

var (
	tableName    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,60}$`)
	featureName  = regexp.MustCompile(`^[a-z0-9_]{1,80}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,100}$`)
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")
	pluginName   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,60}@[A-Za-z0-9_-]{1,60}$`)
)

// reserved are codex's own providers.
var reserved = []string{"openai", "ollama", "lmstudio", "oss", "amazon-bedrock"}

// check adds every mistake to f. No message repeats a value.
func (s *Settings) check(f *strictyaml.File) {
	line := func(key, text string) {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			f.Add(key, "has control characters")
		}
	}
	line("model", s.Model)
	line("effort", s.Effort)
	if !slices.Contains([]string{"", "auto", "never"}, s.Trust) {
		f.Add("trust", "is neither auto (trusted unless it brings a .codex) nor never")
	}
	if _, list := s.Tools.([]any); s.Tools != nil && !list {
		f.Add("tools", "takes a list of tools, each with name, description, schema, and webhook or activity")
	}
	if _, err := followup.OfSeed(s.FollowUps); err != nil {
		f.Add("follow_ups", "%v", err)
	}
	s.Provider.check(f)
	first := "openai"
	if s.Provider != nil {
		first = s.Provider.id()
	}
	s.FallBack.check(f, first)
	for _, name := range slices.Sorted(maps.Keys(s.MCP)) {
		key := "mcp_servers." + name
		if !tableName.MatchString(name) {
			f.Add(key, "is not a server's name: letters, digits, _ and -, at most 60")
		}
		s.MCP[name].check(f, key)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Marketplaces)) {
		key, m := "marketplaces."+name, s.Marketplaces[name]
		if !tableName.MatchString(name) {
			f.Add(key, "is not a marketplace's name: letters, digits, _ and -, at most 60")
		}
		if !path.IsAbs(m.Source) || !writable(m.Source) {
			checkURL(f, key+".source", m.Source, "an absolute path on the host, or https://…", "https", "ssh")
		}
		line(key+".ref", m.Ref)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Plugins)) {
		_, market, _ := strings.Cut(name, "@")
		switch {
		case !pluginName.MatchString(name):
			f.Add("plugins."+name, "is not plugin@marketplace")
		case s.Plugins[name] && s.Marketplaces[market].Source == "":
			f.Add("plugins."+name, "names no marketplace that is set here (add marketplaces.%s)", market)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Features)) {
		if !featureName.MatchString(name) {
			f.Add("features."+name, "is not a feature's name (`codex features list` shows them)")
		}
	}
}

func (p *providerSettings) check(f *strictyaml.File) {
	if p == nil {
		return
	}
	if p.Name != "" && !tableName.MatchString(p.Name) {
		f.Add("provider.name", "is not a provider's name: letters, digits, _ and -, at most 60")
	}
	if slices.Contains(reserved, p.Name) {
		f.Add("provider.name", "is one of codex's own, which cannot be defined anew (%s)", strings.Join(reserved, ", "))
	}
	if p.BaseURL == "" {
		f.Add("provider.base_url", "is missing: https://… or http://…")
	} else {
		checkURL(f, "provider.base_url", p.BaseURL, "https://… or http://…", "https", "http")
	}
	checkToken(f, "provider.bearer_token", p.BearerToken)
	checkHeaders(f, "provider.headers", p.Headers)
	checkCommand(f, "provider.token_command", p.TokenCommand)
	for _, name := range slices.Sorted(maps.Keys(p.Query)) {
		if strings.ContainsRune(p.Query[name], 0) || name == "" {
			f.Add("provider.query."+name, "cannot be a part of a URL")
		}
	}
	ways := 0
	for _, set := range []bool{p.BearerToken != "", len(p.TokenCommand) > 0, p.OpenAIAuth} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		f.Add("provider", "bearer_token, token_command and openai_auth are three ways to one key: use one")
	}
}

func (m mcpServer) check(f *strictyaml.File, key string) {
	switch {
	case m.Command == "" && m.URL == "":
		f.Add(key, "has neither command (stdio) nor url (streamable HTTP)")
	case m.Command != "" && m.URL != "":
		f.Add(key, "has both command (stdio) and url (streamable HTTP): use one")
	case m.Command != "":
		m.checkStdio(f, key)
	default:
		m.checkHTTP(f, key)
	}
	for name, d := range map[string]time.Duration{"startup_timeout": m.StartupTimeout, "tool_timeout": m.ToolTimeout} {
		if _, said := f.Lines[key+"."+name]; said && (d <= 0 || d > 24*time.Hour) {
			f.Add(key+"."+name, "is not between 1ms and 24h")
		}
	}
	for name, tools := range map[string][]string{"enabled_tools": m.EnabledTools, "disabled_tools": m.DisabledTools} {
		for i, tool := range tools {
			if tool == "" || strings.ContainsFunc(tool, func(r rune) bool { return r < ' ' }) {
				f.Add(fmt.Sprintf("%s.%s[%d]", key, name, i), "is not a tool's name")
			}
		}
	}
}

func (m mcpServer) checkStdio(f *strictyaml.File, key string) {
	checkCommand(f, key+".command", append([]string{m.Command}, m.Args...))
	if m.CWD != "" && (!path.IsAbs(m.CWD) || !writable(m.CWD)) {
		f.Add(key+".cwd", "is not an absolute path on the host")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		at := key + ".env." + name
		switch {
		case !variableName.MatchString(name):
			f.Add(at, "is not a variable's name")
		case !writable(m.Env[name]):
			f.Add(at, "cannot be a variable's value")
		case secretVariable(name, m.Env[name]):
			f.Add(at, "looks like a secret, which an environment shows to every process of the user: "+
				"let the command read it from a file of its own, or use a server with url and bearer_token or headers_helper")
		}
	}
	for name, set := range map[string]bool{"headers": m.Headers != nil, "bearer_token": m.BearerToken != "", "headers_helper": m.HeadersHelper != ""} {
		if set {
			f.Add(key+"."+name, "is for a server with url, and this one has command")
		}
	}
}

func (m mcpServer) checkHTTP(f *strictyaml.File, key string) {
	checkURL(f, key+".url", m.URL, "https://… or http://…", "https", "http")
	checkToken(f, key+".bearer_token", m.BearerToken)
	checkHeaders(f, key+".headers", m.Headers)
	if m.HeadersHelper != "" {
		checkCommand(f, key+".headers_helper", strings.Fields(m.HeadersHelper))
	}
	for name := range m.Headers {
		if strings.EqualFold(name, "Authorization") && m.BearerToken != "" {
			f.Add(key+".headers."+name, "and bearer_token are two words for one header: use one")
		}
	}
	for name, set := range map[string]bool{"args": m.Args != nil, "cwd": m.CWD != "", "env": m.Env != nil} {
		if set {
			f.Add(key+"."+name, "is for a server with command, and this one has url")
		}
	}
}

func checkURL(f *strictyaml.File, key, text, want string, schemes ...string) {
	u, err := url.Parse(text)
	switch {
	case text == "" || err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme):
		f.Add(key, "is not %s", want)
	case u.User != nil && u.Scheme != "ssh":
		f.Add(key, "holds a user or a password: use headers, or bearer_token")
	}
}

func checkToken(f *strictyaml.File, key, text string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		f.Add(key, "has characters that no token has (was it pasted with a line break?)")
	}
}

func checkHeaders(f *strictyaml.File, key string, headers map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if !headerName.MatchString(name) {
			f.Add(key+"."+name, "is not a header's name")
		}
		if strings.ContainsFunc(headers[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			f.Add(key+"."+name, "has control characters, which no header takes")
		}
	}
}

// checkCommand also refuses secrets, because every user can see arguments.
func checkCommand(f *strictyaml.File, key string, argv []string) {
	before := ""
	for i, arg := range argv {
		if strings.ContainsRune(arg, 0) || arg == "" && i == 0 {
			f.Add(key, "cannot be a command")
		}
		name, value, cut := strings.Cut(arg, "=")
		if !cut {
			name, value = before, arg
		}
		if strings.HasPrefix(name, "-") && secretVariable(strings.TrimLeft(name, "-"), value) && !strings.HasPrefix(value, "-") {
			f.Add(key, "has an argument that looks like a secret, which `ps` shows to everybody: let the command read it from a file")
		}
		before = arg
	}
}

// secretVariable is false for the name of a file with a secret.
func secretVariable(name, value string) bool {
	k := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	for _, end := range []string{"_file", "_path", "_dir", "_url"} {
		if strings.HasSuffix(k, end) {
			return false
		}
	}
	return len(value) >= MinSecret && secretName(k)
}

// secretHeader is true in doubt, because a header of any name may carry a secret.
func secretHeader(name, value string) bool {
	k := strings.ToLower(name)
	if secretName(k) || strings.Contains(k, "auth") && !strings.Contains(k, "author") {
		return true
	}
	// may be a key
	return len(value) >= 20 && !strings.ContainsAny(value, " /") && strings.ContainsAny(value, "0123456789")
}

func secretsOfURL(text string, f func(string)) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return
	}
	if u.User != nil {
		if password, set := u.User.Password(); set {
			f(password)
		}
	}
	for key, values := range u.Query() {
		if secretName(key) {
			for _, v := range values {
				f(v)
			}
		}
	}
}
