package passkey

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	webauthn "github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Key is the public part of a passkey.
type Key struct {
	ID         string   `json:"id"`         // of the credential, in base64url
	PublicKey  string   `json:"public_key"` // COSE, in base64url
	Principal  string   `json:"principal"`  // whose it is
	Name       string   `json:"name"`
	Transports []string `json:"transports,omitempty"`
	// Synced says that the passkey may be on several devices of the person.
	Synced  bool      `json:"synced,omitempty"`
	Counter uint32    `json:"counter,omitempty"` // at its registration
	AddedAt time.Time `json:"added_at"`
	Site

	RemovedAt time.Time `json:"removed_at,omitzero"`
	RemovedBy string    `json:"removed_by,omitempty"`
}

// algorithms are those of the keys that may be registered, the preferred first.
var algorithms = []webauthncose.COSEAlgorithmIdentifier{webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256}

// Algorithms are the COSE numbers of the algorithms of keys.
func Algorithms() (all []int) {
	for _, a := range algorithms {
		all = append(all, int(a))
	}
	return all
}

// maxCreated bounds the JSON of a new credential, in bytes.
const maxCreated = 64 << 10

// Created reads the JSON of a new credential (PublicKeyCredential.toJSON), whose challenge was made
// for the person. The authenticator must have verified the person.
func Created(raw, challenge []byte, at Site) (Key, error) {
	if len(raw) > maxCreated {
		return Key{}, fmt.Errorf("%w: it has %d bytes, and %d at most are allowed", ErrBad, len(raw), maxCreated)
	}
	c, err := webauthn.ParseCredentialCreationResponseBytes(raw)
	if err != nil {
		return Key{}, fmt.Errorf("%w: it is not a new credential: %s", ErrBad, told(err))
	}
	var may []webauthn.CredentialParameter
	for _, a := range algorithms {
		may = append(may, webauthn.CredentialParameter{Type: webauthn.PublicKeyCredentialType, Algorithm: a})
	}
	_, err = c.Verify(base64.RawURLEncoding.EncodeToString(challenge), at.ID, []string{at.Origin}, nil, nil, webauthn.TopOriginExplicitVerificationMode,
		false, true, true, nil, may, webauthn.AttestationPolicy{}, webauthn.SignaturePolicy{})
	if err != nil {
		return Key{}, fmt.Errorf("%w: %s", ErrBad, told(err))
	}
	data := c.Response.AttestationObject.AuthData
	k := Key{ID: base64.RawURLEncoding.EncodeToString(data.AttData.CredentialID), PublicKey: base64.RawURLEncoding.EncodeToString(data.AttData.CredentialPublicKey),
		Synced: data.Flags.HasBackupEligible(), Counter: data.Counter, Site: at}
	if len(k.ID) > maxID || len(k.PublicKey) > maxPublic {
		return Key{}, fmt.Errorf("%w: its id or its key is too long", ErrBad)
	}
	for _, t := range c.Response.Transports {
		if len(k.Transports) < 8 && len(t) <= 40 {
			k.Transports = append(k.Transports, string(t))
		}
	}
	return k, nil
}

// Verify checks an assertion of the key, all but for what it decides: see [Of]. It returns the
// authenticator's counter.
func (k Key) Verify(p protocol.Passkey) (counter uint32, err error) {
	if err := Bounded(p); err != nil {
		return 0, err
	}
	if p.ID != k.ID {
		return 0, fmt.Errorf("%w: it is of another passkey", ErrBad)
	}
	challenge, err := challengeOf(p)
	if err != nil {
		return 0, err
	}
	public, err := base64.RawURLEncoding.DecodeString(k.PublicKey)
	if err != nil {
		return 0, fmt.Errorf("%w: the key of the passkey cannot be read", ErrBad)
	}
	r := webauthn.CredentialAssertionResponse{}
	r.ID, r.Type = p.ID, string(webauthn.PublicKeyCredentialType)
	for _, f := range []struct {
		name, is string
		to       *webauthn.URLEncodedBase64
	}{
		{"id", p.ID, &r.RawID}, {"client_data", p.ClientData, &r.AssertionResponse.ClientDataJSON},
		{"authenticator_data", p.AuthenticatorData, &r.AssertionResponse.AuthenticatorData}, {"signature", p.Signature, &r.AssertionResponse.Signature},
	} {
		raw, err := base64.RawURLEncoding.DecodeString(f.is)
		if err != nil {
			return 0, fmt.Errorf("%w: its field %s is not base64url", ErrBad, f.name)
		}
		*f.to = raw
	}
	parsed, err := r.Parse()
	if err != nil {
		return 0, fmt.Errorf("%w: it cannot be read: %s", ErrBad, told(err))
	}
	err = parsed.Verify(challenge, k.Site.ID, "", []string{k.Origin}, nil, nil, webauthn.TopOriginExplicitVerificationMode, false, true, true, public, webauthn.SignaturePolicy{})
	if err != nil {
		return 0, fmt.Errorf("%w: %s", ErrBad, told(err))
	}
	return parsed.Response.AuthenticatorData.Counter, nil
}

// Proves verifies an assertion about the decision of a message, by the public key that it names. It
// asks nobody whose the key is: a worker did that when it took the decision. The origin is that of
// the assertion, whose host must be the site that the passkey belongs to.
func Proves(p protocol.Passkey, message []byte) error {
	if err := Of(p, message); err != nil {
		return err
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.ClientData)
	if err != nil { // not reached: Of has read it
		return fmt.Errorf("%w: client_data is not base64url", ErrBad)
	}
	var client struct {
		Origin string `json:"origin"`
	}
	if err := json.Unmarshal(raw, &client); err != nil {
		return fmt.Errorf("%w: client_data is not JSON", ErrBad)
	}
	at, err := SiteOf(client.Origin)
	if err != nil || at.Origin != client.Origin {
		return fmt.Errorf("%w: its origin %.100q is not that of a console", ErrBad, client.Origin)
	}
	_, err = Key{ID: p.ID, PublicKey: p.PublicKey, Site: at}.Verify(p)
	return err
}

// told returns what the library says of an error, on one bounded line.
func told(err error) string {
	text := err.Error()
	var e *webauthn.Error
	if errors.As(err, &e) {
		text = strings.TrimSpace(e.Details + ": " + e.DevInfo)
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return strings.Trim(text, ": ")
}

// MaxName bounds the name of a passkey, in characters.
const MaxName = 60

// CheckName refuses a name that people could not tell apart from others.
func CheckName(name string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if name == "" || !utf8.ValidString(name) || utf8.RuneCountInString(name) > MaxName || strings.ContainsFunc(name, odd) || strings.TrimSpace(name) != name {
		return fmt.Errorf("the name of a passkey is one line of 1 to %d characters, without spaces around it", MaxName)
	}
	return nil
}
