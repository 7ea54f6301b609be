package hostexec_test

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

const canary = "canary-5b1f77e0"

// wired returns one host of each kind.
func wired(t *testing.T, opts hostexec.PoolOptions) (pool *hostexec.Pool, hosts map[string]hostexec.Host, sshd *hosttest.SSHD) {
	t.Helper()
	realparts.NotShort(t)
	sshd, err := hosttest.NewSSHD(t.Context(), filepath.Join(t.TempDir(), "sshd"), hosttest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sshd.Close() })
	pool = hostexec.NewPool(opts)
	t.Cleanup(func() { pool.Close() })
	hosts = map[string]hostexec.Host{}
	for _, spec := range []protocol.HostSpec{sshd.Spec(), {Name: protocol.LocalHost}} {
		h, err := pool.Host(spec)
		if err != nil {
			t.Fatal(err)
		}
		hosts[spec.Name] = h
	}
	return pool, hosts, sshd
}

func TestASecretOfAProcessIsReadOnceAndIsInNoFileArgumentOrEnvironment(t *testing.T) {
	_, hosts, _ := wired(t, hostexec.PoolOptions{})
	for name, h := range hosts {
		dir := filepath.Join(t.TempDir(), "s")
		spec := process.Spec{
			Dir: filepath.Join(dir, "proc", "p"), Fence: hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Generation: 1}}, WorkDir: "/",
			Secret: []byte(canary + "\n"),
			// Only the program reads the pipe, and the pipe ends after the secret.
			Argv: []string{"/bin/sh", "-c", `IFS= read -r s <&7; echo "${#s}"; cat <&7; tr '\0' '\n' </proc/$$/environ | grep -c canary; read -r nl; read -r go; echo over`},
		}
		if _, err := process.Start(t.Context(), h, spec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, err := process.Start(t.Context(), h, spec); err != nil || again.State != process.Running {
			t.Errorf("%s: started again: %+v, %v", name, again, err)
		}
		att, err := process.Attach(t.Context(), h, spec.Dir, process.AttachOptions{Fence: spec.Fence})
		if err != nil {
			t.Fatal(err)
		}
		found, err := exec.Command("sh", "-c", `grep -rlaF -e "$1" "$2"; for p in /proc/[0-9]*; do [ "$p" = /proc/$$ ] || grep -laF -e "$1" "$p/cmdline" "$p/environ" 2>/dev/null; done; :`, "sh", canary, dir).Output()
		if err != nil || strings.Contains(strings.ReplaceAll(string(found), selfProc(), ""), "/") {
			t.Errorf("%s: the secret is in %s (%v)", name, found, err)
		}
		if _, err := io.WriteString(att, "go\n"); err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(att)
		if err != nil || string(out) != "15\n0\nover\n" {
			t.Errorf("%s: it printed %q, %v", name, out, err)
		}
		att.Close()
	}
}

// selfProc is the file in which grep finds its own search text.
func selfProc() string { return "/proc/self/cmdline\n" }
