package conversation

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

func profileSaysWhatIsReadAndWritten(t *testing.T, c *codex) {
	if !c.has(wire.NamedProfiles) {
		c.note = "no session under a profile"
		return
	}
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - shell: {cmd: "for d in . ../more ../more/vendor; do if (echo x >$d/new) 2>/dev/null; then echo \"wrote <$d>\"; fi; done; cat ../more/vendor/there"}
      - say: "{{ .LastToolOutput }}"
`))
	k.spec.Permissions = "fl"
	more := filepath.Join(filepath.Dir(k.h.work), "more")
	if err := os.MkdirAll(filepath.Join(more, "vendor"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(more, "vendor", "there"), []byte("can be read"), 0o644); err != nil {
		t.Fatal(err)
	}
	k.configure(fmt.Sprintf("default_permissions = \"fl\"\n…\n[permissions.fl]\nextends = \":read-only\"\n[permissions.fl.filesystem]\n%q = \"write\"\n%q = \"read\"\n", more, filepath.Join(more, "vendor")))
	for n := range 2 { // started, and resumed
		got := k.pump(TurnEnded, turn(n+1, fmt.Sprint("m-", n), "go")).Turn.FinalText
		for word, want := range map[string]bool{"wrote <../more>": true, "can be read": true, "wrote <.>": false, "wrote <../more/vendor>": false} {
			if strings.Contains(got, word) != want {
				t.Errorf("turn %d: %q: %v, want %v, in %q", n+1, word, !want, want, got)
			}
		}
		k.restart()
	}
}

func greeting(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "HELLO") })}}
	s.Start()
	t.Cleanup(s.Close)
	return l.Addr().String()
}

func profileSaysWhichHostsAreReached(t *testing.T, c *codex) {
	if !c.has(wire.NetworkByHost) {
		c.note = "no session with a list of hosts"
		return
	}
	allowed, denied := greeting(t, "127.0.0.1"), greeting(t, "127.0.0.2")
	// codex ends a command that accesses a host that is not allowed, so each host has its
	// own command.
	const asks = `
rules:
  - steps:
      - shell: {cmd: "curl -s -m 5 http://%[1]s/ >said; curl -s -m 5 --noproxy '*' http://%[1]s/ >>said"}
      - shell: {cmd: "env -i python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", %[3]s), 3); print(\"RAW\")' >>said 2>&1"}
      - shell: {cmd: "curl -s -m 5 http://%[2]s/ >>said"}
      - shell: {cmd: "cat said"}
      - say: "{{ .LastToolOutput }}"
`
	for proxy, want := range map[bool]int{true: 1, false: 3} { // without its proxy codex ignores the list, so sessions never run without the proxy
		k := c.talk(t, scriptedmodel.Serve(t, fmt.Sprintf(asks, allowed, denied, strings.TrimPrefix(allowed, "127.0.0.1:"))))
		k.spec.Permissions, k.spec.ApprovalPolicy = "fl", "never"
		config := filepath.Join(k.h.dir, "config.toml")
		text, err := os.ReadFile(config)
		if err == nil {
			err = os.WriteFile(config, []byte(strings.Replace(string(text), "[features]\n", fmt.Sprintf("[features]\nnetwork_proxy = %v\n", proxy), 1)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		k.configure("default_permissions = \"fl\"\n…\n[permissions.fl]\nextends = \":workspace\"\n[permissions.fl.network]\nenabled = true\n[permissions.fl.network.domains]\n\"127.0.0.1\" = \"allow\"\n")
		for n := range 2 { // started, and resumed
			got := k.pump(TurnEnded, turn(n+1, fmt.Sprint("m-", n), "go")).Turn.FinalText
			if strings.Count(got, "HELLO") != want || strings.Contains(got, "RAW") == proxy {
				t.Errorf("with its proxy (%v), turn %d: %q, want %d greetings", proxy, n+1, got, want)
			}
			k.restart()
		}
	}
}
