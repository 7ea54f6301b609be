// Package softkey is an authenticator of WebAuthn for tests: it makes passkeys and assertions as a
// browser hands them to a page, and wrong ones where a test asks for them.
package softkey

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Key is a passkey with its secret.
type Key struct {
	// RPID, Origin and Flags are what assertions say. Counter counts assertions, if it is not 0.
	RPID, Origin string
	Flags        byte
	Counter      uint32
	// Cross says in assertions that a page of another site asked.
	Cross bool

	id     []byte
	secret *ecdsa.PrivateKey
}

// Flags of an authenticator.
const (
	Present  byte = 1 << 0
	Verified byte = 1 << 2
	attested byte = 1 << 6
)

// New makes a passkey of a site.
func New(rpID, origin string) *Key {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the system has no randomness
	}
	k := &Key{RPID: rpID, Origin: origin, Flags: Present | Verified, id: make([]byte, 32), secret: secret}
	rand.Read(k.id)
	return k
}

func text(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// ID is that of the credential.
func (k *Key) ID() string { return text(k.id) }

func (k *Key) point() (x, y []byte) {
	raw, err := k.secret.PublicKey.Bytes() // 4, x, y
	if err != nil {
		panic(err)
	}
	return raw[1:33], raw[33:]
}

// cose is the public key: {1: 2, 3: -7, -1: 1, -2: x, -3: y}.
func (k *Key) cose() []byte {
	x, y := k.point()
	out := []byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 32}
	out = append(out, x...)
	out = append(out, 0x22, 0x58, 32)
	return append(out, y...)
}

// PublicKey is the public key in base64url.
func (k *Key) PublicKey() string { return text(k.cose()) }

func (k *Key) data(flags byte) []byte {
	hash := sha256.Sum256([]byte(k.RPID))
	return binary.BigEndian.AppendUint32(append(hash[:], flags), k.Counter)
}

func (k *Key) client(kind string, challenge []byte) []byte {
	raw, err := json.Marshal(map[string]any{"type": kind, "challenge": text(challenge), "origin": k.Origin, "crossOrigin": k.Cross})
	if err != nil {
		panic(err) // not reached
	}
	return raw
}

// Created is the JSON of the new credential, as the console's script sends it.
func (k *Key) Created(challenge []byte) []byte {
	data := append(k.data(k.Flags|attested), make([]byte, 16)...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(k.id)))
	data = append(append(data, k.id...), k.cose()...)
	// {"fmt": "none", "attStmt": {}, "authData": data}
	object := []byte{0xa3, 0x63, 'f', 'm', 't', 0x64, 'n', 'o', 'n', 'e', 0x67, 'a', 't', 't', 'S', 't', 'm', 't', 0xa0, 0x68, 'a', 'u', 't', 'h', 'D', 'a', 't', 'a', 0x59}
	object = append(binary.BigEndian.AppendUint16(object, uint16(len(data))), data...)
	raw, err := json.Marshal(map[string]any{"id": k.ID(), "rawId": k.ID(), "type": "public-key", "clientExtensionResults": map[string]any{},
		"response": map[string]any{"clientDataJSON": text(k.client("webauthn.create", challenge)), "attestationObject": text(object), "transports": []string{"internal"}}})
	if err != nil {
		panic(err) // not reached
	}
	return raw
}

// Assert signs a challenge.
func (k *Key) Assert(challenge []byte) protocol.Passkey {
	return k.AssertAs("webauthn.get", challenge)
}

// AssertAs signs a challenge as another kind of client data.
func (k *Key) AssertAs(kind string, challenge []byte) protocol.Passkey {
	if k.Counter > 0 {
		k.Counter++
	}
	data, client := k.data(k.Flags), k.client(kind, challenge)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, k.secret, digest[:])
	if err != nil {
		panic(err)
	}
	return protocol.Passkey{ID: k.ID(), ClientData: text(client), AuthenticatorData: text(data), Signature: text(signature)}
}
