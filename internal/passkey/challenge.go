package passkey

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/protocol"
)

// Domain is the beginning of what a challenge digests, so that a challenge for a decision is none
// for anything else.
const Domain = "fairlead-passkey-decision-v1@fairlead.dev\n"

// Challenge returns the challenge for a decision: the SHA-256 of [Domain] and the message that an
// approver would sign with an SSH key (see sshsig.Decision). The message names the session, the
// approval, the time and the digest of the request, and the outcome with its scope and payload.
func Challenge(message []byte) []byte {
	h := sha256.New()
	h.Write([]byte(Domain))
	h.Write(message)
	return h.Sum(nil)
}

// Bounds of an assertion, in bytes of its base64url fields.
const (
	maxID        = 1400 // of a credential, which has 1023 bytes at most
	maxClient    = 8 << 10
	maxData      = 8 << 10
	maxSignature = 4 << 10
	maxPublic    = 4 << 10
)

// Bounded refuses an assertion that is too large.
func Bounded(p protocol.Passkey) error {
	for _, f := range []struct {
		name, is string
		max      int
	}{{"id", p.ID, maxID}, {"client_data", p.ClientData, maxClient}, {"authenticator_data", p.AuthenticatorData, maxData}, {"signature", p.Signature, maxSignature}, {"public_key", p.PublicKey, maxPublic}} {
		if len(f.is) > f.max {
			return fmt.Errorf("%w: its field %s has %d bytes, and %d at most are allowed", ErrBad, f.name, len(f.is), f.max)
		}
	}
	if p.ID == "" || p.ClientData == "" || p.AuthenticatorData == "" || p.Signature == "" {
		return fmt.Errorf("%w: it needs id, client_data, authenticator_data and signature, in base64url", ErrBad)
	}
	return nil
}

// Of returns an error if an assertion is not about the decision of a message. It verifies nothing
// else, so its result is the same in each replay.
func Of(p protocol.Passkey, message []byte) error {
	if err := Bounded(p); err != nil {
		return err
	}
	challenge, err := challengeOf(p)
	if err != nil {
		return err
	}
	if challenge != base64.RawURLEncoding.EncodeToString(Challenge(message)) {
		return fmt.Errorf("%w: the passkey signed another decision, or this decision on another request: look at the approval again", ErrBad)
	}
	return nil
}

// challengeOf returns the challenge that an assertion names.
func challengeOf(p protocol.Passkey) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(p.ClientData)
	if err != nil {
		return "", fmt.Errorf("%w: client_data is not base64url", ErrBad)
	}
	var client struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal(raw, &client); err != nil {
		return "", fmt.Errorf("%w: client_data is not JSON", ErrBad)
	}
	if client.Type != "webauthn.get" {
		return "", fmt.Errorf("%w: it is of type %.40q and not an assertion", ErrBad, client.Type)
	}
	return client.Challenge, nil
}

// Reasons why a passkey does not count.
var (
	ErrBad     = errors.New("the passkey's assertion does not count")
	ErrNone    = errors.New("there is no such passkey")
	ErrRemoved = errors.New("the passkey was removed")
	ErrUnknown = errors.New("the passkeys cannot be read")
)
