package sessions

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// badInput is a mistake that people make, and ctl's answer to it.
type badInput struct {
	name string
	args []string
	in   string // standard input
	code int
	says string // in the error
}

func TestMistakesAreToldAndChangeNothing(t *testing.T) {
	e2e.Session(t, "mistakes")
	e2e.Send(t, "mistakes", "you need a command")
	approval := e2e.Open(t, "mistakes", 1)[0]
	seeds, err := lab.Lines[protocol.SeedView](e2e.Within(t), e2e.Lab, "seed", "list")
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	torn := t.TempDir()
	if err := os.WriteFile(filepath.Join(torn, "auth.json"), []byte(`{"auth_mode":"apikey","OPENAI_API`), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []badInput{
		{"unknown host", []string{"run", "--host", "nowhere", "hi"}, "", 3, "nowhere"},
		{"unknown seed", []string{"run", "--host", "web-1", "--seed", "nothing", "hi"}, "", 3, "nothing"},
		{"unknown session", []string{"session", "show", "nobody"}, "", 3, "nobody"},
		{"unknown session's transcript", []string{"transcript", "nobody"}, "", 3, "nobody"},
		{"session id with slashes", []string{"session", "start", "--host", "web-1", "--id", "a/b"}, "", 2, "a/b"},
		{"session id in use", []string{"session", "start", "--host", "web-1", "--id", "mistakes"}, "", 6, "in use"},
		{"empty prompt", []string{"run", "--host", "web-1", "  "}, "", 2, "empty"},
		{"prompt of 2 MB", []string{"run", "--host", "web-1", "-"}, strings.Repeat("x", 2<<20), 2, "1048576"},
		{"prompt that is no text", []string{"run", "--host", "web-1", "-"}, "\xff\xfe", 2, "UTF-8"},
		{"unknown sandbox", []string{"run", "--host", "web-1", "--sandbox", "none", "hi"}, "", 2, "workspace-write"},
		{"unknown policy", []string{"run", "--host", "web-1", "--approval-policy", "always", "hi"}, "", 2, "on-request"},
		{"relative dir", []string{"run", "--host", "web-1", "--dir", "here", "hi"}, "", 2, "absolute"},
		{"missing dir", []string{"run", "--host", "web-1", "--seed", "team", "--dir", "/not/there", "hi"}, "", 2, "/not/there"},
		{"unknown state", []string{"session", "list", "--state", "happy"}, "", 2, "happy"},
		{"decision for another session", []string{"approval", "accept", "memory-none.1"}, "", 3, "memory-none"},
		{"decision that nobody asked for", []string{"approval", "accept", "mistakes.7"}, "", 3, "mistakes.7"},
		{"decision with another digest", []string{"approval", "accept", "mistakes.1", "--digest", strings.Repeat("0", 64)}, "", 6, "digest"},
		{"approval id that is none", []string{"approval", "accept", "mistakes"}, "", 2, "mistakes"},
		{"interrupt of nothing", []string{"session", "interrupt", "nobody"}, "", 3, "nobody"},
		{"host without a pin", []string{"host", "add", "unpinned", "192.0.2.1"}, "", 2, "pinned"},
		{"host with a bad key", []string{"host", "add", "unpinned", "192.0.2.1", "--host-key", "abc"}, "", 2, "abc"},
		{"host name with capitals", []string{"host", "add", "Web", "192.0.2.1", "--host-key", "SHA256:0123456789012345678901234567890123456789012"}, "", 2, "Web"},
		{"host that is there", []string{"host", "add", "web-1", "192.0.2.1", "--host-key", "SHA256:0123456789012345678901234567890123456789012"}, "", 6, "web-1"},
		{"host in use", []string{"host", "remove", "web-1"}, "", 6, "mistakes"},
		{"address with a bad port", []string{"host", "add", "x", "192.0.2.1:none", "--host-key", "SHA256:0123456789012345678901234567890123456789012"}, "", 2, "port"},
		{"seed of nothing", []string{"seed", "import", "bad", empty}, "", 2, "auth.json"},
		{"seed that is torn", []string{"seed", "import", "bad", torn}, "", 2, "auth.json"},
		{"seed from nowhere", []string{"seed", "import", "bad", "/not/there"}, "", 2, "/not/there"},
		{"seed that is not there", []string{"seed", "delete", "nothing"}, "", 3, "nothing"},
		{"exec of nothing", []string{"host", "exec", "web-1", "--"}, "", 2, ""},
		{"exec on nothing", []string{"host", "exec", "nowhere", "--", "true"}, "", 3, "nowhere"},
		{"unknown command", []string{"sesion"}, "", 2, "sesion"},
		{"unknown flag", []string{"run", "--hots", "x", "hi"}, "", 2, "hots"},
		{"unknown output", []string{"status", "-o", "xml"}, "", 2, "xml"},
		{"second up", []string{"up", "--detach"}, "", 6, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := e2e.Lab.Ctl(e2e.Within(t), strings.NewReader(c.in), c.args...)
			if r.Code != c.code || !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, "ctl: ") {
				t.Errorf("exit %d, want %d: %s", r.Code, c.code, r.Stderr)
			}
			r = e2e.Lab.Ctl(e2e.Within(t), strings.NewReader(c.in), append([]string{"-o", "json"}, c.args...)...)
			var v struct {
				Error struct{ Kind, Message, Hint string }
			}
			if r.Code != c.code || c.name != "unknown output" && (json.Unmarshal([]byte(lastLine(r.Stdout)), &v) != nil || v.Error.Kind == "" || v.Error.Message == "") {
				t.Errorf("as JSON: exit %d, %q", r.Code, r.Stdout)
			}
		})
	}
	if list, err := lab.Lines[protocol.SeedView](e2e.Within(t), e2e.Lab, "seed", "list"); err != nil || len(list) != len(seeds) {
		t.Errorf("seeds are %+v (%v), and were %d", list, err, len(seeds))
	}
	if a := e2e.Open(t, "mistakes", 1)[0]; a.ID != approval.ID || a.Digest != approval.Digest {
		t.Errorf("the approval changed: %+v", a)
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func TestHostsThatCannotBeUsedAreToldApart(t *testing.T) {
	d := e2e.Lab.Host("web-1")
	spec := d.Spec()
	other := "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	add := func(name, address, key, identity string) {
		t.Helper()
		e2e.OK(t, "host", "add", name, d.User()+"@"+address, "--host-key", key, "--identity", identity)
	}
	add("mute", "127.0.0.1:1", d.HostKey(), d.Identity())
	add("changed", d.Address(), other, d.Identity())
	stranger := filepath.Join(t.TempDir(), "id")
	if err := lab.WriteKey(e2e.Within(t), stranger); err != nil {
		t.Fatal(err)
	}
	add("stranger", d.Address(), d.HostKey(), stranger)
	for name, want := range map[string]string{"mute": "unreachable", "changed": "host_key", "stranger": "host_auth"} {
		for _, args := range [][]string{{"host", "check", name}, {"run", "--host", name, "--seed", "team", "--start-timeout", "5s", "hi"}} {
			want, code := want, 4
			if name == "mute" && args[0] == "run" {
				want, code = "start_timeout", 1 // ctl waits for it
			}
			r := e2e.Lab.Ctl(e2e.Within(t), nil, append(args, "-o", "json")...)
			var v struct {
				Error struct{ Kind, Message, Hint string }
			}
			if err := json.Unmarshal([]byte(lastLine(r.Stdout)), &v); err != nil || r.Code != code || v.Error.Kind != want || v.Error.Hint == "" || !strings.Contains(v.Error.Message, name) {
				t.Errorf("%s: exit %d, %+v", strings.Join(args, " "), r.Code, v.Error)
			}
		}
		// Sessions of other tests that accept any host must not get it.
		e2e.Until(t, name+" to be removed", func() (bool, error) {
			return e2e.Lab.Ctl(e2e.Within(t), nil, "host", "remove", name, "--force").Code == 0, nil
		})
	}
	if _, err := os.Stat(filepath.Join(d.Home, ".fairlead", "sessions")); err == nil && spec.Root == "" {
		t.Error("something was left on a host that could not be used")
	}
}

func TestNoInputStopsWhereAPersonIsNeeded(t *testing.T) {
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "run", "--host", "web-1", "--seed", "team", "--id", "person", "--no-input", "you need a command")
	if r.Code != 7 || !strings.Contains(r.Stderr, "person.1") {
		t.Errorf("%v", r)
	}
	e2e.OK(t, "approval", "accept", "person.1")
	e2e.Until(t, "the session to close by itself", func() (bool, error) { return e2e.Show(t, "person").State == protocol.Closed, nil })
}
