package login

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/sshsig"
)

// Namespace is the SSH namespace of proofs. So a signature for a command or a decision is no
// proof.
const Namespace = "fairlead-login@fairlead.dev"

// message is what a proof signs: the SHA-256 of the ID token, in hex.
func message(idToken string) []byte {
	sum := sha256.Sum256([]byte(idToken))
	return []byte(hex.EncodeToString(sum[:]))
}

// Prove shows that the caller has a key for which it asks a certificate. To do so by hand:
//
//	printf %s "$token" | sha256sum | cut -c1-64 | tr -d '\n' | ssh-keygen -Y sign -n fairlead-login@fairlead.dev -f KEY
func Prove(key sshsig.Signer, idToken string) (proof string, err error) {
	armored, err := sshsig.Sign(key, Namespace, message(idToken))
	return string(armored), err
}

const maxPublicKey = 4 << 10 // bytes

// proven returns the key of a request, whose proof holds.
func proven(r Request) (ssh.PublicKey, error) {
	if len(r.PublicKey) > maxPublicKey {
		return nil, fmt.Errorf("%w: the public key has %d bytes, and %d at most are allowed", ErrBadInput, len(r.PublicKey), maxPublicKey)
	}
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(r.PublicKey))
	switch {
	case err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0:
		return nil, fmt.Errorf("%w: public_key is not one public key, as a .pub file has it", ErrBadInput)
	case key.Type() != ssh.KeyAlgoED25519:
		return nil, fmt.Errorf("%w: the public key is of type %s, and only %s gets a certificate", ErrBadInput, key.Type(), ssh.KeyAlgoED25519)
	}
	own, err := sshsig.ParseAllowed([]byte("caller " + string(ssh.MarshalAuthorizedKey(key))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadInput, err)
	}
	if _, err := sshsig.Verify([]byte(r.Proof), Namespace, message(r.IDToken), own, timeless); err != nil {
		return nil, fmt.Errorf("%w: the proof does not show that the caller has the key: %w", ErrBadInput, err)
	}
	return key, nil
}
