package hostexec_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
)

// newKey makes a key of a type and, if file is set, writes it there.
func newKey(t *testing.T, typ, file string) ssh.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch typ {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(nil)
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if file != "" {
		block, err := ssh.MarshalPrivateKey(key, "")
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, string(pem.EncodeToMemory(block)))
	}
	return signer
}

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func authorized(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// runOnce returns the error of the first command over a new connection.
func runOnce(t *testing.T, spec protocol.HostSpec) error {
	t.Helper()
	_, err := newHost(t, spec).Run(t.Context(), hostexec.Command{Script: ":"})
	return err
}

func startManyKeys(t *testing.T) (*hosttest.SSHD, map[string]ssh.PublicKey) {
	dir := t.TempDir()
	keys := map[string]ssh.PublicKey{}
	var config []string
	for _, typ := range []string{"rsa", "ecdsa"} {
		file := filepath.Join(dir, typ)
		keys[typ] = newKey(t, typ, file).PublicKey()
		config = append(config, "HostKey "+file)
	}
	s := hosttest.StartSSHD(t, hosttest.Options{Config: config})
	own, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s.HostKey()))
	if err != nil {
		t.Fatal(err)
	}
	keys["ed25519"] = own
	return s, keys
}

func TestAnyPinnedKeyOfAHostWillDo(t *testing.T) {
	t.Parallel()
	s, keys := startManyKeys(t)
	other := newKey(t, "ed25519", "").PublicKey()
	for typ, key := range keys {
		for form, pin := range map[string][]string{
			"key":                   {authorized(key)},
			"fingerprint":           {ssh.FingerprintSHA256(key)},
			"beside a former one":   {ssh.FingerprintSHA256(other), ssh.FingerprintSHA256(key)},
			"beside a former key":   {authorized(other), authorized(key)},
			"key with a comment":    {authorized(key) + " root@web-3"},
			"print beside a former": {authorized(other), ssh.FingerprintSHA256(key)},
		} {
			spec := s.Spec()
			spec.HostKeys = pin
			if err := runOnce(t, spec); err != nil {
				t.Errorf("%s as %s: %v", typ, form, err)
			}
		}
		file := filepath.Join(t.TempDir(), "known_hosts")
		name := knownhosts.Normalize(s.Address())
		for form, text := range map[string]string{
			"plain":    knownhosts.Line([]string{name}, key),
			"hashed":   knownhosts.Line([]string{knownhosts.HashHostname(name)}, key),
			"wildcard": knownhosts.Line([]string{"127.0.0.*"}, key),
			"many":     knownhosts.Line([]string{"elsewhere"}, other) + "\n# comment\n\n" + knownhosts.Line([]string{name}, key),
		} {
			writeFile(t, file, text+"\n")
			spec := s.Spec()
			spec.HostKeys, spec.KnownHosts = nil, file
			if err := runOnce(t, spec); err != nil {
				t.Errorf("%s in known_hosts, %s: %v", typ, form, err)
			}
		}
	}
}

func TestAnotherKeyIsNeverAccepted(t *testing.T) {
	t.Parallel()
	s, keys := startManyKeys(t)
	other := newKey(t, "ed25519", "").PublicKey()
	otherRSA := newKey(t, "rsa", "").PublicKey()
	name := knownhosts.Normalize(s.Address())
	file := filepath.Join(t.TempDir(), "known_hosts")
	for what, c := range map[string]struct {
		pins  []string
		known string
		want  error
	}{
		"nothing":                 {nil, "", hostexec.ErrHostKeyUnknown},
		"another key":             {[]string{authorized(other)}, "", hostexec.ErrHostKeyChanged},
		"another rsa key":         {[]string{authorized(otherRSA)}, "", hostexec.ErrHostKeyChanged},
		"another fingerprint":     {[]string{ssh.FingerprintSHA256(other)}, "", hostexec.ErrHostKeyChanged},
		"known under other names": {nil, knownhosts.Line([]string{"elsewhere"}, keys["ed25519"]), hostexec.ErrHostKeyUnknown},
		"another known key":       {nil, knownhosts.Line([]string{name}, other), hostexec.ErrHostKeyChanged},
		"an authority's cert":     {nil, "@cert-authority * " + authorized(other), hostexec.ErrHostKeyChanged},
		"revoked": {nil, "@revoked * " + authorized(keys["ed25519"]) + "\n" +
			knownhosts.Line([]string{name}, keys["ed25519"]), hostexec.ErrHostKeyChanged},
	} {
		spec := s.Spec()
		spec.HostKeys = c.pins
		if c.known != "" {
			writeFile(t, file, c.known+"\n")
			spec.KnownHosts = file
		}
		err := runOnce(t, spec)
		if !errors.Is(err, c.want) || errors.Is(err, hostexec.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		var keyErr *hostexec.HostKeyError
		if !errors.As(err, &keyErr) {
			t.Errorf("%s: no *HostKeyError: %v", what, err)
			continue
		}
		if what != "nothing" && (len(keyErr.Shown) == 0 || !strings.Contains(err.Error(), keyErr.Shown[0].Fingerprint)) {
			t.Errorf("%s: it does not say which key was shown: %v", what, err)
		}
		if len(c.pins) > 0 && !strings.Contains(err.Error(), keyErr.Pinned[0]) {
			t.Errorf("%s: it does not say which key was expected: %v", what, err)
		}
	}
	if strings.Contains(s.Log(), "Accepted publickey") {
		t.Errorf("somebody logged in:\n%s", s.Log())
	}
}

func TestNobodyConnectsWithoutAPin(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	spec := protocol.HostSpec{Name: "web", Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
	for _, known := range []string{"", filepath.Join(t.TempDir(), "absent")} {
		spec.KnownHosts = known
		if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrHostKeyUnknown) {
			t.Errorf("%q: %v", known, err)
		}
	}
	l.(*net.TCPListener).SetDeadline(time.Now()) // a connection that was made is already in the queue
	if c, err := l.Accept(); err == nil {
		c.Close()
		t.Error("somebody connected")
	}
}

func TestPinsThatAreNoKeysAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, pin := range []string{"", "SHA256:short", "SHA256:" + strings.Repeat("!", 43), "ssh-ed25519 AAAA", "MD5:aa:bb", "ssh-ed25519"} {
		spec := protocol.HostSpec{Name: "web", Address: "127.0.0.1", HostKeys: []string{pin}}
		if _, err := newPool(t, hostexec.PoolOptions{}).Host(spec); err == nil {
			t.Errorf("%q was taken", pin)
		}
	}
}

func TestHostCertificates(t *testing.T) {
	t.Parallel()
	for _, types := range [][2]string{{"ed25519", "ecdsa"}, {"rsa", "ed25519"}, {"ecdsa", "rsa"}} {
		dir := t.TempDir()
		ca := newKey(t, types[0], "")
		host := newKey(t, types[1], filepath.Join(dir, "host"))
		certify := func(principal string, until time.Time) {
			cert := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{principal},
				ValidAfter: uint64(time.Now().Add(-time.Hour).Unix()), ValidBefore: uint64(until.Unix())}
			if err := cert.SignCert(rand.Reader, ca); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, "host-cert.pub"), authorized(cert)+"\n")
		}
		certify("127.0.0.1", time.Now().Add(time.Hour))
		s := hosttest.StartSSHD(t, hosttest.Options{Config: []string{"HostKey " + filepath.Join(dir, "host"), "HostCertificate " + filepath.Join(dir, "host-cert.pub")}})
		known := filepath.Join(dir, "known_hosts")
		spec := s.Spec()
		spec.HostKeys, spec.KnownHosts = nil, known

		writeFile(t, known, "@cert-authority 127.0.0.* "+authorized(ca.PublicKey())+"\n")
		if err := runOnce(t, spec); err != nil {
			t.Errorf("%v: %v", types, err)
		}
		// A plain key of the host is accepted too, if known_hosts has an authority only for
		// another host.
		writeFile(t, known, fmt.Sprintf("@cert-authority elsewhere %s\n%s\n", authorized(ca.PublicKey()),
			knownhosts.Line([]string{knownhosts.Normalize(s.Address())}, host.PublicKey())))
		if err := runOnce(t, spec); err != nil {
			t.Errorf("%v: a plain key: %v", types, err)
		}
		writeFile(t, known, "@cert-authority 127.0.0.* "+authorized(newKey(t, types[0], "").PublicKey())+"\n")
		if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrHostKeyChanged) {
			t.Errorf("%v: another authority: %v", types, err)
		}
		writeFile(t, known, "@cert-authority 127.0.0.* "+authorized(ca.PublicKey())+"\n")
		for what, c := range map[string]func(){
			"for another host": func() { certify("elsewhere", time.Now().Add(time.Hour)) },
			"expired":          func() { certify("127.0.0.1", time.Now().Add(-time.Minute)) },
		} {
			c()
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := runOnce(t, spec); !errors.Is(err, hostexec.ErrHostKeyChanged) {
				t.Errorf("%v: a certificate %s: %v", types, what, err)
			}
		}
	}
}

func TestScanShowsEveryKeyAndLogsInNowhere(t *testing.T) {
	t.Parallel()
	s, keys := startManyKeys(t)
	spec := s.Spec()
	spec.HostKeys, spec.Identity = nil, "/nonexistent"
	got, err := hostexec.ScanHostKeys(t.Context(), spec)
	if err != nil || len(got) != len(keys) {
		t.Fatalf("%v, %v", got, err)
	}
	for _, k := range got {
		parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(k.Key))
		if err != nil || k.Type != parsed.Type() || k.Fingerprint != ssh.FingerprintSHA256(parsed) {
			t.Errorf("%+v: %v", k, err)
		}
		spec := s.Spec()
		spec.HostKeys = []string{k.Key}
		if err := runOnce(t, spec); err != nil {
			t.Errorf("pinned as scanned: %v", err)
		}
	}
	if _, err := hostexec.ScanHostKeys(t.Context(), protocol.HostSpec{Name: protocol.LocalHost}); err == nil {
		t.Error("the local host has keys")
	}
	s.Stop()
	if _, err := hostexec.ScanHostKeys(t.Context(), spec); !errors.Is(err, hostexec.ErrUnreachable) {
		t.Errorf("nobody listens: %v", err)
	}
}
