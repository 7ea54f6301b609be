package activities

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// TestNothingReachesAHostWhoseKeyIsNotPinned checks that the host saw no login and no
// file, for all ways in which the key can differ from the pinned one.
func TestNothingReachesAHostWhoseKeyIsNotPinned(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{NewUser: true})
	pinned := sshd.Spec()
	other := hosttest.StartSSHD(t, hosttest.Options{}).HostKey()
	nobody := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(nobody, []byte("elsewhere.example "+other+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	revoked := filepath.Join(t.TempDir(), "known_hosts")
	line := fmt.Sprintf("[%s]:%d %s\n", pinned.Address, pinned.Port, sshd.HostKey())
	if err := os.WriteFile(revoked, []byte("@revoked "+line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, pinned)
	seed := b.plantable(scriptedmodel.Serve(t, `rules: []`))
	before := everyFile(t, sshd.Home)
	n := 0
	for what, change := range map[string]func(*protocol.HostSpec){
		"no pin":              func(s *protocol.HostSpec) { s.HostKeys = nil; s.KnownHosts = os.DevNull },
		"not in known_hosts":  func(s *protocol.HostSpec) { s.HostKeys = nil; s.KnownHosts = nobody },
		"no such known_hosts": func(s *protocol.HostSpec) { s.HostKeys = nil; s.KnownHosts = nobody + "-gone" },
		"another key":         func(s *protocol.HostSpec) { s.HostKeys = []string{other} },
		"another fingerprint": func(s *protocol.HostSpec) { s.HostKeys = []string{"SHA256:" + strings.Repeat("A", 43)} },
		"revoked":             func(s *protocol.HostSpec) { s.HostKeys = nil; s.KnownHosts = revoked },
		"a jump host with no pin": func(s *protocol.HostSpec) {
			j := *s
			j.Name, j.HostKeys, j.KnownHosts = "jump", nil, os.DevNull
			s.Jump = &j
		},
		"a pin that cannot be read": func(s *protocol.HostSpec) { s.HostKeys = []string{"ssh-ed25519 nonsense"} },
	} {
		n++
		spec := pinned
		spec.Name = fmt.Sprintf("strange-%d", n)
		change(&spec)
		_, err := b.prepare(places.PrepareSessionInput{
			Claim: protocol.Claim{Session: "s1", Host: spec, Generation: 1, Pump: 1}, Seed: seed, Sandbox: "danger-full-access",
		})
		if err == nil {
			t.Errorf("%s: prepared", what)
			continue
		}
		if app := appError(t, err); strings.Contains(app.Message(), madeUpKey) {
			t.Errorf("%s: %v", what, app)
		}
	}
	if log := sshd.Log(); strings.Contains(log, "Accepted") || strings.Contains(log, "Starting session") {
		t.Errorf("somebody logged in: %s", log)
	}
	if after := everyFile(t, sshd.Home); after != before {
		t.Errorf("on the host: %s; before: %s", after, before)
	}
	// With its pin, the same host is used.
	if _, err := b.prepare(places.PrepareSessionInput{Claim: protocol.Claim{Session: "s1", Host: pinned, Generation: 1, Pump: 1}, Seed: seed, Sandbox: "danger-full-access"}); err != nil {
		t.Error(err)
	}
	if log := sshd.Log(); !strings.Contains(log, "Accepted") {
		t.Error("sshd's log does not tell logins: this test proves nothing")
	}
}

func everyFile(t *testing.T, dir string) string {
	t.Helper()
	var names strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&names, path, info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names.String()
}

// workerVariables are environment variables in which a worker may have keys and tokens
// of its own.
var workerVariables = []string{
	"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_GITHUB_PERSONAL_ACCESS_TOKEN",
	"GITHUB_TOKEN", "GH_TOKEN", "GITHUB_PERSONAL_ACCESS_TOKEN", "MCP_BEARER_TOKEN", "MCP_TOKEN", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY",
	"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "TEMPORAL_API_KEY", "OPENAI_BASE_URL", "CODEX_REFRESH_TOKEN_URL_OVERRIDE", "SSH_AUTH_SOCK", "HTTPS_PROXY",
}

// TestWorkersEnvironmentNeverReachesTheHost checks that neither codex nor its commands
// have an environment variable of the worker, even if the host is the worker's machine.
func TestWorkersEnvironmentNeverReachesTheHost(t *testing.T) {
	far := readyHost(t) // its sshd is started without the worker's variables
	for _, name := range workerVariables {
		t.Setenv(name, "marked-worker-"+strings.ToLower(name))
	}
	model := scriptedmodel.Serve(t, `
rules:
  - steps:
      - - shell: 'env; tr "\0" "\n" </proc/$PPID/environ'
      - say: "{{ .LastToolOutput }}"
`)
	for name, spec := range map[string]protocol.HostSpec{"far": far, "local": {Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, spec)
			home := strings.TrimSpace(b.sh(`printf %s "$HOME"`))
			k := b.prepared("environ", "", "workspace-write", b.plantable(model))
			k.start()
			out := k.pump(conversation.TurnEnded, k.message("show"))
			said := out.Pump.Turn.FinalText
			environs := b.sh(`for p in /proc/[0-9]*; do tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -q -x -F -e "CODEX_HOME=$1" && { cat "$p/environ" "$p/cmdline" | tr '\0' '\n'; echo "== one"; }; done; :`, k.layout.CodexHome)
			if !strings.Contains(environs, "== one") || !strings.Contains(said, "PATH=") {
				t.Fatalf("nothing was looked at: %q, %q", environs, said)
			}
			if strings.Contains(environs+said, "marked-worker-") {
				t.Errorf("on the host: %s\nin a command: %s", environs, said)
			}
			if left := b.sh(`grep -rlF -e marked-worker- "$1" "$2" || :`, k.layout.Dir, k.layout.Seen()); left != "" {
				t.Errorf("in files: %s", left)
			}
			if !strings.Contains("\n"+environs, "\nHOME="+home+"\n") {
				t.Errorf("HOME is not the user's own %s: %s", home, environs)
			}
			if strings.Contains(environs, madeUpKey) {
				t.Errorf("the credential is in an environment or an argument: %s", environs)
			}
		})
	}
}

// TestAHostsOwnFilesNameNoServerForTokens checks that variables in the rc files of a
// host's user neither tell codex where to send a login nor give it another login. The
// server that the worker's configuration names is used.
func TestAHostsOwnFilesNameNoServerForTokens(t *testing.T) {
	var rc strings.Builder
	for _, name := range hosts.UnsetKeys {
		fmt.Fprintf(&rc, "export %s=http://127.0.0.1:9/marked-rc\n", name)
	}
	rc.WriteString("export OF_THE_HOST=marked-rc\n")
	realparts.NotShort(t)
	sshd, err := hosttest.NewSSHD(t.Context(), t.TempDir(), hosttest.Options{NewUser: true, RC: map[string]string{".bashrc": rc.String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sshd.Close() })
	b := newBed(t, sshd.Spec())
	b.set.site.TokenEndpoint = "http://127.0.0.1:8/ours"
	k, _ := b.held("rc", nil)
	k.start()
	environ := b.sh(`tr '\0' '\n' <"/proc/$(cut -d' ' -f1 "$1/started")/environ"`, folder.ServerDir(k.layout, k.incarnation))
	var marked []string
	for line := range strings.Lines(environ) {
		if strings.Contains(line, "marked-rc") {
			marked = append(marked, strings.TrimSpace(line))
		}
	}
	if len(marked) != 1 || marked[0] != "OF_THE_HOST=marked-rc" {
		t.Errorf("codex has of the host's: %q", marked)
	}
	if !strings.Contains(environ, "CODEX_REFRESH_TOKEN_URL_OVERRIDE=http://127.0.0.1:8/ours\n") {
		t.Errorf("codex is not told of our endpoint: %s", environ)
	}
}
