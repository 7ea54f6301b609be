package sessions

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// reachable starts a server that answers HELLO at an address of this machine.
func reachable(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "HELLO") })}}
	s.Start()
	t.Cleanup(s.Close)
	return l.Addr().String()
}

// A fence is a set of folders and servers, to some of which a session is given
// access.
type fence struct {
	t               *testing.T
	dir             string
	allowed, denied string
}

func newFence(t *testing.T) *fence {
	t.Helper()
	dir, err := os.MkdirTemp(e2e.Lab.Dir, "fenced-")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"read", "write", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "read", "f"), []byte("a secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return &fence{t, dir, reachable(t, "127.0.0.1"), reachable(t, "127.0.0.2")}
}

func (f *fence) flags() []string {
	return []string{"--read", filepath.Join(f.dir, "read"), "--write", filepath.Join(f.dir, "write"), "--network", "127.0.0.1"}
}

func (f *fence) prompt() string {
	return fmt.Sprintf("try your bounds in %s, to %s and %s", f.dir, f.allowed, f.denied)
}

// tries lets a command of the session try everything and returns its output,
// because the model is told less if codex's proxy refused something.
func (f *fence) tries(id string) string {
	f.t.Helper()
	return f.printed(id, f.prompt())
}

// printed returns the output of the first command of a turn.
func (f *fence) printed(id, prompt string) string {
	f.t.Helper()
	v := e2e.Turn(f.t, id, prompt)
	if v.Status != "completed" {
		f.t.Errorf("%s: turn %+v, error %+v", id, v, v.Error)
	}
	for _, e := range e2e.Transcript(f.t, id) {
		if e.Turn == v.N && e.Type == protocol.EntryCommand {
			return e.Text
		}
	}
	f.t.Fatalf("%s: no command ran in turn %+v", id, v)
	return ""
}

// holds checks what a command of the session could and could not do.
func (f *fence) holds(id, said string) {
	f.t.Helper()
	for word, want := range map[string]bool{"wrote write": true, "wrote read": false, "wrote out": false, "a secret": true} {
		if strings.Contains(said, word) != want {
			f.t.Errorf("%s: %q: %v, want %v, in\n%s", id, word, !want, want, said)
		}
	}
	if n := strings.Count(said, "HELLO"); n != 1 {
		f.t.Errorf("%s: %d answers, want the one of the host that is allowed, in\n%s", id, n, said)
	}
	if text := e2e.OK(f.t, "session", "show", id); !strings.Contains(text, "may read "+filepath.Join(f.dir, "read")) || !strings.Contains(text, "network 127.0.0.1") {
		f.t.Errorf("a person is shown\n%s", text)
	}
}

// A session's commands can do only what its flags allow. A session that cannot
// be confined in that way does not start, and leaves nothing on its host.
func TestASessionIsConfinedAsItAsked(t *testing.T) {
	f := newFence(t)
	e2e.Session(t, "fenced", f.flags()...)
	f.holds("fenced", f.tries("fenced"))

	dir := filepath.Join(t.TempDir(), "seed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	config := scriptedmodel.ConfigTOML(e2e.Lab.Model.BaseURL(), e2e.Lab.Token) +
		fmt.Sprintf("\n[permissions.dev]\nextends = \":read-only\"\n[permissions.dev.filesystem]\n%q = \"write\"\n", filepath.Join(f.dir, "out"))
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "seed", "import", "with-profile", dir)
	e2e.Session(t, "by-profile", "--seed", "with-profile", "--profile", "dev")
	if said := f.tries("by-profile"); !strings.Contains(said, "wrote out") || strings.Contains(said, "wrote write") || strings.Contains(said, "HELLO") || !strings.Contains(said, "tried") {
		t.Errorf("under the seed's own profile:\n%s", said)
	}

	for id, c := range map[string]struct {
		says  string
		flags []string
	}{
		"path-not-there":    {"/nowhere on web-1 does not exist", []string{"--read", f.dir + "/nowhere"}},
		"file-to-write":     {"is no folder", []string{"--write", f.dir + "/read/f"}},
		"our-own-folder":    {"lies in Fairlead's own folder", []string{"--write", filepath.Join(e2e.Root, "sessions")}},
		"profile-not-there": {"no permission profile dev", []string{"--profile", "dev"}},
	} {
		args := append([]string{"run", "--host", "web-1", "--seed", "team", "--id", id}, c.flags...)
		e2e.Refused(t, 1, c.says, append(args, "hello")...)
		if v := e2e.Show(t, id); v.Error == nil || v.Error.Kind != "sandbox" || v.Error.Hint == "" {
			t.Errorf("%s: session %+v, error %+v", id, v, v.Error)
		}
		if _, err := os.Stat(filepath.Join(e2e.Root, "sessions", id)); err == nil {
			t.Errorf("%s: the session's folder is there", id)
		}
	}
	e2e.Refused(t, 2, "", "run", "--host", "web-1", "--seed", "team", "--network", "not a host", "hello")
}
