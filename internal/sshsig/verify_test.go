package sshsig

import (
	"bytes"
	"crypto/dsa" //lint:ignore SA1019 a key that must be refused
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func signed(t *testing.T, p pair, namespace string) []byte {
	t.Helper()
	armored, err := Sign(p.signer, namespace, message)
	if err != nil {
		t.Fatal(err)
	}
	return armored
}

func TestASignatureCountsForWhatWasSignedAndForNothingElse(t *testing.T) {
	p, other := newPair(t, "ed25519"), newPair(t, "ed25519")
	allowed := allow(t, "alice "+p.line())
	good := signed(t, p, Namespace)
	cases := map[string]struct {
		armored   []byte
		namespace string
		message   string
		allowed   *Allowed
		want      error
	}{
		"another message":          {good, Namespace, "let codex do it", allowed, ErrWrong},
		"no message":               {good, Namespace, "", allowed, ErrWrong},
		"another namespace wanted": {good, "file", string(message), allowed, ErrNamespace},
		"made for another":         {signed(t, p, "file"), Namespace, string(message), allowed, ErrNamespace},
		"no namespace":             {good, "", string(message), allowed, ErrNamespace},
		"a stranger's":             {signed(t, other, Namespace), Namespace, string(message), allowed, ErrNotAllowed},
		"nobody allowed":           {good, Namespace, string(message), allow(t), ErrNotAllowed},
		"no allowed at all":        {good, Namespace, string(message), nil, ErrNotAllowed},
		"empty":                    {nil, Namespace, string(message), allowed, ErrMalformed},
	}
	for name, c := range cases {
		if who, err := Verify(c.armored, c.namespace, []byte(c.message), c.allowed, noon); who != "" || !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v, want %v", name, who, err, c.want)
		}
	}
}

// TestNoBitOfASignatureMayChange flips each bit of a signature.
func TestNoBitOfASignatureMayChange(t *testing.T) {
	p := newPair(t, "ed25519")
	allowed := allow(t, "alice "+p.line())
	raw, err := unarmor(signed(t, p, Namespace))
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		forged := bytes.Clone(raw)
		forged[bit/8] ^= 1 << (bit % 8)
		if who, err := Verify(armor(forged), Namespace, message, allowed, noon); err == nil {
			t.Fatalf("bit %d does not matter: %q", bit, who)
		}
	}
	for n := range raw {
		if _, err := Verify(armor(raw[:n]), Namespace, message, allowed, noon); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	if _, err := Verify(armor(append(raw, 0)), Namespace, message, allowed, noon); !errors.Is(err, ErrMalformed) {
		t.Errorf("with a byte behind it: %v", err)
	}
}

// seal makes an envelope by hand.
func seal(e envelope) []byte { return armor(append([]byte(magic), ssh.Marshal(e)...)) }

func TestMalformedSignaturesAreToldFromWrongOnes(t *testing.T) {
	p := newPair(t, "rsa", "-b", "2048")
	allowed := allow(t, "alice "+p.line())
	good, _, _, err := open(signed(t, p, Namespace))
	if err != nil {
		t.Fatal(err)
	}
	text := string(signed(t, p, Namespace))
	with := func(change func(*envelope)) string {
		e := good
		change(&e)
		return string(seal(e))
	}
	data, err := toSign(Namespace, "sha512", message)
	if err != nil {
		t.Fatal(err)
	}
	old, err := p.signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSA)
	if err != nil {
		t.Fatal(err)
	}
	for name, armored := range map[string]string{
		"PEM of something else": strings.ReplaceAll(text, "SSH SIGNATURE", "PRIVATE KEY"),
		"two of them":           text + text,
		"no end":                strings.TrimSuffix(strings.TrimSpace(text), end),
		"no base64":             begin + "\n****\n" + end,
		"not our magic":         string(armor([]byte("SSHGIS\x00\x00\x00\x01"))),
		"version 2":             with(func(e *envelope) { e.Version = 2 }),
		"something reserved":    with(func(e *envelope) { e.Reserved = "x" }),
		"a weak hash":           with(func(e *envelope) { e.Hash = "sha1" }),
		"no key":                with(func(e *envelope) { e.PublicKey = nil }),
		"no signature":          with(func(e *envelope) { e.Signature = nil }),
		"an RSA key with SHA-1": with(func(e *envelope) { e.Signature = ssh.Marshal(old) }),
		"something behind it": with(func(e *envelope) {
			e.Signature = ssh.Marshal(ssh.Signature{Format: ssh.KeyAlgoRSASHA512, Blob: make([]byte, 256), Rest: []byte{1}})
		}),
		"too long": begin + strings.Repeat("A", maxArmored) + end,
	} {
		if who, err := Verify([]byte(armored), Namespace, message, allowed, noon); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %q, %v", name, who, err)
		}
	}
	for name, armored := range map[string]string{
		"another hash": with(func(e *envelope) { e.Hash = "sha256" }),
		"zeros": with(func(e *envelope) {
			e.Signature = ssh.Marshal(ssh.Signature{Format: ssh.KeyAlgoRSASHA512, Blob: make([]byte, 256)})
		}),
	} {
		if who, err := Verify([]byte(armored), Namespace, message, allowed, noon); !errors.Is(err, ErrWrong) {
			t.Errorf("%s: %q, %v", name, who, err)
		}
	}
	if who, err := Verify([]byte("\r\n "+strings.ReplaceAll(text, "\n", "\r\n")), Namespace, message, allowed, noon); who != "alice" || err != nil {
		t.Errorf("line ends of Windows: %q, %v", who, err)
	}
}

func TestALineHoldsForItsTimeAndItsNamespaces(t *testing.T) {
	p := newPair(t, "ed25519")
	armored := signed(t, p, Namespace)
	at := func(s string) time.Time {
		m, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, c := range []struct {
		options string
		at      string
		want    error
	}{
		{`valid-after="20261122Z"`, "2026-11-22T00:00:00Z", nil},
		{`valid-after="20261122Z"`, "2026-11-21T23:59:59Z", ErrNotNow},
		{`valid-before="202611221200Z"`, "2026-11-22T12:00:00Z", nil},
		{`valid-before="202611221200Z"`, "2026-11-22T12:00:01Z", ErrNotNow},
		{`valid-before="20261122120030z"`, "2026-11-22T12:00:30Z", nil},
		{`VALID-AFTER="20260101Z",Valid-Before="20270101Z"`, "2026-11-22T12:00:00Z", nil},
		{`namespaces="file,` + Namespace + `"`, "2026-11-22T12:00:00Z", nil},
		{`namespaces="fairlead-*"`, "2026-11-22T12:00:00Z", nil},
		{`namespaces="file,git"`, "2026-11-22T12:00:00Z", ErrNotAllowed},
		{`namespaces="*,!fairlead-decision@*"`, "2026-11-22T12:00:00Z", ErrNotAllowed},
		{`namespaces="file",valid-after="20260101Z"`, "2026-11-22T12:00:00Z", ErrNotAllowed},
		{`cert-authority`, "2026-11-22T12:00:00Z", ErrNotAllowed},
	} {
		line := "alice " + c.options + " " + p.line()
		if _, err := Verify(armored, Namespace, message, allow(t, line), at(c.at)); !errors.Is(err, c.want) {
			t.Errorf("%s at %s: %v, want %v", c.options, c.at, err, c.want)
		}
		// If a second line allows the key, it counts, before or after the first line.
		if who, err := Verify(armored, Namespace, message, allow(t, line, "alice "+p.line()), at(c.at)); who != "alice" || err != nil {
			t.Errorf("%s with a second line: %q, %v", c.options, who, err)
		}
	}
}

func TestSshKeygenReadsTheSameLinesOfAllowedSigners(t *testing.T) {
	p := newPair(t, "ed25519")
	armored := signed(t, p, Namespace)
	for _, line := range []string{
		"alice " + p.line(),
		`"alice" ` + p.line(),
		"bob,alice\t" + p.line() + " a comment of words",
		`alice namespaces="` + Namespace + `" ` + p.line(),
		`alice namespaces="fairlead-*,file" ` + p.line(),
		`alice namespaces="file" ` + p.line(),
		`alice namespaces="*,!fairlead*" ` + p.line(),
		"bob " + p.line(),
		"# alice " + p.line(),
		"alice cert-authority " + p.line(),
	} {
		theirs := keygenVerify(t, armored, message, line, "alice", Namespace)
		allowed := allow(t, line)
		who, ours := Verify(armored, Namespace, message, allowed, time.Now())
		// ssh-keygen gets the name of the signer, while Verify returns it.
		if ours == nil && !allowed.Same(who, "alice") {
			ours = errors.New("somebody else")
		}
		if (ours == nil) != (theirs == nil) {
			t.Errorf("%s: ours %v, ssh-keygen's %v", line, ours, theirs)
		}
	}
}

func TestMistakesInAllowedSignersNameTheirLine(t *testing.T) {
	p, other := newPair(t, "ed25519"), newPair(t, "ed25519")
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := ssh.NewPublicKey(&short.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	old, err := ssh.NewPublicKey(&dsa.PublicKey{Parameters: dsa.Parameters{P: new(big.Int).Lsh(big.NewInt(1), 1023), Q: new(big.Int).Lsh(big.NewInt(1), 159), G: big.NewInt(2)}, Y: big.NewInt(4)})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"alice":                                     "ends too early",
		"alice ssh-ed25519":                         "ends too early",
		"alice ssh-ed25519 ****":                    "no base64",
		"alice ssh-ed25519 AAAA":                    "cannot be read",
		"alice ssh-rsa " + p.line()[12:]:            "the line says ssh-rsa",
		"alice " + keyLine(weak):                    "1024 bits is too short",
		"alice " + keyLine(old):                     `"ssh-dss" is no type of key`,
		"al*ce " + p.line():                         "is a pattern",
		"!alice " + p.line():                        "is a pattern",
		"alice,,bob " + p.line():                    "no principal",
		"al\x1bice " + p.line():                     "no principal",
		`"alice ` + p.line():                        "quote is not closed",
		"alice no-touch-required " + p.line():       "is no option",
		`alice valid-after="20260101" ` + p.line():  "names no time zone: write 20260101Z",
		`alice valid-after="yesterday" ` + p.line(): "is no moment",
		`alice valid-after="20261301Z" ` + p.line(): "is no moment",
		`alice valid-after=20260101Z ` + p.line():   "value in quotes",
		`alice valid-after="20260101Z",valid-after="20260101Z" ` + p.line():                             "twice",
		`alice valid-after="20270101Z",valid-before="20260101Z" ` + p.line():                            "not after",
		`alice cert-authority="yes" ` + p.line():                                                        "takes no value",
		`alice namespaces="" ` + p.line():                                                               "value in quotes",
		"bob " + p.line() + "\nalice " + p.line():                                                       "belongs to bob already",
		"bob,alice " + p.line() + "\nalice " + other.line():                                             "alice stands for bob already",
		"alice " + p.line() + "\nbob,alice " + other.line():                                             "alice stands for alice already",
		"alice,ops " + p.line() + "\nbob,ops " + other.line():                                           "ops stands for alice already",
		base64Line("alice ecdsa-sha2-nistp256", ssh.Marshal(struct{ A string }{"ecdsa-sha2-nistp256"})): "cannot be read",
	} {
		_, err := ParseAllowed([]byte("# who may sign\n\n" + line))
		var at *LineError
		if !errors.As(err, &at) || at.Line != 3+strings.Count(line, "\n") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want line 3 and %q", line, err, want)
		}
	}
	if _, err := ParseAllowed(make([]byte, maxAllowed+1)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a huge file: %v", err)
	}
}

func TestPrincipalsAreTheFirstNameOfTheirKeys(t *testing.T) {
	one, two, ca := newPair(t, "ed25519"), newPair(t, "ed25519"), newPair(t, "ed25519")
	a := allow(t, "alice,alice@example.com "+one.line(), "alice "+two.line(), "*@example.com cert-authority "+ca.line())
	if got := strings.Join(a.Principals(), " "); got != "alice" || !a.Authority() {
		t.Errorf("principals %q, authority %v", got, a.Authority())
	}
	if !a.Same("alice", "alice@example.com") || !a.Same("x", "x") || a.Same("alice", "bob@example.com") || a.Same("alice@example.com", "bob") {
		t.Error("aliases are mixed up")
	}
	for _, p := range []pair{one, two} {
		if who, err := Verify(signed(t, p, Namespace), Namespace, message, a, noon); who != "alice" || err != nil {
			t.Errorf("%q, %v", who, err)
		}
	}
	var none *Allowed
	if none.Principals() != nil || none.Authority() {
		t.Error("nobody is somebody")
	}
}

// TestADecisionIsSignedByHand checks that a shell can make the bytes to sign.
func TestADecisionIsSignedByHand(t *testing.T) {
	p := newPair(t, "ed25519")
	byHand := []byte(`{"approval":"s.1","asked_at":"2026-11-22T12:00:00Z","digest":"d1","outcome":"accept","payload":"","scope":"once","session":"s"}`)
	theirs := mustKeygen(t, byHand, "-Y", "sign", "-n", Namespace, "-f", p.file)
	d := Decision{Session: "s", Approval: "s.1", AskedAt: "2026-11-22T12:00:00Z", Digest: "d1", Outcome: "accept", Scope: "once"}
	msg, err := d.Message()
	if err != nil || !bytes.Equal(msg, byHand) {
		t.Fatalf("%s, %v", msg, err)
	}
	if who, err := Verify(theirs, Namespace, msg, allow(t, "alice "+p.line()), noon); who != "alice" || err != nil {
		t.Errorf("%q, %v", who, err)
	}
	for name, change := range map[string]func(*Decision){
		"session": func(d *Decision) { d.Session = "t" }, "approval": func(d *Decision) { d.Approval = "s.2" },
		"digest": func(d *Decision) { d.Digest = "d2" }, "outcome": func(d *Decision) { d.Outcome = "decline" },
		"scope": func(d *Decision) { d.Scope = "session" }, "payload": func(d *Decision) { d.Payload = "x" },
		"moment": func(d *Decision) { d.AskedAt = "2026-11-22T12:00:01Z" },
	} {
		other := d
		change(&other)
		msg, err := other.Message()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(theirs, Namespace, msg, allow(t, "alice "+p.line()), noon); !errors.Is(err, ErrWrong) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	for _, bad := range []Decision{{}, {Session: "s", Approval: "s.1", AskedAt: "x", Digest: "d", Outcome: "\xff"}} {
		if msg, err := bad.Message(); err == nil {
			t.Errorf("%+v makes %s", bad, msg)
		}
	}
}

// TestADecisionNamesTheMomentOfItsRequest: the id of a session may be used again, and with
// it the numbers of its approvals. A signature for the earlier approval must not count for
// the later one.
func TestADecisionNamesTheMomentOfItsRequest(t *testing.T) {
	whole := Decision{Session: "s", Approval: "s.1", AskedAt: "2026-11-22T12:00:00Z", Digest: "d", Outcome: "accept"}
	if msg, err := whole.Message(); err != nil {
		t.Fatalf("%s, %v", msg, err)
	}
	for name, change := range map[string]func(*Decision){
		"session": func(d *Decision) { d.Session = "" }, "approval": func(d *Decision) { d.Approval = "" }, "moment": func(d *Decision) { d.AskedAt = "" },
		"digest": func(d *Decision) { d.Digest = "" }, "outcome": func(d *Decision) { d.Outcome = "" },
	} {
		d := whole
		change(&d)
		if msg, err := d.Message(); err == nil || !strings.Contains(err.Error(), "the moment it was asked") {
			t.Errorf("without its %s it makes %s, %v", name, msg, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(begin+"\nU1NIU0lH\n"+end), []byte("alice ssh-ed25519 AAAA"), "file")
	f.Add([]byte(nil), []byte(`*@example.com cert-authority,namespaces="file",valid-after="20260101Z" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDMhsnrTiF1hLhAqxBcDTVzd9BMbnYwYvLoMM39PpIvE`), "*")
	f.Fuzz(func(t *testing.T, armored, allowed []byte, namespace string) {
		a, err := ParseAllowed(allowed)
		if err != nil {
			var at *LineError
			if !errors.As(err, &at) || at.Line < 1 {
				t.Fatalf("a mistake without its line: %v", err)
			}
		}
		if who, err := Verify(armored, namespace, message, a, noon); err == nil {
			t.Fatalf("%q signed what nobody could", who)
		}
		// Also try the input inside a valid armor, which a fuzzer hardly finds by itself.
		wrapped := begin + "\n" + base64.StdEncoding.EncodeToString(append([]byte(magic), armored...)) + "\n" + end
		if who, err := Verify([]byte(wrapped), namespace, message, a, noon); err == nil {
			t.Fatalf("%q signed what nobody could", who)
		}
		if len(allowed) < 200 && len(namespace) < 200 {
			matchList(strings.Split(string(allowed), ","), namespace)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	key, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		b.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		b.Fatal(err)
	}
	armored, err := Sign(signer, Namespace, message)
	if err != nil {
		b.Fatal(err)
	}
	allowed, err := ParseAllowed([]byte("alice " + keyLine(signer.PublicKey())))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Verify(armored, Namespace, message, allowed, noon); err != nil {
			b.Fatal(err)
		}
	}
}
