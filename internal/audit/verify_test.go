package audit_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/sshsig"
)

// recorded returns a record of a command that was signed at noon, and then changed.
func recorded(t *testing.T, change func(*audit.Record)) audit.Record {
	t.Helper()
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := command.Sign(key, "ann", "session/s1", "interrupt", []byte(`{}`), noon)
	if err != nil {
		t.Fatal(err)
	}
	r := audit.OfCommand("session/s1", "interrupt", "session.interrupt", raw, noon)
	r.Principal, r.Outcome = "ann", audit.Accepted
	if change != nil {
		change(&r)
	}
	return r
}

// verifyAll verifies a chain of records whose digests are right.
func verifyAll(t *testing.T, records ...audit.Record) *audit.Fault {
	t.Helper()
	c := audit.Chain{Entity: "session/s1/run-1"}
	for _, r := range records {
		c.Add(r)
	}
	return verify(t, c, c.Waiting)
}

func TestASignatureProvesNoOtherCommand(t *testing.T) {
	at := func(d time.Duration) func(*audit.Record) {
		return func(r *audit.Record) { r.At = audit.TimeText(noon.Add(d)) }
	}
	for what, c := range map[string]struct {
		change func(*audit.Record)
		why    string // "" if it holds
	}{
		"what was signed":                  {nil, ""},
		"another verb":                     {func(r *audit.Record) { r.Verb = "session.close" }, "none of"},
		"a verb of no command":             {func(r *audit.Record) { r.Verb = "seed.export" }, "none of"},
		"another object":                   {func(r *audit.Record) { r.Object = "session/s2" }, "not for its object"},
		"a day before":                     {at(-24 * time.Hour), "could not count"},
		"two days after":                   {at(48 * time.Hour), "could not count"},
		"after no worker was up for a day": {at(24 * time.Hour), ""},
		"on a clock that is slow":          {at(-5 * time.Minute), ""},
	} {
		f := verifyAll(t, recorded(t, c.change))
		if (f == nil) != (c.why == "") || f != nil && !strings.Contains(f.Reason, c.why) {
			t.Errorf("%s: %v, want a fault with %q", what, f, c.why)
		}
	}
}

func TestARecordWithoutItsSignatureIsNotProven(t *testing.T) {
	cut := func(r *audit.Record) { r.Evidence.Signature = strings.Repeat("s", audit.MaxLine) }
	f := verifyAll(t, recorded(t, cut), recorded(t, nil))
	if f == nil || f.Seq != 1 || !strings.Contains(f.Reason, "nothing proves it") {
		t.Errorf("a signature that was cut: %v", f)
	}
	f = verifyAll(t, recorded(t, cut), recorded(t, func(r *audit.Record) { r.Verb = "session.close" }))
	if f == nil || f.Seq != 2 {
		t.Errorf("a record that does not hold, after one that was cut: %v", f)
	}
	f = verifyAll(t, recorded(t, func(r *audit.Record) { cut(r); r.Principal = "bob" }))
	if f == nil || !strings.Contains(f.Reason, "not its principal") {
		t.Errorf("a record of another principal that was cut: %v", f)
	}
}

// A record is proved by whose key it is, and not by any key.
func TestAnApproversSignatureProvesNoOtherDecision(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	message, err := sshsig.Decision{Session: "s1", Approval: "s1.1", AskedAt: "2026-05-04T12:00:00Z", Digest: "d", Outcome: "accept", Scope: "once"}.Message()
	if err != nil {
		t.Fatal(err)
	}
	armored, err := sshsig.Sign(key, sshsig.Namespace, message)
	if err != nil {
		t.Fatal(err)
	}
	good := audit.Decision{Approval: "s1.1", Digest: "d", Outcome: "accept", Message: string(message), Signature: string(armored)}
	for name, c := range map[string]struct {
		change func(*audit.Decision)
		says   string
	}{
		"as it was":         {func(*audit.Decision) {}, ""},
		"without one":       {func(d *audit.Decision) { d.Message, d.Signature = "", "" }, ""},
		"too long":          {func(d *audit.Decision) { d.Signature = strings.Repeat("x", 9<<10) }, ""},
		"another outcome":   {func(d *audit.Decision) { d.Outcome = "decline" }, "another decision"},
		"another approval":  {func(d *audit.Decision) { d.Approval = "s1.2" }, "another decision"},
		"another scope":     {func(d *audit.Decision) { d.Scope = "session" }, "another decision"},
		"another message":   {func(d *audit.Decision) { d.Message = strings.Replace(d.Message, `"s1"`, `"s2"`, 1) }, "not of its message"},
		"no message":        {func(d *audit.Decision) { d.Message = "" }, "cannot be read"},
		"another signature": {func(d *audit.Decision) { d.Signature = "mine" }, "not of its message"},
	} {
		d := good
		c.change(&d)
		chain := audit.Chain{Entity: "session/s1/run"}
		chain.Add(audit.Record{At: audit.TimeText(noon), Source: audit.Unix, Verb: "approval.decide", Outcome: audit.Accepted, Decision: &d})
		switch fault := verify(t, chain, chain.Waiting); {
		case c.says == "" && fault != nil:
			t.Errorf("%s: %v", name, fault)
		case c.says != "" && (fault == nil || !strings.Contains(fault.Reason, c.says)):
			t.Errorf("%s: %v, which does not say %q", name, fault, c.says)
		}
	}
}

func TestARecordIsProvedByTheKeysThatCount(t *testing.T) {
	signer := func() (ssh.Signer, string) {
		_, secret, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		key, err := ssh.NewSignerFromKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		return key, string(ssh.MarshalAuthorizedKey(key.PublicKey()))
	}
	allow := func(text string) *sshsig.Allowed {
		a, err := sshsig.ParseAllowed([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ann, annLine := signer()
	bob, bobLine := signer()
	worker, workerLine := signer()
	ca, caLine := signer()
	login, _ := signer()
	cert := &ssh.Certificate{Key: login.PublicKey(), CertType: ssh.UserCert, KeyId: "login-7", ValidPrincipals: []string{"ann"},
		ValidAfter: uint64(noon.Add(-time.Hour).Unix()), ValidBefore: uint64(noon.Add(time.Hour).Unix())}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	certified, err := ssh.NewCertSigner(cert, login)
	if err != nil {
		t.Fatal(err)
	}
	of := func(key ssh.Signer, at time.Time, change func(*audit.Record)) audit.Record {
		raw, err := command.Sign(key, "ann", "session/s1", "interrupt", []byte(`{}`), at)
		if err != nil {
			t.Fatal(err)
		}
		r := audit.OfCommand("session/s1", "interrupt", "session.interrupt", raw, at)
		r.Entity, r.Seq, r.Principal, r.Outcome = "session/s1/run-1", 7, "ann", audit.Accepted
		if change != nil {
			change(&r)
		}
		return r
	}
	people := "ann " + annLine + "bob " + bobLine + "ann cert-authority " + caLine
	none := func(ssh.PublicKey) string { return "" }
	for what, c := range map[string]struct {
		r             audit.Record
		people        string
		revoked       func(ssh.PublicKey) string
		proof, reason string
	}{
		"ann's key":                       {of(ann, noon, nil), people, none, audit.Proved, "signed by ann"},
		"a key that is not hers":          {of(bob, noon, nil), people, none, audit.Unproved, "the key of bob signed it"},
		"a key that nobody has any more":  {of(ann, noon, nil), "bob " + bobLine, none, audit.Unproved, "not that of an allowed signer"},
		"a revoked key":                   {of(ann, noon, nil), people, func(ssh.PublicKey) string { return "key is revoked" }, audit.Unproved, "revoked"},
		"a worker, for ann":               {of(worker, noon, nil), people, none, audit.Proved, "signed for ann by the key of a worker"},
		"ann's certificate":               {of(certified, noon, nil), people, none, audit.Proved, "certificate \"login-7\""},
		"a certificate that had ended":    {of(certified, noon.Add(2*time.Hour), nil), people, none, audit.Unproved, "certificate"},
		"a certificate of another CA":     {of(certified, noon, nil), "ann " + annLine, none, audit.Unproved, ""},
		"another command":                 {of(ann, noon, func(r *audit.Record) { r.Verb = "session.close" }), people, none, audit.Unproved, "none of"},
		"a signature of something else":   {of(ann, noon, func(r *audit.Record) { r.Evidence.Args = strings.Repeat("0", 64) }), people, none, audit.Unproved, "digest"},
		"a refused command":               {of(bob, noon, func(r *audit.Record) { r.Outcome = audit.Refused }), people, none, audit.Chained, "refused"},
		"an unsigned command of a user's": {of(ann, noon, func(r *audit.Record) { r.Source = audit.Unix }), people, none, audit.Chained, "unix"},
		"a signature that was taken away": {of(ann, noon, func(r *audit.Record) { r.Evidence.Signature = "" }), people, none, audit.Unproved, "no signature"},
	} {
		p := c.r.Prove(allow(c.people), allow("worker-0 "+workerLine), c.revoked)
		if p.Proof != c.proof || !strings.Contains(p.Reason, c.reason) || p.Entity != c.r.Entity || p.Seq != 7 || p.Principal != "ann" || p.Verb != c.r.Verb {
			t.Errorf("%s: %+v, want %s, %q", what, p, c.proof, c.reason)
		}
		if p.Proof == audit.Proved && !strings.HasPrefix(p.Key, "SHA256:") {
			t.Errorf("%s: the key is %q", what, p.Key)
		}
	}
}
