package sshsig

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAKeyIsReadWithItsPassphraseAndNotWithAnother(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	mustKeygen(t, nil, "-q", "-N", "open sesame", "-t", "ed25519", "-f", file)
	pem := read(t, file)
	for passphrase, want := range map[string]error{"open sesame": nil, "": ErrPassphrase, "shut": ErrPassphrase} {
		signer, err := ParseKey(pem, []byte(passphrase))
		if !errors.Is(err, want) || (signer == nil) != (err != nil) {
			t.Errorf("passphrase %q: %v, %v", passphrase, signer, err)
		}
	}
	plain := newPair(t, "ed25519")
	if _, err := ParseKey(read(t, plain.file), []byte("for nothing")); err != nil {
		t.Errorf("a key that is not encrypted, with a passphrase: %v", err)
	}
	weak := filepath.Join(t.TempDir(), "weak")
	mustKeygen(t, nil, "-q", "-N", "", "-t", "rsa", "-b", "1024", "-f", weak)
	for name, text := range map[string][]byte{"a weak key": read(t, weak), "a public key": read(t, plain.file+".pub"), "nothing": nil} {
		for _, passphrase := range []string{"", "x"} {
			if signer, err := ParseKey(text, []byte(passphrase)); err == nil || errors.Is(err, ErrPassphrase) {
				t.Errorf("%s: %v, %v", name, signer, err)
			}
		}
	}
}

func TestACertificateGoesWithItsOwnKeyOnly(t *testing.T) {
	ca, user, other := newPair(t, "ed25519"), newPair(t, "rsa", "-b", "2048"), newPair(t, "ed25519")
	certify(t, ca, user, "-n", "alice")
	cert := read(t, user.file+"-cert.pub")
	signer, err := Certified(user.signer, cert)
	if err != nil {
		t.Fatal(err)
	}
	armored, err := Sign(signer, Namespace, message)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := Verify(armored, Namespace, message, allow(t, "alice cert-authority "+ca.line()), noon); who != "alice" || err != nil {
		t.Errorf("%q, %v", who, err)
	}
	for name, c := range map[string]struct {
		signer ssh.Signer
		line   []byte
	}{"another key": {other.signer, cert}, "no certificate": {user.signer, read(t, user.file+".pub")}, "nothing": {user.signer, nil}} {
		if _, err := Certified(c.signer, c.line); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// realAgent starts ssh-agent with some keys, and returns a function that connects to it.
func realAgent(t *testing.T, pairs ...pair) (dial func() net.Conn) {
	t.Helper()
	// The folder is below the temporary folder, because the path of a socket must be short.
	dir, err := os.MkdirTemp("", "fl-agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	dial = func() net.Conn {
		var conn net.Conn
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			var err error
			if conn, err = net.Dial("unix", socket); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	dial()
	for _, p := range pairs {
		add := exec.Command("ssh-add", "-q", p.file)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("ssh-add: %v: %s", err, out)
		}
	}
	return dial
}

func TestAnAgentSignsWithTheKeyThatIsNamed(t *testing.T) {
	one, two, strange := newPair(t, "ed25519"), newPair(t, "rsa", "-b", "2048"), newPair(t, "ed25519")
	dial := realAgent(t, one, two)
	for _, p := range []pair{one, two} {
		signer, err := FromAgent(dial(), Choice{Public: read(t, p.file+".pub")})
		if err != nil {
			t.Fatal(err)
		}
		armored, err := Sign(signer, Namespace, message)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := Verify(armored, Namespace, message, allow(t, "alice "+p.line()), noon); who != "alice" || err != nil {
			t.Errorf("%q, %v", who, err)
		}
	}
	if _, err := FromAgent(dial(), Choice{Public: read(t, strange.file+".pub")}); err == nil || !strings.Contains(err.Error(), "not one of the agent's 2") {
		t.Errorf("a key that it has not: %v", err)
	}
	if _, err := FromAgent(dial(), Choice{}); err == nil || !strings.Contains(err.Error(), ssh.FingerprintSHA256(one.signer.PublicKey())) {
		t.Errorf("no key named: %v", err)
	}
	if _, err := FromAgent(dial(), Choice{Public: []byte("nonsense")}); err == nil {
		t.Error("nonsense names a key")
	}
	if signer, err := FromAgent(realAgent(t, one)(), Choice{}); err != nil || keyLine(signer.PublicKey()) != one.line() {
		t.Errorf("the only key: %v", err)
	}
	if _, err := FromAgent(realAgent(t)(), Choice{}); err == nil || !strings.Contains(err.Error(), "no key that can sign") {
		t.Errorf("an empty agent: %v", err)
	}
}

// TestAnAgentSignsWithACertificate checks that the certificate is used if only it counts.
// An agent that was given a key with its certificate lists both under one name.
func TestAnAgentSignsWithACertificate(t *testing.T) {
	for _, kind := range kinds[:3] {
		t.Run(kind[0], func(t *testing.T) {
			ca, user, other := newPair(t, "ed25519"), newPair(t, kind[0], kind[1:]...), newPair(t, "ed25519")
			certify(t, ca, user, "-n", "alice")
			dial := realAgent(t, user, other)
			byKey, byAuthority := allow(t, "al "+user.line()), allow(t, "alice cert-authority "+ca.line())
			name := ssh.FingerprintSHA256(user.signer.PublicKey())
			for what, c := range map[string]struct {
				Choice
				by  *Allowed
				who string
			}{
				"whoever may":                    {Choice{Allowed: []*Allowed{byAuthority}, At: noon}, byAuthority, "alice"},
				"the key, who may":               {Choice{Allowed: []*Allowed{byKey}, At: noon}, byKey, "al"},
				"by its name":                    {Choice{Fingerprint: name, Allowed: []*Allowed{byAuthority}, At: noon}, byAuthority, "alice"},
				"by its name, the key":           {Choice{Fingerprint: name}, byKey, "al"},
				"by its file":                    {Choice{Public: read(t, user.file+"-cert.pub")}, byAuthority, "alice"},
				"by its file, the key":           {Choice{Public: read(t, user.file+".pub"), Allowed: []*Allowed{byAuthority}, At: noon}, byKey, "al"},
				"either, as both are one person": {Choice{Allowed: []*Allowed{allow(t, "al "+user.line(), "alice cert-authority "+ca.line())}, At: noon}, byKey, "al"},
			} {
				signer, err := FromAgent(dial(), c.Choice)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				armored, err := Sign(signer, Namespace, message)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				if who, err := Verify(armored, Namespace, message, c.by, noon); who != c.who || err != nil {
					t.Errorf("%s: %q, %v", what, who, err)
				}
				if c.by == byAuthority {
					if err := keygenVerify(t, armored, message, "alice cert-authority "+ca.line(), "alice", Namespace); err != nil {
						t.Errorf("%s: ssh-keygen says %v", what, err)
					}
				}
			}
			if _, err := FromAgent(dial(), Choice{Allowed: []*Allowed{allow(t, "bob "+ca.line())}, At: noon}); err == nil || !strings.Contains(err.Error(), "the agent has 2 keys that can sign: ") {
				t.Errorf("where nobody may: %v", err)
			}
			if _, err := FromAgent(dial(), Choice{Fingerprint: name, Untold: true}); err == nil || !strings.Contains(err.Error(), "the allowed signers, which decide between them, are not known") {
				t.Errorf("where nobody can tell who may: %v", err)
			}
			if signer, err := FromAgent(dial(), Choice{Public: read(t, user.file+"-cert.pub"), Untold: true}); err != nil || signer.PublicKey().Type() == user.signer.PublicKey().Type() {
				t.Errorf("where nobody can tell who may, by its file: %v, %v", signer, err)
			}
		})
	}
}
