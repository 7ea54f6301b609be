package activities

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// A stopped host cannot be reached. A host that shows another key, or refuses the
// login, gets a different problem. Each is usable again when the fault is over.
func TestAProbeTellsWhatKeepsAHostFromBeingUsed(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	realparts.NotShort(t)
	sshd, err := hosttest.NewSSHD(t.Context(), t.TempDir(), hosttest.Options{Name: "far", Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sshd.Close(); err != nil {
			t.Error(err)
		}
	})
	good := sshd.Spec()
	other := good
	other.Name, other.HostKeys, other.KnownHosts = "other", []string{"SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"}, ""
	b := newBed(t, good)
	probe := func(specs ...protocol.HostSpec) []hosts.HostProbed {
		t.Helper()
		out, err := b.set.Host.ProbeHosts(context.Background(), hosts.ProbeHostsInput{Hosts: specs})
		if err != nil || len(out.Hosts) != len(specs) {
			t.Fatalf("%+v, %v", out, err)
		}
		return out.Hosts
	}
	got := probe(good, other)
	if got[0].Problem != nil || got[0].Name != good.Name || got[0].Facts["os"] == "" || got[0].Facts["memory_mb"] == "" || got[0].Facts["disk_free_mb"] == "" {
		t.Errorf("of a host that is well it says %+v", got[0])
	}
	if p := got[1].Problem; p == nil || p.Kind != protocol.ErrTypeHostKey || got[1].Facts != nil || !hosts.HostFault(p.Kind) {
		t.Errorf("of a host with another key it says %+v", got[1])
	}
	if in, err := os.ReadDir(filepath.Join(root, "check")); err == nil && len(in) > 0 {
		t.Errorf("it left %v", in)
	}

	if err := sshd.Stop(); err != nil {
		t.Fatal(err)
	}
	if p := probe(good)[0].Problem; p == nil || p.Kind != protocol.ErrTypeUnreachable || !strings.Contains(p.Message, "refused") {
		t.Errorf("of a host that is down it says %+v", p)
	}
	if err := sshd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := probe(good)[0].Problem; p != nil {
		t.Errorf("of a host that is back it says %+v", p)
	}
}
