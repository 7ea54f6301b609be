package restores

import (
	"slices"
	"testing"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// Restoring a snapshot with one sandbox flag keeps all other sandbox settings.
func TestWhatIsNotSaidOfTheSandboxIsAsItWas(t *testing.T) {
	was := map[string]string{"sandbox": "workspace-write", "read": "/srv/out\n/srv/data", "write": "/srv/cache", "network": "a.example.com"}
	names := []string{"a.example.com"}
	for name, c := range map[string]struct {
		sandbox string
		given   []string
		flags   hosts.Confinement
		former  map[string]string
		want    hosts.Confinement
		bad     bool
	}{
		"nothing": {"workspace-write", nil, hosts.Confinement{}, was,
			hosts.Confinement{Read: []string{"/srv/out", "/srv/data"}, Write: []string{"/srv/cache"}, Network: "hosts", Hosts: names}, false},
		"a folder to write": {"workspace-write", []string{"write"}, hosts.Confinement{Write: []string{"/srv"}}, was,
			hosts.Confinement{Read: []string{"/srv/out", "/srv/data"}, Write: []string{"/srv"}, Network: "hosts", Hosts: names}, false},
		"one that was to read": {"workspace-write", []string{"write"}, hosts.Confinement{Write: []string{"/srv/out"}}, was,
			hosts.Confinement{Read: []string{"/srv/data"}, Write: []string{"/srv/out"}, Network: "hosts", Hosts: names}, false},
		"the network": {"workspace-write", []string{"network"}, hosts.Confinement{Network: "off"}, was,
			hosts.Confinement{Read: []string{"/srv/out", "/srv/data"}, Write: []string{"/srv/cache"}, Network: "off"}, false},
		"read-only": {"read-only", []string{"sandbox"}, hosts.Confinement{}, was,
			hosts.Confinement{Read: []string{"/srv/out", "/srv/data"}, Network: "hosts", Hosts: names}, false},
		"no sandbox": {"danger-full-access", []string{"sandbox"}, hosts.Confinement{}, was, hosts.Confinement{}, false},
		"of a profile": {protocol.ByProfile, []string{"write"}, hosts.Confinement{Write: []string{"/a"}}, map[string]string{"profile": "dev", "network": "off"},
			hosts.Confinement{Profile: "dev", Write: []string{"/a"}, Network: "off"}, false},
		"a mode in place of a profile":       {"workspace-write", []string{"sandbox"}, hosts.Confinement{}, map[string]string{"profile": "dev"}, hosts.Confinement{}, false},
		"a profile that nobody knows":        {protocol.ByProfile, []string{"write"}, hosts.Confinement{Write: []string{"/a"}}, nil, hosts.Confinement{}, true},
		"a profile that nobody knows at all": {protocol.ByProfile, nil, hosts.Confinement{}, nil, hosts.Confinement{}, true},
	} {
		opt := session.Options{Sandbox: c.sandbox, Confine: c.flags}
		err := sameConfinement(&opt, snapshots.Manifest{ID: "s.snap-1"}, protocol.SessionView{Options: c.former}, func(flag string) bool { return slices.Contains(c.given, flag) })
		if c.bad {
			if errkind.ExitCode(err) != errkind.ExitUsage {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || !same(opt.Confine, c.want) {
			t.Errorf("%s: %+v (%v), want %+v", name, opt.Confine, err, c.want)
		}
	}
}

func same(a, b hosts.Confinement) bool {
	return a.Profile == b.Profile && a.Network == b.Network && slices.Equal(a.Read, b.Read) && slices.Equal(a.Write, b.Write) && slices.Equal(a.Hosts, b.Hosts)
}
