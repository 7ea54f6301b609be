package seeds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mcpScript is an MCP server on stdio, in sh. It writes its folder, arguments and
// environment to the file that its first argument names.
const mcpScript = `
{ pwd; printf '%s\n' "$@"; echo "GREETING=$GREETING"; env; } >"$1"
while IFS= read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion":"\([^"]*\)".*/\1/p')
	case $line in
	*'"method":"initialize"'*) r='{"protocolVersion":"'$version'","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
	*'"method":"tools/list"'*) r='{"tools":[{"name":"hello","description":"d","inputSchema":{"type":"object"}},{"name":"bye","description":"d","inputSchema":{"type":"object"}}]}' ;;
	*) continue ;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done`

// mcpOverHTTP serves MCP over streamable HTTP and records the headers of requests.
func mcpOverHTTP(t *testing.T) (url string, headers func(path string) []http.Header) {
	t.Helper()
	var mu sync.Mutex
	seen := map[string][]http.Header{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path] = append(seen[r.URL.Path], r.Header.Clone())
		mu.Unlock()
		body, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := `{"tools":[{"name":"find","description":"d","inputSchema":{"type":"object"}}]}`
		switch {
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "initialize":
			result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}`, m.Params.Version)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(s.Close)
	return s.URL, func(path string) []http.Header {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen[path])
	}
}

// awaitMCP reads codex's messages until codex has reported the start of each of the
// named servers.
func (a *appServer) awaitMCP(names ...string) map[string]string {
	a.t.Helper()
	status := map[string]string{}
	for _, line := range a.seen {
		mcpStatus([]byte(line), status)
	}
	for slices.ContainsFunc(names, func(n string) bool { return status[n] == "" || status[n] == "starting" }) {
		a.next()
		mcpStatus([]byte(a.seen[len(a.seen)-1]), status)
	}
	return status
}

func mcpStatus(line []byte, into map[string]string) {
	var m struct {
		Method string
		Params struct{ Name, Status string }
	}
	if json.Unmarshal(line, &m) == nil && m.Method == "mcpServer/startupStatus/updated" {
		into[m.Params.Name] = m.Params.Status
	}
}

// TestSettingsReachTheRealCodex checks that codex follows a seed's settings, and that
// their secrets are only where they must be: in no environment and in no argument.
func TestSettingsReachTheRealCodex(t *testing.T) {
	asRootAndUser(t, func(t *testing.T, h codexHost) {
		url, headers := mcpOverHTTP(t)
		h.sh(t, `printf '%s' "$2" >"$1/mcp.sh"
printf '#!/bin/sh\nprintf %%s '\''{"Authorization":"Bearer '\''; tr -d "\\n" <"${0%%/*}/token"; printf %%s '\''","X-By":"'\''"$1"'\''"}'\''\n' >"$1/helper"
chmod 700 "$1/helper"; echo marked-helped-0123 >"$1/token"; ln -sfn "$1" "$3"`, h.dir, mcpScript, h.link())
		settings := fmt.Sprintf(`
model: gpt-5.5
provider: {name: ours, base_url: %q, bearer_token: marked-provider-0123, headers: {X-Team: "plat form"}}
mcp_servers:
  docs:
    command: /bin/sh
    args: [%q, %q, "a 'b' \"c\" ü\t$HOME"]
    cwd: %q
    env: {GREETING: "grüß \"dich\""}
    startup_timeout: 20s
    tool_timeout: 1500ms
    enabled_tools: [hello]
  search: {url: %q, bearer_token: marked-mcp-0123, headers: {X-Team: a}, disabled_tools: [x]}
  helped: {url: %q, headers_helper: %q}
  off: {command: /bin/false, enabled: false}
features: {multi_agent: false}
`, h.model.BaseURL(), h.dir+"/mcp.sh", h.dir+"/seen", h.dir+"/work", url+"/search", url+"/helped", h.link()+"/helper me")
		b, err := PackWith(folder(t, map[string]string{"skills/mine/SKILL.md": "x"}), []byte(settings))
		if err != nil {
			t.Fatal(err)
		}
		spec := h.spec(b)
		planted, err := Plant(t.Context(), h, spec)
		if err != nil {
			t.Fatal(err)
		}
		if files := h.sh(t, `cd "$1" && find . -type f ! -name config.toml -exec grep -l marked- {} +; ls -l config.toml | cut -c1-10; ls settings.yaml 2>&1 | grep -c "No such"`, spec.CodexHome); files != "-rw-------\n1\n" {
			t.Errorf("planted: %s", files)
		}
		a := h.start(t, spec)
		thread := a.thread(planted.Permissions, spec.WorkDir)
		status := a.awaitMCP("docs", "search", "helped")
		for _, name := range []string{"docs", "search", "helped"} {
			if status[name] != "ready" {
				t.Fatalf("MCP server %s is %s: %s", name, status[name], a.seen[len(a.seen)-1])
			}
		}
		if status["off"] != "" {
			t.Errorf("the server that is off is %s", status["off"])
		}
		text := a.turn(thread, `run cat "$CODEX_HOME/config.toml"; echo went on`)
		if !strings.Contains(text, "went on") || !strings.Contains(text, "Permission denied") {
			t.Errorf("a turn's command printed %q", text)
		}
		assertNowhereInProcesses(t, "marked-provider-0123", "marked-mcp-0123", "marked-helped-0123")

		seen := h.sh(t, `cat "$1/seen"`, h.dir)
		if want := h.dir + "/work\n" + h.dir + "/seen\na 'b' \"c\" ü\t$HOME\nGREETING=grüß \"dich\"\n"; !strings.HasPrefix(seen, want) {
			t.Errorf("the stdio server saw %q; want %q", seen, want)
		}
		for path, want := range map[string]string{"/search": "Bearer marked-mcp-0123", "/helped": "Bearer marked-helped-0123"} {
			for _, got := range headers(path) {
				if got.Get("Authorization") != want {
					t.Errorf("%s got %q", path, got.Get("Authorization"))
				}
			}
			if len(headers(path)) == 0 {
				t.Errorf("%s was not asked", path)
			}
		}
		if got := headers("/helped"); got[0].Get("X-By") != "me" {
			t.Errorf("the helper's other header: %q", got[0].Get("X-By"))
		}
		sum := sha256.Sum256([]byte("marked-provider-0123"))
		requests := h.model.Requests()
		if last := requests[len(requests)-1]; last.TokenSHA256 != hex.EncodeToString(sum[:]) || last.Header.Get("X-Team") != "plat form" || last.Model != "gpt-5.5" {
			t.Errorf("the model was asked with %s, %v, %s", last.TokenSHA256, last.Header, last.Model)
		}
		for _, line := range strings.Split(h.sh(t, `CODEX_HOME=$2 "$1" features list`, h.codex, spec.CodexHome), "\n") {
			f := strings.Fields(line)
			if len(f) > 1 && slices.Contains([]string{"plugins", "apps", "remote_plugin", "skill_search", "goals", "multi_agent"}, f[0]) && f[len(f)-1] != "false" {
				t.Errorf("switched off, and yet: %s", line)
			}
		}
		a.mustBeConfigured()
		a.mustNotShow()
	})
}

// link returns a path to the session's folder that has no blanks, for settings that
// codex splits into words.
func (h codexHost) link() string {
	return filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(h.dir))), "link")
}

// assertNowhereInProcesses searches the arguments and environments of all processes of
// this machine, which is also the host. Processes of other packages' tests are among them,
// so secrets must be words that only this package uses.
func assertNowhereInProcesses(t *testing.T, secrets ...string) {
	t.Helper()
	looked := 0
	for _, pattern := range []string{"/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				continue // the process has ended
			}
			looked++
			for _, secret := range secrets {
				if strings.Contains(string(data), secret) {
					t.Errorf("%s holds a secret: %q", name, strings.Split(string(data), "\x00"))
				}
			}
		}
	}
	if looked < 10 {
		t.Errorf("only %d were looked at", looked)
	}
}

// TestPluginsOfSettingsAreTakenByTheRealCodex checks that codex accepts a marketplace
// on the host, and its plugin.
func TestPluginsOfSettingsAreTakenByTheRealCodex(t *testing.T) {
	asRootAndUser(t, func(t *testing.T, h codexHost) {
		b, err := PackWith("", fmt.Appendf(nil, "provider: {base_url: %q, bearer_token: marked-provider-0123}\nmodel: gpt-5.5\n"+
			"marketplaces: {team: {source: %q}}\nplugins: {lint@team: true}\n", h.model.BaseURL(), h.dir+"/market"))
		if err != nil {
			t.Fatal(err)
		}
		spec := h.spec(b)
		planted, err := Plant(t.Context(), h, spec)
		if err != nil {
			t.Fatal(err)
		}
		a := h.start(t, spec)
		if text := a.turn(a.thread(planted.Permissions, spec.WorkDir), "run echo went on"); !strings.Contains(text, "went on") {
			t.Errorf("a turn's command printed %q", text)
		}
		a.mustBeConfigured()
		features := h.sh(t, `CODEX_HOME=$2 "$1" features list`, h.codex, spec.CodexHome)
		for name, want := range map[string]string{"plugins": "true", "apps": "false", "remote_plugin": "false"} {
			i := slices.IndexFunc(strings.Split(features, "\n"), func(line string) bool {
				f := strings.Fields(line)
				return len(f) > 1 && f[0] == name && f[len(f)-1] == want
			})
			if i < 0 {
				t.Errorf("%s is not %s", name, want)
			}
		}
	})
}
