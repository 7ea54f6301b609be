package sessions

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// A seed gives its tools to each of its sessions. A session's own tool takes the place of the
// seed's tool of the same name. A session keeps the tools of the generation that it holds.
func TestToolsOfASeedAreGivenToEachOfItsSessions(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "carried out by %s", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l, run := e2e.Own(t, "tools: {webhooks: [{url: '"+s.URL+"/fairlead/', secret_file: "+file("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")+"}]}\n")
	script, err := scriptedmodel.Parse([]byte(`
rules:
  - when: {contains: look and page}
    steps:
      - call: {name: lookup_ticket, arguments: {}}
      - call: {name: page, arguments: {}}
      - say: "{{ range .Results }}{{ .Output }}; {{ end }}"
  - when: {contains: deploy}
    steps:
      - call: {name: deploy, arguments: {}}
      - say: "{{ .LastToolOutput }}"
`))
	if err == nil {
		err = l.Model.SetScript(script)
	}
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(scriptedmodel.ConfigTOML(l.Model.BaseURL(), l.Token)), 0o600); err != nil {
		t.Fatal(err)
	}
	tools := func(name, at string, names ...string) string {
		var b strings.Builder
		b.WriteString("tools:\n")
		for _, tool := range names {
			fmt.Fprintf(&b, "  - {name: %s, description: a tool, webhook: \"%s/%s\"}\n", tool, s.URL+at, tool)
		}
		return file(name, b.String())
	}
	ctl := func(args ...string) lab.Result { return l.Ctl(e2e.Within(t), nil, args...) }

	if r := ctl("seed", "import", "desk", home, "--settings", tools("bad.yaml", "/fairlead/seed", "finish")); r.Code != 2 || !strings.Contains(r.Stderr, "tool finish: Fairlead has a tool of this name") {
		t.Errorf("a tool with a name of ours: %v", r)
	}
	if r := ctl("seed", "import", "desk", home, "--settings", file("bad.yaml", "tools: lookup\n")); r.Code != 2 || !strings.Contains(r.Stderr, "line 1: tools: takes a list of tools") {
		t.Errorf("tools that are no list: %v", r)
	}
	run("seed", "import", "stray", home, "--settings", tools("stray.yaml", "/other", "lookup_ticket"))
	if r := ctl("run", "--host", "web-1", "--seed", "stray", "look and page"); r.Code != 6 || !strings.Contains(r.Stderr, "tool lookup_ticket of seed stray: the workers' config does not allow") {
		t.Errorf("a webhook that the config does not allow: %v", r)
	}

	settings := tools("settings.yaml", "/fairlead/seed", "lookup_ticket", "page")
	run("seed", "import", "desk", home, "--settings", settings)
	if out := run("seed", "show", "desk"); !strings.Contains(out, "webhook "+s.URL+"/fairlead/seed/lookup_ticket") {
		t.Errorf("the seed is shown as\n%s", out)
	}
	var v protocol.SeedView
	if err := json.Unmarshal([]byte(run("seed", "show", "desk", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	if want := []protocol.SeedTool{{Name: "lookup_ticket", Handler: "webhook " + s.URL + "/fairlead/seed/lookup_ticket"}, {Name: "page", Handler: "webhook " + s.URL + "/fairlead/seed/page"}}; !slices.Equal(v.Tools, want) {
		t.Errorf("its tools are %+v, want %+v", v.Tools, want)
	}

	says := func(id, text, want string) {
		t.Helper()
		var turn protocol.TurnView
		if err := json.Unmarshal([]byte(run("session", "send", id, text, "-o", "json")), &turn); err != nil {
			t.Fatal(err)
		}
		if turn.FinalText != want {
			t.Errorf("session %s: the model had %q, want %q", id, turn.FinalText, want)
		}
	}
	run("session", "start", "--host", "web-1", "--seed", "desk", "--id", "plain")
	says("plain", "look and page", "carried out by /fairlead/seed/lookup_ticket; carried out by /fairlead/seed/page; ")
	run("session", "start", "--host", "web-1", "--seed", "desk", "--tools", "report_progress,"+tools("own.yaml", "/fairlead/own", "deploy", "page"), "--id", "own")
	says("own", "look and page", "carried out by /fairlead/seed/lookup_ticket; carried out by /fairlead/own/page; ")
	says("own", "deploy", "carried out by /fairlead/own/deploy")

	// Another worker, and a new generation without tools.
	var st lab.Status
	if err := l.JSON(e2e.Within(t), &st, "status"); err != nil || len(st.Workers) == 0 {
		t.Fatalf("workers %+v, %v", st.Workers, err)
	}
	for _, w := range st.Workers {
		if err := syscall.Kill(w.PID, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}
	e2e.Until(t, "the seed is imported again", func() (bool, error) {
		return ctl("seed", "import", "desk", home).Code == 0, nil
	})
	if out := run("seed", "show", "desk"); strings.Contains(out, "lookup_ticket") {
		t.Errorf("without tools, the seed is shown as\n%s", out)
	}
	says("plain", "look and page", "carried out by /fairlead/seed/lookup_ticket; carried out by /fairlead/seed/page; ")
	for _, id := range []string{"plain", "own"} {
		run("session", "close", id)
	}
}
