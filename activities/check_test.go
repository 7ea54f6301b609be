package activities

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

func (b *bed) check() protocol.CheckHostResult {
	b.t.Helper()
	out, err := b.set.Host.CheckHost(b.t.Context(), hosts.CheckHostInput{Host: b.spec})
	if err != nil {
		b.t.Fatal(err)
	}
	if left := b.sh(`[ ! -d "$1/check" ] || ls -A "$1/check"`, b.root()); left != "" {
		b.t.Errorf("the check left %s", left)
	}
	return out
}

func checkNamed(t *testing.T, out protocol.CheckHostResult, name string) protocol.Check {
	t.Helper()
	for _, c := range out.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %q: %+v", name, out.Checks)
	return protocol.Check{}
}

func TestCheckTriesWhatSessionsNeed(t *testing.T) {
	b := newBed(t, farHost(t))
	out := b.check()
	if c := checkNamed(t, out, "codex"); c.OK || c.Required || !strings.Contains(c.Detail, "can bring") {
		t.Errorf("before codex is there: %+v", c)
	}
	if _, err := b.provision(); err != nil {
		t.Fatal(err)
	}
	out = b.check()
	if !out.OK {
		t.Errorf("not ok: %+v", out.Checks)
	}
	for _, name := range []string{"system", "programs", "processes", "root", "disk", "clock", "forward", "socket", "tunnel", "codex", "app-server", "sandbox", "credential", "network"} {
		if c := checkNamed(t, out, name); !c.OK || c.Detail == "" || c.Hint != "" {
			t.Errorf("%+v", c)
		}
	}
	for _, fact := range []string{"os", "arch", "libc", "cpus", "memory_mb", "disk_free_mb", "shell", "codex", "sandbox", "clock_skew"} {
		if out.Facts[fact] == "" {
			t.Errorf("nothing is said of %s: %v", fact, out.Facts)
		}
	}
}

func TestCheckTellsASandboxThatDoesNotStart(t *testing.T) {
	b := newBed(t, unconfinable(t))
	if _, err := b.provision(); err != nil {
		t.Fatal(err)
	}
	res := b.check()
	c := checkNamed(t, res, "sandbox")
	if res.OK || c.OK || !c.Required || !strings.Contains(c.Detail, "namespace") || !strings.Contains(c.Hint, "danger-full-access") {
		t.Errorf("ok %v, %+v", res.OK, c)
	}
	if res.Facts["sandbox"] != "no" {
		t.Errorf("facts %v", res.Facts)
	}
}

// unconfinable returns a host on which no user namespaces can be made, as in many
// containers: its sshd runs in a namespace where their number is limited to 0.
func unconfinable(t *testing.T) protocol.HostSpec {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test makes a user namespace with all users in it and must be run as root")
	}
	program := filepath.Join(t.TempDir(), "sshd-without-namespaces")
	script := `#!/bin/sh
unshare -U sleep 600 &
held=$!
until [ "$(readlink /proc/$held/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do sleep 0.02; done
echo "0 0 65536" >/proc/$held/uid_map
echo "0 0 65536" >/proc/$held/gid_map
exec nsenter -U -t $held -S 0 -G 0 sh -c 'echo 0 >/proc/sys/user/max_user_namespaces || exit; kill $0; exec /usr/sbin/sshd "$@"' $held "$@"
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return hosttest.StartSSHD(t, hosttest.Options{NewUser: true, Program: program}).Spec()
}

func TestUnreachableHostIsTyped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	b := newBed(t, spec)
	_, err = b.set.Host.CheckHost(t.Context(), hosts.CheckHostInput{Host: spec})
	if app := appError(t, err); app.Type() != protocol.ErrTypeUnreachable || app.NonRetryable() {
		t.Errorf("%v", app)
	}
}

func TestOtherHostKeyIsNeverTried(t *testing.T) {
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	keys := spec.HostKeys
	spec.HostKeys = hosttest.StartSSHD(t, hosttest.Options{}).Spec().HostKeys
	b := newBed(t, spec)
	_, err := b.set.Host.CheckHost(t.Context(), hosts.CheckHostInput{Host: spec})
	if app := appError(t, err); app.Type() != protocol.ErrTypeHostKey || !app.NonRetryable() {
		t.Errorf("changed key: %v", app)
	}
	got, err := b.set.Host.ScanHostKeys(t.Context(), protocol.ScanHostKeysInput{Host: spec})
	if err != nil || len(got.Keys) != 1 || got.Keys[0].Key != keys[0] {
		t.Errorf("scanned %+v, %v; it has %v", got, err, keys)
	}
}

func TestRefusedKeyIsTyped(t *testing.T) {
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Identity = hosttest.StartSSHD(t, hosttest.Options{}).Identity()
	b := newBed(t, spec)
	_, err := b.provision()
	if app := appError(t, err); app.Type() != protocol.ErrTypeAuth || !app.NonRetryable() {
		t.Errorf("%v", app)
	}
}

func TestCheckSaysWhichForwardsSshdPermits(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{Config: []string{"AllowTcpForwarding local"}})
	spec := sshd.Spec()
	spec.Root = sshd.Home + "/fl"
	out := newBed(t, spec).check()
	for name, ok := range map[string]bool{"forward": false, "socket": false, "tunnel": true} {
		c := checkNamed(t, out, name)
		if c.OK != ok || c.Required || c.Detail == "" || ok == (c.Hint != "") || !ok && !strings.Contains(c.Hint, "AllowTcpForwarding") {
			t.Errorf("%+v", c)
		}
	}
}
