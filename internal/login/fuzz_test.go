package login

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/sshsig"
)

func fixedKey(t testing.TB, seed byte) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A proof counts for the key and the token for which it was made only.
func FuzzProven(f *testing.F) {
	const token = "e30.e30.sig"
	key := fixedKey(f, 41)
	proof, err := Prove(key, token)
	if err != nil {
		f.Fatal(err)
	}
	line := string(ssh.MarshalAuthorizedKey(key.PublicKey()))
	f.Add(token, line, proof)
	f.Add(token+"x", line, proof)
	f.Add(token, string(ssh.MarshalAuthorizedKey(fixedKey(f, 42).PublicKey())), proof)
	f.Add("", "restrict "+line, strings.ReplaceAll(proof, "\n", "\r\n"))
	f.Add(token, line+line, "-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----")
	f.Fuzz(func(t *testing.T, idToken, public, proof string) {
		got, err := proven(Request{IDToken: idToken, PublicKey: public, Proof: proof})
		if err == nil && (idToken != token || !bytes.Equal(got.Marshal(), key.PublicKey().Marshal())) {
			t.Errorf("nobody proved that they have %s for the token %q", ssh.FingerprintSHA256(got), idToken)
		}
	})
}

// A certificate counts only as the authority signed it.
func FuzzCertificate(f *testing.F) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	ca, key, message := fixedKey(f, 43), fixedKey(f, 44), []byte("what is signed")
	// The same in each process of the fuzzer.
	cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.UserCert, KeyId: "dora@example.com/1", ValidPrincipals: []string{"dora@example.com"},
		ValidAfter: uint64(now.Unix()), ValidBefore: uint64(now.Add(Lifetime).Unix())}
	if err := errors.Join(access.SetGroups(cert, []string{"ops"}), cert.SignCert(bytes.NewReader(make([]byte, 64)), ca)); err != nil {
		f.Fatal(err)
	}
	forged, err := Issue(key, key.PublicKey(), "dora@example.com", nil, Lifetime, now)
	if err != nil {
		f.Fatal(err)
	}
	armored, err := sshsig.Sign(key, Namespace, message)
	if err != nil {
		f.Fatal(err)
	}
	a, err := access.Parse([]byte("authorities: [{key: '" + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(ca.PublicKey()))) +
		"', names: ['*@example.com']}]\nbindings: [{name: all, roles: [viewer], to: [everybody]}]\n"))
	if err != nil {
		f.Fatal(err)
	}
	line := ssh.MarshalAuthorizedKey(cert)
	if who, err := sshsig.VerifyCertified(armored, line, Namespace, message, a.Signers(), now); err != nil || who != "dora@example.com" {
		f.Fatalf("%q, %v", who, err)
	}
	f.Add(line, armored)
	f.Add(ssh.MarshalAuthorizedKey(forged), armored)
	f.Add(ssh.MarshalAuthorizedKey(key.PublicKey()), armored)
	f.Add([]byte("ssh-ed25519-cert-v01@openssh.com AAAA"), []byte(nil))
	f.Fuzz(func(t *testing.T, line, armored []byte) {
		who, err := sshsig.VerifyCertified(armored, line, Namespace, message, a.Signers(), now)
		if err != nil {
			return
		}
		read, err := sshsig.KeyOf(armored, line)
		if err != nil || who != "dora@example.com" || !bytes.Equal(read.Marshal(), cert.Marshal()) {
			t.Errorf("%q counts as %q: %v", line, who, err)
		}
	})
}

// Whatever an issuer claims of a person, the name is one that the access file could have.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"email":"dora@example.com","email_verified":true,"groups":["ops","Domain Users"]}`))
	f.Add([]byte(`{"email":"dora@example.com","email_verified":"true","groups":"ops"}`))
	f.Add([]byte(`{"email":"worker","email_verified":true}`))
	f.Add([]byte(`{"email":"a\nb","email_verified":true,"groups":[1]}`))
	f.Add([]byte(`{"email":"d","email_verified":true,"_claim_names":{"groups":"src1"}}`))
	v := NewVerifier(Settings{Issuer: "https://id.example.com"}, Claims{}, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		var claims map[string]any
		if json.Unmarshal(data, &claims) != nil {
			return
		}
		p, err := v.person(claims)
		if err != nil {
			if p.Principal != "" || p.Groups != nil {
				t.Errorf("an error with %+v", p)
			}
			return
		}
		if access.CheckName(p.Principal) != nil || p.Principal == access.Worker || claims["email"] != p.Principal || !isTrue(claims["email_verified"]) {
			t.Errorf("%s is %+v", data, p)
		}
	})
}
