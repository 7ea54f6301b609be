package login

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
)

func TestAnIssuedCertificateCountsForItsPrincipalAndItsTime(t *testing.T) {
	key := func(seed byte) ssh.Signer {
		s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	ca, program := key(31), key(32)
	cert, err := Issue(ca, program.PublicKey(), "token:ci", []string{"bots"}, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, program)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := command.Sign(signer, "token:ci", "session/s1", "message", []byte(`{"text":"x"}`), now)
	if err != nil {
		t.Fatal(err)
	}
	file := func(names string) *access.Access {
		a, err := access.Parse([]byte("authorities: [{key: \"" + string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(ca.PublicKey()))) + "\", names: [\"" + names + "\"]}]\n" +
			"bindings: [{name: all, roles: [operator], to: [everybody]}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	got, err := command.Check(command.Received{Workflow: "session/s1", Name: "message", Raw: raw, Now: now}, file("token:*"))
	if err != nil || got.Principal != "token:ci" || !slices.Equal(got.Groups, []string{"bots"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := command.Check(command.Received{Workflow: "session/s1", Name: "message", Raw: raw, Now: now, Waited: 24 * time.Hour}, file("*@example.com")); err == nil {
		t.Error("an authority that may not name tokens")
	}
	if _, err := command.Check(command.Received{Workflow: "session/s1", Name: "message", Raw: raw, Now: now.Add(time.Hour + time.Second), Waited: 24 * time.Hour}, file("token:*")); err == nil {
		t.Error("after its time")
	}
	again, err := Issue(ca, program.PublicKey(), "token:ci", nil, time.Hour, now)
	if err != nil || again.KeyId == cert.KeyId {
		t.Errorf("two certificates have the id %s, %v", again.KeyId, err)
	}
}
