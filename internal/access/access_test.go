package access_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/lab/touchkey"
	"fairlead.dev/fairlead/internal/sshsig"
)

// key returns a signer and its line in a .pub file, the same for the same seed.
func key(t *testing.T, seed byte) (ssh.Signer, string) {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+seed)), 32))))
	if err != nil {
		t.Fatal(err)
	}
	return s, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

func parse(t *testing.T, text string) *access.Access {
	t.Helper()
	a, err := access.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func team(t *testing.T) *access.Access {
	_, alice := key(t, 0)
	_, bob := key(t, 1)
	_, authority := key(t, 2)
	return parse(t, fmt.Sprintf(`
people:
  - {name: alice, keys: [%q]}
  - {name: bob, keys: [%q]}
  - {name: carol}
authorities:
  - {key: %q, names: ["*@example.com"]}
groups:
  - {name: ops, members: [alice, dora@example.com]}
bindings:
  - {name: everybody looks, roles: [viewer], to: [everybody]}
  - {name: ops run blue, roles: [operator], to: ["group:ops"], when: 'labels.get("team") == "blue" && host.name != "db-1"'}
  - {name: bob decides for others, roles: [approver], to: [bob, "group:leads"], when: 'owner != who'}
`, alice, bob, authority))
}

func TestOnlyABindingAllows(t *testing.T) {
	a := team(t)
	blue := access.Object{Session: "s", Labels: map[string]string{"team": "blue"}, Owner: "alice"}
	for _, c := range []struct {
		who    string
		groups []string
		verb   access.Verb
		object access.Object
		by     string // the binding, or empty
	}{
		{"carol", nil, access.SessionRead, blue, "everybody looks"},
		{"carol", nil, access.SessionMessage, blue, ""},
		{"alice", nil, access.SessionMessage, blue, "ops run blue"},
		{"dora@example.com", nil, access.SessionMessage, blue, "ops run blue"},
		{"eve@example.com", []string{"ops"}, access.SessionMessage, blue, "ops run blue"},
		{"alice", nil, access.SessionMessage, access.Object{Session: "s"}, ""},
		{"alice", nil, access.SessionMessage, access.Object{Labels: blue.Labels, Host: "db-1"}, ""},
		{"alice", nil, access.HostExec, access.Object{Host: "web-1", Labels: blue.Labels}, ""},
		{"alice", nil, access.ApprovalDecide, blue, ""},
		{"bob", nil, access.ApprovalDecide, blue, "bob decides for others"},
		{"bob", nil, access.ApprovalDecide, access.Object{Session: "s", Owner: "bob"}, ""},
		{"frank@example.com", []string{"leads"}, access.ApprovalDecide, blue, "bob decides for others"},
		{"alice", nil, "session.everything", blue, ""},
		{"", nil, access.SessionRead, blue, ""},
	} {
		got := a.Decide(access.Request{Who: c.who, Groups: c.groups, Verb: c.verb, Object: c.object})
		if got.Allowed != (c.by != "") || got.Binding != c.by || got.Allowed != (got.Reason == "") {
			t.Errorf("%s %v %s %+v: %+v, want by %q", c.who, c.groups, c.verb, c.object, got, c.by)
		}
	}
}

func TestARefusalSaysWhichBindingsWerePassedAndWhy(t *testing.T) {
	got := team(t).Decide(access.Request{Who: "alice", Verb: access.SessionMessage})
	if len(got.Passed) != 2 || got.Passed[0].Binding != "everybody looks" || !strings.Contains(got.Passed[0].Reason, "do not allow session.message") ||
		got.Passed[1].Binding != "ops run blue" || got.Passed[1].Line != 12 || !strings.Contains(got.Passed[1].Reason, `labels.get("team") == "blue"`) {
		t.Errorf("%+v", got)
	}
	if got := parse(t, "people: [{name: a}, {name: b}]\nbindings: [{name: x, roles: [admin], to: [a]}]").Decide(access.Request{Who: "b", Verb: access.SessionRead}); !strings.Contains(got.Reason, "no binding names b") {
		t.Errorf("%+v", got)
	}
}

// A condition that breaks at run time allows nothing.
func TestABrokenConditionAllowsNothing(t *testing.T) {
	a := parse(t, `
people: [{name: a}]
bindings:
  - {name: no such label, roles: [admin], to: [a], when: 'labels["team"] == "blue"'}
  - {name: too long, roles: [admin], to: [a], when: 'labels.all(x, labels.all(y, labels.all(z, x + y + z != "")))'}
`)
	labels := map[string]string{}
	for i := range 200 {
		labels[fmt.Sprint(i)] = "x"
	}
	got := a.Decide(access.Request{Who: "a", Verb: access.SessionRead, Object: access.Object{Labels: labels}})
	if got.Allowed || len(got.Passed) != 2 || !strings.Contains(got.Passed[0].Reason, "failed") || !strings.Contains(got.Passed[1].Reason, "cost") {
		t.Errorf("%+v", got)
	}
}

func TestEveryRoleReadsAndOnlyAdminDoesAll(t *testing.T) {
	for _, r := range access.Roles {
		for _, v := range []access.Verb{access.SessionRead, access.HostRead, access.SeedRead} {
			if !slices.Contains(r.Verbs(), v) {
				t.Errorf("%s lacks %s", r, v)
			}
		}
		if (len(r.Verbs()) == len(access.Verbs)) != (r == access.Admin) {
			t.Errorf("%s allows %v", r, r.Verbs())
		}
		if r != access.Admin && (slices.Contains(r.Verbs(), access.TokenWrite) || slices.Contains(r.Verbs(), access.AuditRead)) {
			t.Errorf("%s allows %v", r, r.Verbs())
		}
	}
	if got := access.Role("owner").Verbs(); got != nil {
		t.Errorf("an unknown role allows %v", got)
	}
}

func TestSignaturesOfRevokedKeysAndPeopleDoNotCount(t *testing.T) {
	sa, alice := key(t, 0)
	sb, bob := key(t, 1)
	sc, carol := key(t, 2)
	text := fmt.Sprintf("people: [{name: alice, keys: [%q]}, {name: bob, keys: [%q]}, {name: carol, keys: [%q]}]\nbindings: [{name: all, roles: [viewer], to: [everybody]}]\n", alice, bob, carol)
	text += fmt.Sprintf("revoked: {people: [bob], keys: [%q]}\n", ssh.FingerprintSHA256(sc.PublicKey()))
	a := parse(t, text)
	for name, c := range map[string]struct {
		signer ssh.Signer
		counts bool
	}{"alice": {sa, true}, "bob": {sb, false}, "carol": {sc, false}} {
		sig, err := sshsig.Sign(c.signer, sshsig.Namespace, []byte("words"))
		if err != nil {
			t.Fatal(err)
		}
		who, err := sshsig.Verify(sig, sshsig.Namespace, []byte("words"), a.Signers(), time.Now())
		if (err == nil) != c.counts || c.counts && who != name {
			t.Errorf("%s: %q, %v", name, who, err)
		}
	}
	certificate := func(of, by ssh.Signer, names ...string) ssh.PublicKey {
		cert := &ssh.Certificate{Key: of.PublicKey(), CertType: ssh.UserCert, KeyId: "id", ValidPrincipals: names, ValidBefore: ssh.CertTimeInfinity}
		if err := cert.SignCert(rand.Reader, by); err != nil {
			t.Fatal(err)
		}
		return cert
	}
	for what, c := range map[string]struct {
		key ssh.PublicKey
		why string
	}{
		"a key":                           {sa.PublicKey(), ""},
		"a revoked person's key":          {sb.PublicKey(), "bob is revoked"},
		"a revoked key":                   {sc.PublicKey(), "key SHA256:"},
		"a certificate":                   {certificate(sa, sa, "alice"), ""},
		"a revoked person's certificate":  {certificate(sa, sa, "bob"), "bob is revoked"},
		"a certificate of a revoked key":  {certificate(sc, sa, "x"), "key SHA256:"},
		"a certificate of a person's key": {certificate(sb, sa, "x"), "bob is revoked"},
		"a certificate by a revoked key":  {certificate(sa, sc, "x"), "which signed certificate"},
		"a certificate by another key":    {certificate(sa, sb, "x"), ""},
	} {
		if got := a.Revoked(c.key); (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: %q, want %q", what, got, c.why)
		}
	}
	if got := a.Decide(access.Request{Who: "bob", Verb: access.SessionRead}); got.Allowed || !strings.Contains(got.Reason, "revoked") {
		t.Errorf("bob: %+v", got)
	}
}

func TestEveryMistakeIsToldWithItsLine(t *testing.T) {
	_, alice := key(t, 0)
	_, err := access.Parse([]byte(fmt.Sprintf(`people:
  - {name: alice, keys: [%q]}
  - {name: alice, keys: ["ssh-ed25519 AAAA"]}
  - {name: everybody}
  - {name: mallory, keys: [%q]}
groups:
  - {name: ops, members: [nobody]}
bindings:
  - {name: one, roles: [owner], to: [alice]}
  - {name: one, roles: [], to: ["group:none"], when: "who"}
  - {name: "", roles: [viewer], to: [], when: "whom == who"}
revoked: {keys: [abc]}
authority: x
`, alice, alice)))
	var broken *access.BrokenError
	if !errors.As(err, &broken) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{
		"line 3: people[1].name: alice is named before", "line 3: people[1].keys[0]: not one public key", "line 4: people[2].name:",
		"line 5: people[3].keys[0]: key SHA256:", "line 7: groups[0].members[0]:", "line 9: bindings[0].roles[0]:", "line 10: bindings[1].name:",
		"line 10: bindings[1].roles:", "line 10: bindings[1].to[0]:", "line 10: bindings[1].when: it is of type string",
		"line 11: bindings[2].name:", "line 11: bindings[2].to:", "line 11: bindings[2].when:", "line 12: revoked.keys[0]:", "line 13: authority: no such key",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not told: %s\nin %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "AAAA") {
		t.Errorf("a value is told: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("people: [{name: a, keys: [\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh\"]}]\nbindings: [{name: x, roles: [admin], to: [a], when: 'who == \"a\"'}]\n"))
	f.Add([]byte("bindings: [{name: x, roles: [viewer], to: [everybody]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := access.Parse(data)
		if err != nil {
			if _, ok := errors.AsType[*access.BrokenError](err); !ok || a != nil {
				t.Fatalf("%v, %v", a, err)
			}
			return
		}
		for _, v := range access.Verbs {
			if got := a.Decide(access.Request{Who: "nobody-of-the-file", Verb: v}); got.Allowed && got.Binding == "" {
				t.Fatalf("allowed by nothing: %+v", got)
			}
		}
	})
}

func TestAConditionOnLabelsThatAreNotKnownDoesNotHold(t *testing.T) {
	a := parse(t, `people: [{name: ann}, {name: bob}]
bindings:
  - {name: not prod, roles: [host-operator], to: [ann], when: 'host.labels.get("env") != "prod"'}
  - {name: by name, roles: [host-operator], to: [bob], when: 'host.name == "web-1" || host.labels.get("env") == "dev"'}
`)
	for _, c := range []struct {
		who, host string
		labels    map[string]string
		want      bool
	}{
		{"ann", "db-1", nil, false},
		{"ann", "db-1", map[string]string{}, true},
		{"ann", "db-1", map[string]string{"env": "prod"}, false},
		{"bob", "web-1", nil, true}, // whatever its labels
		{"bob", "db-1", nil, false},
		{"bob", "db-1", map[string]string{"env": "dev"}, true},
	} {
		got := a.Decide(access.Request{Who: c.who, Verb: access.HostExec, Object: access.Object{Host: c.host, HostLabels: c.labels}})
		if got.Allowed != c.want {
			t.Errorf("%s on %s with labels %v: %+v, want %v", c.who, c.host, c.labels, got, c.want)
		}
		if c.labels == nil && !c.want && !strings.Contains(got.Passed[0].Reason, "not known") {
			t.Errorf("it is not said that the labels are not known: %+v", got.Passed)
		}
	}
}

func TestAFileInWhichNobodyIsAdminIsToldAsAWarning(t *testing.T) {
	_, alice := key(t, 0)
	_, ca := key(t, 1)
	const told = "nobody is admin"
	for _, c := range []struct {
		name, text string
		warned     bool
	}{
		{"nobody has the role", `bindings: [{name: a, roles: [operator, approver], to: [alice]}]`, true},
		{"alice has it", `bindings: [{name: a, roles: [admin], to: [alice]}]`, false},
		{"under a condition", `bindings: [{name: a, roles: [admin], to: [alice], when: 'tenant == "x"'}]`, false},
		{"alice is revoked", "bindings: [{name: a, roles: [admin], to: [alice]}]\nrevoked: {people: [alice]}", true},
		{"who has it has no key", `bindings: [{name: a, roles: [admin], to: [bob]}]`, true},
		{"an empty group has it", "groups: [{name: g}]\nbindings: [{name: a, roles: [admin], to: ['group:g']}]", true},
		{"a group with alice has it", "groups: [{name: g, members: [alice]}]\nbindings: [{name: a, roles: [admin], to: ['group:g']}]", false},
		{"a token has it", `bindings: [{name: a, roles: [admin], to: ['token:t']}]`, true},
		{"a group that certificates may name has it", fmt.Sprintf("authorities: [{key: %q, names: ['*@x']}]\nbindings: [{name: a, roles: [admin], to: ['group:g']}]", ca), false},
		{"somebody with a certificate has it", fmt.Sprintf("authorities: [{key: %q, names: ['*@x']}]\nbindings: [{name: a, roles: [admin], to: ['c@x']}]", ca), false},
	} {
		a := parse(t, fmt.Sprintf("people: [{name: alice, keys: [%q]}, {name: bob}]\n%s\n", alice, c.text))
		if got := strings.Contains(strings.Join(a.Warnings, "\n"), told); got != c.warned {
			t.Errorf("%s: warnings %q", c.name, a.Warnings)
		}
	}
}

// A mistyped name revokes nothing, and nobody notices.
func TestARevocationOfWhatNobodyCanHaveIsToldAsAWarning(t *testing.T) {
	_, alice := key(t, 0)
	_, ca := key(t, 1)
	authority := fmt.Sprintf("authorities: [{key: %q, names: ['*@x']}]\n", ca)
	for _, c := range []struct{ name, text, told string }{
		{"a person", "revoked: {people: [alice]}", ""},
		{"a token", `revoked: {people: ["token:ci"]}`, ""},
		{"a mistyped person", "revoked: {people: [alice, allice]}", `revoked.people[1]: "allice" is not under people`},
		{"a name that an authority may give", authority + "revoked: {people: [c@x]}", ""},
		{"a name that no authority may give", authority + "revoked: {people: [c@y]}", `revoked.people[0]: "c@y"`},
		{"a certificate", authority + "revoked: {certificates: [login-1]}", ""},
		{"a certificate without authorities", "revoked: {certificates: [login-1]}", "revoked.certificates[0]: no certificate counts"},
		{"a fingerprint", authority + "revoked: {certificates: [a, 'SHA256:x']}", "revoked.certificates[1]: \"SHA256:x\" is a fingerprint"},
		{"an id with spaces around it", authority + "revoked: {certificates: ['a ']}", "revoked.certificates[0]: \"a \" begins or ends with a space"},
		{"an empty id", authority + "revoked: {certificates: ['']}", "revoked.certificates[0]: an empty id"},
		{"an id with a wildcard", authority + "revoked: {certificates: ['login-*']}", "revoked.certificates[0]: \"login-*\" has a wildcard"},
	} {
		a := parse(t, fmt.Sprintf("people: [{name: alice, keys: [%q]}, {name: bob, keys: []}]\nbindings: [{name: a, roles: [admin], to: [everybody], when: 'tenant == \"x\"'}]\n%s\n", alice, c.text))
		if got := strings.Join(a.Warnings, "\n"); c.told == "" && got != "" || !strings.Contains(got, c.told) || len(a.Warnings) > 1 {
			t.Errorf("%s: warnings %q, want %q", c.name, a.Warnings, c.told)
		}
	}
}

func TestKeysOfWorkersAreKnown(t *testing.T) {
	_, person := key(t, 0)
	_, line := key(t, 1)
	revoked, ended := key(t, 2)
	a := parse(t, fmt.Sprintf("people: [{name: alice, keys: [%q]}]\nworkers: [%q, %q]\nbindings: [{name: a, roles: [admin], to: [alice]}]\nrevoked: {keys: [%q]}\n",
		person, line, ended, ssh.FingerprintSHA256(revoked.PublicKey())))
	block, err := ssh.MarshalPrivateKey(ed25519.NewKeyFromSeed([]byte(strings.Repeat("b", 32))), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, line string
		known      bool
	}{{line + " a comment\n", line, true}, {string(pem.EncodeToMemory(block)), line, true}, {person, person, false}, {ended, ended, false}} {
		if got, known, err := a.KnowsWorker([]byte(c.file)); err != nil || got != c.line || known != c.known {
			t.Errorf("%.40q: %s, %t, %v", c.file, got, known, err)
		}
	}
	if _, _, err := a.KnowsWorker([]byte("no key")); err == nil {
		t.Error("what is no key is taken for one")
	}
}

func TestAFIDOKeyOfAPersonCountsIfItWasTouched(t *testing.T) {
	k, err := touchkey.New(touchkey.Touched)
	if err != nil {
		t.Fatal(err)
	}
	a := parse(t, fmt.Sprintf("people: [{name: alice, keys: [%q]}]\nbindings: [{name: rules, roles: [admin], to: [alice]}]", k.Line()+" alice@laptop"))
	if len(a.Warnings) > 0 {
		t.Errorf("the file is warned of: %q", a.Warnings)
	}
	for flags, want := range map[byte]error{touchkey.Touched: nil, touchkey.Touched | touchkey.Verified: nil, 0: sshsig.ErrWrong, touchkey.Verified: sshsig.ErrWrong} {
		k.Flags = flags
		armored, err := sshsig.Sign(k, "test@fairlead.dev", []byte("do it"))
		if err != nil {
			t.Fatal(err)
		}
		if who, err := sshsig.Verify(armored, "test@fairlead.dev", []byte("do it"), a.Signers(), time.Now()); !errors.Is(err, want) || (who == "alice") != (want == nil) {
			t.Errorf("flags %d: %q, %v, want %v", flags, who, err, want)
		}
	}
}

func TestAFileOfWhatIsRevokedGivesNobodyARole(t *testing.T) {
	line := `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGphYCZg2I1ZbrWa4yHyyodsuxrEAUtjz8Dl9ksP2Fz/`
	a, err := access.ParseRevoked([]byte("people: [{name: bob, keys: ['" + line + "']}]\nrevoked: {people: [bob, eve]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || a.Revoked(key) != "bob is revoked" || len(a.Warnings) != 0 {
		t.Errorf("%v, %q, %q", err, a.Revoked(key), a.Warnings)
	}
	if got := a.Decide(access.Request{Who: "bob", Verb: access.SessionRead}); got.Allowed {
		t.Errorf("%+v", got)
	}
	if a, err := access.ParseRevoked(nil); err != nil || a.Revoked(key) != "" {
		t.Errorf("an empty file: %v", err)
	}
	for _, bad := range []string{"bindings: []\n", "revoked: {keys: [x]}\n", "revoked: {people: ['a b']}\n", "people: [{name: a, keys: [x]}]\n", "[", strings.Repeat("x", access.MaxFile+1)} {
		if _, err := access.ParseRevoked([]byte(bad)); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
}
