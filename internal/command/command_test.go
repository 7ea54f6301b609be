package command_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/lab/touchkey"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// key returns a signer and its line in a .pub file, the same for the same seed.
func key(t testing.TB, seed byte) (ssh.Signer, string) {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return s, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

func parse(t testing.TB, text string) *access.Access {
	t.Helper()
	a, err := access.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// team is an access file with alice's key 1, bob's key 2 and the authority's key 3.
func team(t testing.TB, more string) *access.Access {
	_, alice := key(t, 1)
	_, bob := key(t, 2)
	_, authority := key(t, 3)
	_, worker := key(t, 5)
	return parse(t, fmt.Sprintf(`
people: [{name: alice, keys: [%q]}, {name: bob, keys: [%q]}]
authorities: [{key: %q, names: ["*@example.com"]}]
workers: [%q]
bindings: [{name: all, roles: [operator], to: [everybody]}]
%s`, alice, bob, authority, worker, more))
}

func sign(t testing.TB, seed byte, who, args string) json.RawMessage {
	t.Helper()
	k, _ := key(t, seed)
	raw, err := command.Sign(k, who, "session/s1", "message", []byte(args), noon)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func certificate(t *testing.T, name, id string, from, to time.Time) (cert *ssh.Certificate, signer ssh.Signer) {
	t.Helper()
	user, _ := key(t, 4)
	authority, _ := key(t, 3)
	cert = &ssh.Certificate{Key: user.PublicKey(), CertType: ssh.UserCert, KeyId: id, ValidPrincipals: []string{name},
		ValidAfter: uint64(from.Unix()), ValidBefore: uint64(to.Unix())}
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, user)
	if err != nil {
		t.Fatal(err)
	}
	return cert, signer
}

func received(raw []byte) command.Received {
	return command.Received{Workflow: "session/s1", Name: "message", Raw: raw, Now: noon}
}

func TestACommandCountsForWhatWasSignedAndForNothingElse(t *testing.T) {
	a := team(t, "")
	raw := sign(t, 1, "alice", `{"text": "<go>", "id":"m1", "n": 1.50, "auth2": {"b":1,"a":[]}}`)
	s, err := command.Check(received(raw), a)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"auth2":{"a":[],"b":1},"id":"m1","n":1.50,"text":"<go>"}`; string(s.Args) != want || s.Principal != "alice" || !s.At.Equal(noon) || s.Nonce == "" {
		t.Errorf("%s by %s at %s, nonce %q", s.Args, s.Principal, s.At, s.Nonce)
	}
	spaced := bytes.ReplaceAll(raw, []byte(`,"`), []byte(`, "`)) // another program's JSON
	if _, err := command.Check(received(spaced), a); err != nil {
		t.Errorf("the same fields, written otherwise: %v", err)
	}
	for name, r := range map[string]command.Received{
		"another workflow": {Workflow: "session/s2", Name: "message", Raw: raw, Now: noon},
		"another command":  {Workflow: "session/s1", Name: "interrupt", Raw: raw, Now: noon},
		"another argument": received(bytes.Replace(raw, []byte(`"m1"`), []byte(`"m2"`), 1)),
		"one more field":   received(bytes.Replace(raw, []byte(`{`), []byte(`{"x":1,`), 1)),
		"another number":   received(bytes.Replace(raw, []byte(`1.50`), []byte(`1.5`), 1)),
		"another name":     received(bytes.Replace(raw, []byte(`"alice"`), []byte(`"bob"`), 1)),
		"another nonce":    received(bytes.Replace(raw, []byte(`"nonce":"`), []byte(`"nonce":"A`), 1)),
		"another time":     received(bytes.Replace(raw, []byte(`12:00:00Z`), []byte(`12:00:01Z`), 1)),
	} {
		if s, err := command.Check(r, a); !errors.Is(err, command.ErrSignature) || s.Principal != "" {
			t.Errorf("%s: %v by %q", name, err, s.Principal)
		}
	}
}

func TestACommandThatAFIDOKeySignedCountsIfTheKeyWasTouched(t *testing.T) {
	k, err := touchkey.New(touchkey.Touched)
	if err != nil {
		t.Fatal(err)
	}
	const file = "people: [{name: alice, keys: [%q]}]\nbindings: [{name: all, roles: [operator], to: [alice]}]\nrevoked: {keys: [%s]}\n"
	listed, revoked := parse(t, fmt.Sprintf(file, k.Line(), "")), parse(t, fmt.Sprintf(file, k.Line(), `"`+sshsig.Fingerprint(k.PublicKey())+`"`))
	sign := func(flags byte) json.RawMessage {
		k.Flags = flags
		raw, err := command.Sign(k, "alice", "session/s1", "message", []byte(`{"text":"go"}`), noon)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	touched := sign(touchkey.Touched)
	if s, err := command.Check(received(touched), listed); err != nil || s.Principal != "alice" || s.For {
		t.Errorf("touched: %+v, %v", s, err)
	}
	for name, flags := range map[string]byte{"not touched": 0, "a PIN and no touch": touchkey.Verified} {
		if s, err := command.Check(received(sign(flags)), listed); !errors.Is(err, command.ErrSignature) || s.Principal != "" {
			t.Errorf("%s: %q, %v", name, s.Principal, err)
		}
	}
	if _, err := command.Check(received(touched), revoked); !errors.Is(err, command.ErrRevoked) {
		t.Errorf("a revoked key: %v", err)
	}
}

func TestNobodySpeaksForAnother(t *testing.T) {
	a := team(t, "")
	for name, raw := range map[string]json.RawMessage{
		"bob's key, alice's name":  sign(t, 2, "alice", `{}`),
		"a stranger's key":         sign(t, 9, "alice", `{}`),
		"the authority's own key":  sign(t, 3, "x@example.com", `{}`),
		"a key of no certificate":  sign(t, 4, "dora@example.com", `{}`),
		"a name that nobody holds": sign(t, 1, "nobody", `{}`),
	} {
		if _, err := command.Check(received(raw), a); !errors.Is(err, command.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := command.Check(received([]byte(`{"by":"alice"}`)), a); !errors.Is(err, command.ErrUnsigned) {
		t.Errorf("no signature: %v", err)
	}
	if _, err := command.Check(received(nil), a); !errors.Is(err, command.ErrUnsigned) {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestTheGroupsOfACertificateCountOnlyIfItsAuthorityIsListed(t *testing.T) {
	a := team(t, "")
	give := func(ca byte, groups string) (command.Signed, error) {
		user, _ := key(t, 4)
		authority, _ := key(t, ca)
		cert := &ssh.Certificate{Key: user.PublicKey(), CertType: ssh.UserCert, KeyId: "dora/1", ValidPrincipals: []string{"dora@example.com"},
			ValidAfter: uint64(noon.Add(-time.Minute).Unix()), ValidBefore: uint64(noon.Add(time.Hour).Unix()),
			Permissions: ssh.Permissions{Extensions: map[string]string{access.GroupsExtension: groups}}}
		if err := cert.SignCert(rand.Reader, authority); err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewCertSigner(cert, user)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := command.Sign(signer, "dora@example.com", "session/s1", "message", []byte(`{}`), noon)
		if err != nil {
			t.Fatal(err)
		}
		return command.Check(received(raw), a)
	}
	if s, err := give(3, `["ops","sre"]`); err != nil || !slices.Equal(s.Groups, []string{"ops", "sre"}) {
		t.Errorf("groups %q, %v", s.Groups, err)
	}
	if s, err := give(9, `["ops"]`); !errors.Is(err, command.ErrSignature) || len(s.Groups) > 0 || !strings.Contains(err.Error(), "does not list the authority") || !strings.Contains(err.Error(), "ctl login") {
		t.Errorf("of an authority that nobody listed: groups %q, %v", s.Groups, err)
	}
	if s, err := give(3, `"ops"`); !errors.Is(err, command.ErrSignature) || len(s.Groups) > 0 {
		t.Errorf("groups that cannot be read: %q, %v", s.Groups, err)
	}
	if s, err := command.Check(received(sign(t, 1, "alice", `{}`)), a); err != nil || s.Groups != nil {
		t.Errorf("a plain key has groups %q, %v", s.Groups, err)
	}
}

func TestAWorkerNamesTheGroupsOfThePersonForWhomItSigns(t *testing.T) {
	a := team(t, "")
	give := func(seed byte, who string, groups []string) json.RawMessage {
		k, _ := key(t, seed)
		raw, err := command.SignFor(k, who, groups, "session/s1", "message", []byte(`{}`), noon)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	raw := give(5, "dora@example.com", []string{"ops", "sre"})
	if s, err := command.Check(received(raw), a); err != nil || !s.For || !slices.Equal(s.Groups, []string{"ops", "sre"}) || s.Principal != "dora@example.com" {
		t.Errorf("%+v, %v", s, err)
	}
	for name, raw := range map[string][]byte{
		"other groups":        bytes.Replace(raw, []byte(`"ops"`), []byte(`"root"`), 1),
		"fewer groups":        bytes.Replace(raw, []byte(`"ops",`), nil, 1),
		"a person":            give(1, "alice", []string{"ops"}),
		"no list":             bytes.Replace(raw, []byte(`["ops","sre"]`), []byte(`"ops"`), 1),
		"an empty list":       bytes.Replace(raw, []byte(`["ops","sre"]`), []byte(`[]`), 1),
		"numbers":             bytes.Replace(raw, []byte(`"ops"`), []byte(`1`), 1),
		"a group with no end": bytes.Replace(raw, []byte(`"ops"`), []byte(`"`+strings.Repeat("g", 1000)+`"`), 1),
	} {
		if s, err := command.Check(received(raw), a); !errors.Is(err, command.ErrSignature) && !errors.Is(err, command.ErrMalformed) || s.Groups != nil {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if raw := give(5, "dora@example.com", nil); bytes.Contains(raw, []byte("groups")) {
		t.Errorf("without groups, what is signed differs from before: %s", raw)
	}
}

func TestCertificatesCountForTheirTimeAndTheirName(t *testing.T) {
	a := team(t, "")
	check := func(a *access.Access, signer ssh.Signer, name string) error {
		raw, err := command.Sign(signer, name, "session/s1", "message", []byte(`{}`), noon)
		if err != nil {
			t.Fatal(err)
		}
		_, err = command.Check(received(raw), a)
		return err
	}
	hour := time.Hour
	cert, good := certificate(t, "dora@example.com", "login-7", noon.Add(-hour), noon.Add(hour))
	if err := check(a, good, "dora@example.com"); err != nil {
		t.Fatal(err)
	}
	if err := check(a, good, "alice"); !errors.Is(err, command.ErrSignature) {
		t.Errorf("another name: %v", err)
	}
	_, old := certificate(t, "dora@example.com", "login-6", noon.Add(-9*hour), noon.Add(-hour))
	if err := check(a, old, "dora@example.com"); !errors.Is(err, sshsig.ErrNotNow) {
		t.Errorf("an expired certificate: %v", err)
	}
	_, other := certificate(t, "eve@elsewhere.example", "login-8", noon.Add(-hour), noon.Add(hour))
	if err := check(a, other, "eve@elsewhere.example"); !errors.Is(err, command.ErrSignature) {
		t.Errorf("a name that the authority may not give: %v", err)
	}
	if err := check(team(t, "revoked: {certificates: [login-7]}"), good, "dora@example.com"); !errors.Is(err, command.ErrRevoked) {
		t.Errorf("a revoked certificate: %v", err)
	}
	print := ssh.FingerprintSHA256(cert.Key)
	if err := check(team(t, fmt.Sprintf("revoked: {keys: [%q]}", print)), good, "dora@example.com"); !errors.Is(err, command.ErrRevoked) {
		t.Errorf("the revoked key of a certificate: %v", err)
	}

	// The certificate may be apart from the signature.
	plain := sign(t, 4, "dora@example.com", `{}`)
	with := func(line string) []byte {
		var v map[string]any
		if err := json.Unmarshal(plain, &v); err != nil {
			t.Fatal(err)
		}
		v["auth"].(map[string]any)["certificate"] = line
		raw, _ := json.Marshal(v)
		return raw
	}
	if _, err := command.Check(received(with(string(ssh.MarshalAuthorizedKey(cert)))), a); err != nil {
		t.Errorf("a certificate beside the signature: %v", err)
	}
	_, line := key(t, 4)
	for _, bad := range []string{line, "junk", strings.Repeat("A", 70<<10)} {
		if _, err := command.Check(received(with(bad)), a); err == nil {
			t.Errorf("%.20s… counts as certificate", bad)
		}
	}
}

func TestAWorkerSpeaksForThoseWhoLoggedIn(t *testing.T) {
	raw := sign(t, 5, "frank@elsewhere.example", `{}`)
	if s, err := command.Check(received(raw), team(t, "")); err != nil || s.Principal != "frank@elsewhere.example" || !s.For {
		t.Errorf("%q, %v", s.Principal, err)
	}
	k, _ := key(t, 5)
	for _, more := range []string{fmt.Sprintf("revoked: {keys: [%q]}", ssh.FingerprintSHA256(k.PublicKey()))} {
		if _, err := command.Check(received(raw), team(t, more)); !errors.Is(err, command.ErrRevoked) {
			t.Errorf("%s: %v", more, err)
		}
	}
	if s, err := command.Check(received(sign(t, 1, "frank@elsewhere.example", `{}`)), team(t, "")); err == nil {
		t.Errorf("alice speaks for %s", s.Principal)
	}
}

func TestRevokedKeysDoNotCount(t *testing.T) {
	k, _ := key(t, 1)
	raw := sign(t, 1, "alice", `{}`)
	for _, more := range []string{fmt.Sprintf("revoked: {keys: [%q]}", ssh.FingerprintSHA256(k.PublicKey())), "revoked: {people: [alice]}"} {
		if _, err := command.Check(received(raw), team(t, more)); !errors.Is(err, command.ErrRevoked) && !errors.Is(err, command.ErrSignature) {
			t.Errorf("%s: %v", more, err)
		}
	}
}

func TestClocksMayBeFiveMinutesApart(t *testing.T) {
	a := team(t, "")
	raw := sign(t, 1, "alice", `{}`)
	for _, c := range []struct {
		after, waited time.Duration
		ok            bool
	}{
		{0, 0, true}, {5 * time.Minute, 0, true}, {-5 * time.Minute, 0, true},
		{5*time.Minute + time.Second, 0, false}, {-5*time.Minute - time.Second, 0, false},
		{24 * time.Hour, 24 * time.Hour, false}, {25 * time.Hour, 24 * time.Hour, false}, {-6 * time.Minute, 24 * time.Hour, false},
	} {
		r := received(raw)
		r.Now, r.Waited = noon.Add(c.after), c.waited
		_, err := command.Check(r, a)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, command.ErrTime) {
			t.Errorf("%s later, having waited %s: %v", c.after, c.waited, err)
		}
	}
}

func TestMalformedCommandsAreToldFromForgedOnes(t *testing.T) {
	a := team(t, "")
	good := string(sign(t, 1, "alice", `{"id":"m"}`))
	for name, raw := range map[string]string{
		"no JSON":                 `{`,
		"a list":                  `[]`,
		"two values":              good + `{}`,
		"a field twice":           strings.Replace(good, `"id":"m"`, `"id":"x","id":"m"`, 1),
		"auth twice":              strings.Replace(good, `{"auth"`, `{"auth":{},"auth"`, 1),
		"an unknown field":        strings.Replace(good, `"nonce"`, `"x":1,"nonce"`, 1),
		"auth is text":            `{"auth":"alice"}`,
		"a number as principal":   `{"auth":{"principal":1}}`,
		"no time":                 strings.Replace(good, `"at":"2026`, `"at":"at 2026`, 1),
		"a time with a zone":      strings.Replace(good, `12:00:00Z`, `14:00:00+02:00`, 1),
		"a huge nonce":            strings.Replace(good, `"nonce":"`, `"nonce":"`+strings.Repeat("n", 101), 1),
		"deeper than a stack is":  `{"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		"more than Temporal has":  `{"x":"` + strings.Repeat("y", command.MaxArgs) + `"}`,
		"bytes that are no UTF-8": "{\"x\":\"\xff\"}",
	} {
		if _, err := command.Check(received([]byte(raw)), a); !errors.Is(err, command.ErrMalformed) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	if _, err := command.Sign(nil, "alice", "session/s1", "message", []byte(good), noon); err == nil || !strings.Contains(err.Error(), "signed already") {
		t.Errorf("signed twice: %v", err)
	}
}

func TestACommandIsSignedByHand(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Fatal("install openssh-client: ", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	run := func(in string, args ...string) string {
		c := exec.Command(keygen, args...)
		c.Stdin = strings.NewReader(in)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("ssh-keygen %v: %v", args, err)
		}
		return string(out)
	}
	run("", "-q", "-t", "ed25519", "-N", "", "-f", file)
	pub, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	a := parse(t, fmt.Sprintf("people: [{name: alice, keys: [%q]}]\nbindings: [{name: all, roles: [admin], to: [alice]}]", strings.TrimSpace(string(pub))))
	args := `{"by":"alice","reason":"enough"}` // keys in order, no spaces
	sum := sha256.Sum256([]byte(args))
	message := fmt.Sprintf(`{"args":"%s","at":"2026-05-04T12:00:00Z","name":"message","nonce":"n1","principal":"alice","workflow":"session/s1"}`, hex.EncodeToString(sum[:]))
	signature := run(message, "-Y", "sign", "-q", "-n", command.Namespace, "-f", file)
	auth, _ := json.Marshal(map[string]string{"principal": "alice", "at": "2026-05-04T12:00:00Z", "nonce": "n1", "signature": signature})
	s, err := command.Check(received([]byte(`{"reason":"enough","by":"alice","auth":`+string(auth)+`}`)), a)
	if err != nil || s.Principal != "alice" || string(s.Message) != message {
		t.Errorf("%q, %v", s.Principal, err)
	}
}

func TestACommandCountsOnce(t *testing.T) {
	var n command.Nonces
	k, _ := key(t, 1)
	at := func(when time.Time) *protocol.Auth {
		raw, err := command.Sign(k, "alice", "session/s1", "message", []byte(`{}`), when)
		if err != nil {
			t.Fatal(err)
		}
		_, auth, err := command.Plain(raw)
		if err != nil {
			t.Fatal(err)
		}
		return auth
	}
	first := at(noon.Add(-time.Minute))
	if !n.Fresh(first) {
		t.Fatal("a new command is not fresh")
	}
	n.Use(first, noon)
	for i := range 3 * command.MaxNonces {
		if n.Fresh(first) {
			t.Fatalf("after %d others it counts again", i)
		}
		s := at(noon.Add(-30 * time.Second).Add(time.Duration(i) * time.Millisecond))
		if !n.Fresh(s) {
			t.Fatalf("command %d is not fresh", i)
		}
		n.Use(s, noon)
	}
	if len(n.Used) != command.MaxNonces {
		t.Errorf("%d nonces are remembered", len(n.Used))
	}
	if n.Fresh(at(noon.Add(-2 * time.Minute))) {
		t.Error("a command older than all that are remembered counts: it may have been seen")
	}
}

func auth(who string, n int, at time.Time) *protocol.Auth {
	return &protocol.Auth{Principal: who, Nonce: fmt.Sprintf("%s-%d", who, n), At: at.UTC().Format(time.RFC3339Nano)}
}

func TestNobodyKeepsOthersOutWithCommandsOfALaterTime(t *testing.T) {
	var n command.Nonces
	victim := auth("bob", 0, noon)
	n.Use(victim, noon)
	for i := range 1000 {
		n.Use(auth("mallory", i, noon.Add(command.MaxSkew)), noon)
	}
	if !n.Fresh(auth("bob", 1, noon.Add(time.Second))) || !n.Fresh(auth("ann", 1, noon.Add(-time.Second))) {
		t.Error("somebody else's command is refused")
	}
	if n.Fresh(victim) {
		t.Error("a command counts again after somebody else gave many")
	}
	for p := range 1000 { // many principals, as of tokens
		for i := range 3 {
			n.Use(auth(fmt.Sprintf("token:%d", p), i, noon.Add(command.MaxSkew)), noon)
		}
	}
	if !n.Fresh(auth("ann", 2, noon.Add(time.Second))) {
		t.Error("many principals keep ann out")
	}
	if len(n.Used) > 2*command.MaxNonces || len(n.Floors) > 200 {
		t.Errorf("%d nonces and %d floors are kept", len(n.Used), len(n.Floors))
	}
}

func TestCommandsAreForgottenWhenTheirTimeHasPassed(t *testing.T) {
	var n command.Nonces
	n.Use(auth("ann", 1, noon), noon)
	n.Use(auth("ann", 2, noon.Add(24*time.Hour)), noon.Add(24*time.Hour))
	if n.Fresh(auth("ann", 1, noon)) {
		t.Error("a signal that Temporal may have kept for a day counts again")
	}
	n.Use(auth("ann", 3, noon.Add(48*time.Hour)), noon.Add(48*time.Hour))
	if len(n.Used) != 2 {
		t.Errorf("%+v are remembered", n.Used)
	}
}

func TestACommandCountsAsTheKindOfMessageAsWhichItWasSigned(t *testing.T) {
	a := team(t, "")
	k, _ := key(t, 1)
	give := func(signed, came command.Kind, age time.Duration) error {
		raw, err := command.SignAs(signed, k, "alice", nil, "session/s1", "close", []byte(`{}`), noon)
		if err != nil {
			t.Fatal(err)
		}
		_, err = command.Check(command.Received{Workflow: "session/s1", Name: "close", Kind: came, Raw: raw, Now: noon.Add(age), Waited: 24 * time.Hour}, a)
		return err
	}
	for _, signed := range []command.Kind{command.Update, command.Signal, command.Start} {
		for _, came := range []command.Kind{command.Update, command.Signal, command.Start} {
			if err := give(signed, came, time.Minute); (err == nil) != (signed == came) || err != nil && !errors.Is(err, command.ErrSignature) {
				t.Errorf("signed as %s, came as %s: %v", signed, came, err)
			}
		}
	}
	if err := give(command.Signal, command.Signal, 23*time.Hour); err != nil {
		t.Errorf("a signal that waited: %v", err)
	}
	if err := give("", command.Signal, time.Minute); err != nil {
		t.Errorf("a command of no kind: %v", err)
	}
	if err := give("", command.Signal, time.Hour); !errors.Is(err, command.ErrTime) {
		t.Errorf("a command of no kind that waited: %v", err)
	}
	raw, err := command.SignAs(command.Update, k, "alice", nil, "session/s1", "close", []byte(`{}`), noon)
	if err != nil {
		t.Fatal(err)
	}
	for what, forged := range map[string]string{"another kind": strings.Replace(string(raw), `"kind":"update"`, `"kind":"signal"`, 1), "no kind": strings.Replace(string(raw), `"kind":"update",`, "", 1)} {
		if _, err := command.Check(command.Received{Workflow: "session/s1", Name: "close", Kind: command.Signal, Raw: []byte(forged), Now: noon}, a); forged == string(raw) || !errors.Is(err, command.ErrSignature) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPlainCommandsNameTheirPrincipal(t *testing.T) {
	plain, auth, err := command.Plain(sign(t, 1, "alice", `{"id":"m","by":"bob"}`))
	if err != nil || string(plain) != `{"by":"alice","id":"m"}` || auth.Principal != "alice" {
		t.Errorf("%s, %v", plain, err)
	}
	plain, auth, err = command.Plain([]byte(`{"by": "bob"}`))
	if err != nil || string(plain) != `{"by": "bob"}` || auth != nil {
		t.Errorf("%s, %v", plain, err)
	}
}

func FuzzCheck(f *testing.F) {
	a := team(f, "")
	f.Add([]byte(sign(f, 1, "alice", `{"id":"m","n":[1,{"x":null}]}`)))
	f.Add([]byte(`{"auth":{"principal":"alice","at":"2026-05-04T12:00:00Z","nonce":"n","signature":"-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := command.Check(received(raw), a)
		if err != nil {
			return
		}
		// What counts has a signature over exactly what the receiver gets.
		again, err := command.Canonical(s.Args)
		if err != nil || !bytes.Equal(again, s.Args) || s.Principal != "alice" && s.Principal != "bob" {
			t.Fatalf("%s by %s: %v", s.Args, s.Principal, err)
		}
		sum := sha256.Sum256(s.Args)
		if !bytes.Contains(s.Message, []byte(hex.EncodeToString(sum[:]))) {
			t.Fatalf("%s is not over %s", s.Message, s.Args)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	a := team(b, "")
	raw := sign(b, 1, "alice", `{"id":"m","text":"go"}`)
	for b.Loop() {
		if _, err := command.Check(received(raw), a); err != nil {
			b.Fatal(err)
		}
	}
}
