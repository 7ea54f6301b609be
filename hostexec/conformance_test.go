package hostexec_test

import (
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// oddName is the name of a folder that breaks scripts with careless quoting.
const oddName = "it's a \"root\" & ünï-漢 $HOME"

func newPool(t *testing.T, opts hostexec.PoolOptions) *hostexec.Pool {
	p := hostexec.NewPool(opts)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newHost(t *testing.T, spec protocol.HostSpec) hostexec.Host {
	t.Helper()
	realparts.NotShort(t)
	h, err := newPool(t, hostexec.PoolOptions{}).Host(spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestLocalHostKeepsTheContract(t *testing.T) {
	t.Parallel()
	spec := protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir() + "/" + oddName}
	hosttest.TestHost(t, newHost(t, spec), spec)
}

func TestSSHHostKeepsTheContract(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]hosttest.Options{
		"CurrentUser":  {Root: t.TempDir() + "/" + oddName},
		"OrdinaryUser": {NewUser: true, Root: "~/" + oddName},
		"PrintingRC": {NewUser: true, Shell: "/bin/bash", Root: oddName, RC: map[string]string{
			".bashrc": "echo welcome; echo trouble >&2; printf 'no newline'; echo nobody | cat\n"}},
		"Csh":         {NewUser: true, Shell: "/usr/bin/tcsh", Root: oddName, RC: map[string]string{".cshrc": "echo welcome\n"}},
		"Fish":        {NewUser: true, Shell: "/usr/bin/fish", Root: oddName, RC: map[string]string{".config/fish/config.fish": "echo welcome\n"}},
		"FewSessions": {NewUser: true, Config: []string{"MaxSessions 2"}},
		"NoSFTP":      {NewUser: true, Config: []string{"Subsystem sftp /bin/false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := hosttest.StartSSHD(t, opts)
			hosttest.TestHost(t, newHost(t, s.Spec()), s.Spec())
		})
	}
}
