package sshsig

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/lab/touchkey"
	"fairlead.dev/fairlead/internal/realparts"
)

var (
	noon    = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	message = []byte("let codex do it\n")
)

// keygen runs the real ssh-keygen, without an agent and without asking anything.
func keygen(t *testing.T, stdin []byte, args ...string) ([]byte, error) {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		realparts.NotShort(t)
	}
	cmd := exec.CommandContext(context.Background(), "ssh-keygen", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK=", "SSH_ASKPASS_REQUIRE=never", "TZ=UTC")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return out, err
}

func mustKeygen(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	out, err := keygen(t, stdin, args...)
	if err != nil {
		t.Fatalf("ssh-keygen %q: %v", args, err)
	}
	return out
}

// A pair is a key that the real ssh-keygen made.
type pair struct {
	file   string
	signer ssh.Signer
}

func newPair(t *testing.T, kind string, args ...string) pair {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	mustKeygen(t, nil, append([]string{"-q", "-N", "", "-C", "test", "-t", kind, "-f", file}, args...)...)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return pair{file, signer}
}

// line returns the key as it is written in a line of allowed signers.
func (p pair) line() string { return keyLine(p.signer.PublicKey()) }

func keyLine(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func allow(t *testing.T, lines ...string) *Allowed {
	t.Helper()
	a, err := ParseAllowed([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// keygenVerify verifies a signature with the real ssh-keygen.
func keygenVerify(t *testing.T, armored, msg []byte, allowed, principal, namespace string) error {
	t.Helper()
	dir := t.TempDir()
	sig, file := filepath.Join(dir, "sig"), filepath.Join(dir, "allowed")
	for name, data := range map[string][]byte{sig: armored, file: []byte(allowed + "\n")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := keygen(t, msg, "-Y", "verify", "-f", file, "-I", principal, "-n", namespace, "-s", sig)
	return err
}

var kinds = [][]string{{"ed25519"}, {"rsa", "-b", "2048"}, {"ecdsa", "-b", "256"}, {"ecdsa", "-b", "384"}, {"ecdsa", "-b", "521"}}

func TestSshKeygenAcceptsWhatWeSignAndWeAcceptWhatItSigns(t *testing.T) {
	for _, kind := range kinds {
		t.Run(strings.Join(kind, ""), func(t *testing.T) {
			p := newPair(t, kind[0], kind[1:]...)
			line := "alice@example.com " + p.line()
			ours, err := Sign(p.signer, Namespace, message)
			if err != nil {
				t.Fatal(err)
			}
			if err := keygenVerify(t, ours, message, line, "alice@example.com", Namespace); err != nil {
				t.Errorf("ssh-keygen refuses our signature: %v", err)
			}
			for _, hash := range []string{"sha512", "sha256"} {
				theirs := mustKeygen(t, message, "-Y", "sign", "-n", Namespace, "-O", "hashalg="+hash, "-f", p.file)
				who, err := Verify(theirs, Namespace, message, allow(t, line), noon)
				if who != "alice@example.com" || err != nil {
					t.Errorf("a signature of ssh-keygen with %s: %q, %v", hash, who, err)
				}
			}
			if who, err := Verify(ours, Namespace, message, allow(t, line), noon); who != "alice@example.com" || err != nil {
				t.Errorf("our own: %q, %v", who, err)
			}
		})
	}
}

// certify makes a certificate for a key with the real ssh-keygen and the authority's key.
func certify(t *testing.T, ca, user pair, args ...string) *ssh.Certificate {
	t.Helper()
	mustKeygen(t, nil, append(append([]string{"-q", "-s", ca.file, "-I", "of a test"}, args...), user.file+".pub")...)
	raw, err := os.ReadFile(user.file + "-cert.pub")
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key.(*ssh.Certificate)
}

func TestCertificatesNameTheirPrincipalBothWays(t *testing.T) {
	for _, kind := range kinds[:3] {
		t.Run(kind[0], func(t *testing.T) {
			ca, user := newPair(t, kind[0], kind[1:]...), newPair(t, kind[0], kind[1:]...)
			cert := certify(t, ca, user, "-n", "bob@elsewhere.example,alice@example.com", "-V", "20260101:20270101")
			line := "*@example.com cert-authority " + ca.line()
			signer, err := ssh.NewCertSigner(cert, user.signer)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := Sign(signer, Namespace, message)
			if err != nil {
				t.Fatal(err)
			}
			if err := keygenVerify(t, ours, message, line, "alice@example.com", Namespace); err != nil {
				t.Errorf("ssh-keygen refuses our signature: %v", err)
			}
			theirs := mustKeygen(t, message, "-Y", "sign", "-n", Namespace, "-f", user.file+"-cert.pub")
			for name, armored := range map[string][]byte{"ours": ours, "ssh-keygen's": theirs} {
				if who, err := Verify(armored, Namespace, message, allow(t, line), noon); who != "alice@example.com" || err != nil {
					t.Errorf("%s: %q, %v", name, who, err)
				}
			}
			refused := map[string]struct {
				line string
				at   time.Time
				want error
			}{
				"the key of the certificate is no authority": {"*@example.com cert-authority " + user.line(), noon, ErrNotAllowed},
				"an authority is no signer itself":           {"alice@example.com " + ca.line(), noon, ErrNotAllowed},
				"the plain key is another thing":             {"alice@example.com " + user.line(), noon, ErrNotAllowed},
				"no principal fits":                          {"*@other.example cert-authority " + ca.line(), noon, ErrNotAllowed},
				"a principal is ruled out":                   {"*@example.com,!alice@* cert-authority " + ca.line(), noon, ErrNotAllowed},
				"not yet":                                    {line, time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC), ErrNotNow},
				"no more":                                    {line, time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC), ErrNotNow},
				"the authority's line ended":                 {`*@example.com cert-authority,valid-before="20260601Z" ` + ca.line(), noon, ErrNotNow},
			}
			for name, c := range refused {
				if who, err := Verify(ours, Namespace, message, allow(t, c.line), c.at); who != "" || !errors.Is(err, c.want) {
					t.Errorf("%s: %q, %v", name, who, err)
				}
			}
		})
	}
}

func TestCertificatesThatPromiseLessDoNotCount(t *testing.T) {
	ca := newPair(t, "ed25519")
	line := "* cert-authority " + ca.line()
	for name, args := range map[string][]string{
		"for hosts":         {"-h", "-n", "alice"},
		"of no principal":   {},
		"for one command":   {"-n", "alice", "-O", "force-command=true"},
		"from one address":  {"-n", "alice", "-O", "source-address=192.0.2.1"},
		"of a strange name": {"-n", "al ice"},
	} {
		user := newPair(t, "ed25519")
		signer, err := ssh.NewCertSigner(certify(t, ca, user, args...), user.signer)
		if err != nil {
			t.Fatal(err)
		}
		armored, err := Sign(signer, Namespace, message)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := Verify(armored, Namespace, message, allow(t, line), noon); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("a certificate %s: %q, %v", name, who, err)
		}
	}
}

// TestAPersonIsOneWhateverTheySignWith: signatures are counted by person, so an alias, or a
// certificate beside a plain key, counts for the same person.
func TestAPersonIsOneWhateverTheySignWith(t *testing.T) {
	ca, key := newPair(t, "ed25519"), newPair(t, "ed25519")
	allowed := allow(t, "alice,alice2 "+key.line(), "* cert-authority "+ca.line())
	for name, c := range map[string]struct {
		of    pair
		names string
		who   string
		want  error
	}{
		"her first name":                {newPair(t, "ed25519"), "alice", "alice", nil},
		"her alias":                     {newPair(t, "ed25519"), "alice2", "alice", nil},
		"both":                          {newPair(t, "ed25519"), "alice2,alice", "alice", nil},
		"her own key by another name":   {key, "mallory", "alice", nil},
		"her own key by many names":     {key, "mallory,trudy", "alice", nil},
		"somebody else":                 {newPair(t, "ed25519"), "bob", "bob", nil},
		"two people":                    {newPair(t, "ed25519"), "bob,alice2", "", ErrNotAllowed},
		"two people, the other way":     {newPair(t, "ed25519"), "alice,bob", "", ErrNotAllowed},
		"two whom no line names":        {newPair(t, "ed25519"), "bob,ops", "", ErrNotAllowed},
		"one name twice, to be certain": {newPair(t, "ed25519"), "bob,bob", "bob", nil},
	} {
		signer, err := ssh.NewCertSigner(certify(t, ca, c.of, "-n", c.names), c.of.signer)
		if err != nil {
			t.Fatal(err)
		}
		armored, err := Sign(signer, Namespace, message)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := Verify(armored, Namespace, message, allowed, time.Now()); who != c.who || !errors.Is(err, c.want) {
			t.Errorf("a certificate for %s: %q, %v, want %q", name, who, err, c.who)
		}
	}
	if !allowed.Same("alice", "alice2") || !allowed.Same("alice2", "alice") || allowed.Same("alice", "bob") {
		t.Error("aliases are mixed up")
	}
}

// TestAForgedCertificateDoesNotCount: the certificate names the authority's key, but has
// the authority's signature of another certificate.
func TestAForgedCertificateDoesNotCount(t *testing.T) {
	ca, user := newPair(t, "ed25519"), newPair(t, "ed25519")
	cert := certify(t, ca, user, "-n", "bob")
	cert.ValidPrincipals = []string{"alice"}
	signer, err := ssh.NewCertSigner(cert, user.signer)
	if err != nil {
		t.Fatal(err)
	}
	armored, err := Sign(signer, Namespace, message)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := Verify(armored, Namespace, message, allow(t, "* cert-authority "+ca.line()), noon); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("%q, %v", who, err)
	}
}

func TestAKeyThatIsTouchedCountsAndOneThatIsNotDoesNot(t *testing.T) {
	for _, c := range []struct {
		flags byte
		want  error
	}{{touchkey.Touched, nil}, {touchkey.Touched | touchkey.Verified, nil}, {0, ErrWrong}} {
		k, err := touchkey.New(c.flags)
		if err != nil {
			t.Fatal(err)
		}
		armored, err := Sign(k, Namespace, message)
		if err != nil {
			t.Fatal(err)
		}
		line := "alice " + k.Line()
		if _, err := Verify(armored, Namespace, message, allow(t, line), noon); !errors.Is(err, c.want) {
			t.Errorf("flags %d: %v, want %v", c.flags, err, c.want)
		}
		if c.want == nil {
			if err := keygenVerify(t, armored, message, line, "alice", Namespace); err != nil {
				t.Errorf("this test's key is not what ssh-keygen knows: %v", err)
			}
		}
	}
}

// base64Line makes a key line from a blob that no library would write.
func base64Line(kind string, blob []byte) string {
	return kind + " " + base64.StdEncoding.EncodeToString(blob)
}
