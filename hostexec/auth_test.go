package hostexec_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

// serveAgent serves a real agent that holds keys, and returns its socket.
func serveAgent(t *testing.T, keys ...any) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: k}); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				agent.ServeAgent(ring, c)
			}()
		}
	}()
	return socket
}

func privateKey(t *testing.T, file string) any {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func someKey(t *testing.T) any {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &key
}

// setHome gives the worker a home without keys.
func setHome(t *testing.T) string {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.Mkdir(home+"/.ssh", 0o700); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestARefusedKeyIsNotRetried(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	spec := s.Spec()
	spec.Identity = filepath.Join(t.TempDir(), "id")
	key := newKey(t, "ed25519", spec.Identity)
	err := runOnce(t, spec)
	if !errors.Is(err, hostexec.ErrAuth) || errors.Is(err, hostexec.ErrUnreachable) || !strings.Contains(err.Error(), ssh.FingerprintSHA256(key.PublicKey())) {
		t.Error(err)
	}
	if n := strings.Count(s.Log(), "Connection from"); n != 2 { // one connection is from the wait for the listener
		t.Errorf("%d connections:\n%s", n, s.Log())
	}
	spec = s.Spec()
	spec.User = "no-such-user"
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrAuth) {
		t.Errorf("an unknown user: %v", err)
	}
}

func TestIdentitiesThatCannotBeUsedSayWhy(t *testing.T) {
	t.Parallel()
	s := hosttest.StartSSHD(t, hosttest.Options{})
	dir := t.TempDir()
	block, err := ssh.MarshalPrivateKeyWithPassphrase(privateKey(t, s.Identity()).(*ed25519.PrivateKey), "", []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir+"/protected", string(pem.EncodeToMemory(block)))
	writeFile(t, dir+"/garbage", "hello")
	for name, want := range map[string]string{"protected": "ssh-add", "garbage": "no key found", "absent": "no such file"} {
		spec := s.Spec()
		spec.Identity = filepath.Join(dir, name)
		if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrAuth) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The agent holds the protected key, so it can be used.
	spec := s.Spec()
	spec.Identity = dir + "/protected"
	socket := serveAgent(t, someKey(t), someKey(t), someKey(t), someKey(t), someKey(t), someKey(t), someKey(t), privateKey(t, s.Identity()))
	h, err := newPool(t, hostexec.PoolOptions{Agent: socket}).Host(spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), hostexec.Command{Script: ":"}); err != nil {
		t.Error(err)
	}
}

func TestWithoutIdentityTheAgentAndTheUsualFilesAreTried(t *testing.T) {
	home := setHome(t)
	s := hosttest.StartSSHD(t, hosttest.Options{})
	spec := s.Spec()
	spec.Identity = ""
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrAuth) || !strings.Contains(err.Error(), "no key to offer") {
		t.Errorf("no key anywhere: %v", err)
	}
	run := func(agent string) error {
		h, err := newPool(t, hostexec.PoolOptions{Agent: agent}).Host(spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Run(t.Context(), hostexec.Command{Script: ":"})
		return err
	}
	own := privateKey(t, s.Identity())
	if err := run(serveAgent(t, someKey(t), own)); err != nil {
		t.Errorf("the agent: %v", err)
	}
	if err := run("/nonexistent/agent"); !errors.Is(err, hostexec.ErrAuth) || !strings.Contains(err.Error(), "agent") {
		t.Errorf("an agent that is not there: %v", err)
	}
	// sshd hangs up after six keys, so only a few of them are offered.
	many := []any{someKey(t), someKey(t), someKey(t), someKey(t), someKey(t), someKey(t), own}
	if err := run(serveAgent(t, many...)); !errors.Is(err, hostexec.ErrAuth) || !strings.Contains(err.Error(), "holds 7 keys") {
		t.Errorf("an agent with too many keys: %v", err)
	}
	raw, err := os.ReadFile(s.Identity())
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, home+"/.ssh/id_ed25519", string(raw))
	if err := run(serveAgent(t, many[:6]...)); err != nil {
		t.Errorf("a usual file beside a full agent: %v", err)
	}
	spec.Identity = "~/.ssh/id_ed25519"
	if err := run(""); err != nil {
		t.Errorf("an identity below the home: %v", err)
	}
}

func TestACertificateBesideTheKeyIsUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newKey(t, "ed25519", "")
	writeFile(t, dir+"/ca.pub", authorized(ca.PublicKey())+"\n")
	s := hosttest.StartSSHD(t, hosttest.Options{Config: []string{"TrustedUserCAKeys " + dir + "/ca.pub"}})
	spec := s.Spec()
	spec.Identity = dir + "/id"
	key := newKey(t, "ecdsa", spec.Identity)
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrAuth) {
		t.Fatalf("the key alone: %v", err)
	}
	cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{s.User()},
		ValidAfter: uint64(time.Now().Add(-time.Hour).Unix()), ValidBefore: uint64(time.Now().Add(time.Hour).Unix())}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir+"/id-cert.pub", authorized(cert)+"\n")
	if err := runOnce(t, spec); err != nil {
		t.Error(err)
	}
	newKey(t, "ecdsa", spec.Identity)
	if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrAuth) || !strings.Contains(err.Error(), "does not belong") {
		t.Errorf("another key's certificate: %v", err)
	}
}
