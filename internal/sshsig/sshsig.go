package sshsig

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// Reasons why a signature does not count.
var (
	ErrMalformed  = errors.New("it is no SSH signature")
	ErrNamespace  = errors.New("it was made for another purpose")
	ErrNotAllowed = errors.New("its key is not that of an allowed signer")
	ErrNotNow     = errors.New("its key may not sign at this time")
	ErrWrong      = errors.New("it is not valid for this message")
)

const (
	magic     = "SSHSIG"
	version   = 1
	begin     = "-----BEGIN SSH SIGNATURE-----"
	end       = "-----END SSH SIGNATURE-----"
	lineWidth = 70

	// maxArmored is in bytes. A signature by a certificate with RSA keys has 4 KiB.
	maxArmored = 64 << 10
)

type envelope struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// signedData follows the magic in what the key signs.
type signedData struct {
	Namespace string
	Reserved  string
	Hash      string
	Digest    []byte
}

func toSign(namespace, hash string, message []byte) ([]byte, error) {
	d := signedData{Namespace: namespace, Hash: hash}
	switch hash {
	case "sha512":
		sum := sha512.Sum512(message)
		d.Digest = sum[:]
	case "sha256":
		sum := sha256.Sum256(message)
		d.Digest = sum[:]
	default:
		return nil, fmt.Errorf("%w: hash %q is neither sha512 nor sha256", ErrMalformed, hash)
	}
	return append([]byte(magic), ssh.Marshal(d)...), nil
}

// Sign signs a message as `ssh-keygen -Y sign -n NAMESPACE` does. The signer of an RSA key
// must support SHA-2.
func Sign(signer ssh.Signer, namespace string, message []byte) (armored []byte, err error) {
	if namespace == "" {
		return nil, errors.New("sign: a signature needs a namespace")
	}
	key := signer.PublicKey()
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("sign with %s: %w", ssh.FingerprintSHA256(key), err)
	}
	data, err := toSign(namespace, "sha512", message)
	if err != nil {
		return nil, err
	}
	sig, err := signData(signer, data)
	if err != nil && touched(plainType(key)) {
		err = fmt.Errorf("%w: a FIDO key signs only if it is plugged in and its owner touches it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("sign with %s: %w", ssh.FingerprintSHA256(key), err)
	}
	if !formatFits(key, sig.Format) {
		return nil, fmt.Errorf("sign with %s: the signer made a signature of kind %q", ssh.FingerprintSHA256(key), sig.Format)
	}
	return armor(append([]byte(magic), ssh.Marshal(envelope{Version: version, PublicKey: key.Marshal(),
		Namespace: namespace, Hash: "sha512", Signature: ssh.Marshal(sig)})...)), nil
}

func signData(signer ssh.Signer, data []byte) (*ssh.Signature, error) {
	if plainType(signer.PublicKey()) != ssh.KeyAlgoRSA {
		return signer.Sign(rand.Reader, data)
	}
	s, ok := signer.(ssh.AlgorithmSigner)
	if !ok {
		return nil, errors.New("this RSA key can only sign with SHA-1")
	}
	return s.SignWithAlgorithm(rand.Reader, data, ssh.KeyAlgoRSASHA512)
}

// Verify returns the principal who signed a message, if allowed allows the key for this
// namespace at this time. Each person has one principal. The error wraps one of the Err
// values.
func Verify(armored []byte, namespace string, message []byte, allowed *Allowed, at time.Time) (principal string, err error) {
	return VerifyCertified(armored, nil, namespace, message, allowed, at)
}

// VerifyCertified is Verify for a signature without its certificate, which is a line of
// OpenSSH's format. An empty certificate means none.
//
//workflowcheck:ignore // a pure function
func VerifyCertified(armored, certificate []byte, namespace string, message []byte, allowed *Allowed, at time.Time) (principal string, err error) {
	principal, err = verify(armored, certificate, namespace, message, allowed, at)
	if err != nil {
		return "", fmt.Errorf("the signature does not count: %w", err)
	}
	return principal, nil
}

func verify(armored, certificate []byte, namespace string, message []byte, allowed *Allowed, at time.Time) (string, error) {
	e, key, sig, err := open(armored)
	if err == nil && len(certificate) > 0 {
		key, err = certified(key, certificate)
	}
	if err != nil {
		return "", err
	}
	if namespace == "" || e.Namespace != namespace {
		return "", fmt.Errorf("%w: its namespace is %q, not %q", ErrNamespace, e.Namespace, namespace)
	}
	// First find the owner: a stranger's key could make the verification slow.
	principal, err := allowed.who(key, namespace, at)
	if err != nil {
		return "", err
	}
	data, err := toSign(namespace, e.Hash, message)
	if err != nil {
		return "", err
	}
	if err := key.Verify(data, sig); err != nil {
		return "", fmt.Errorf("%w: %s did not sign this (%v)", ErrWrong, principal, err)
	}
	return principal, nil
}

// KeyOf returns the key or certificate that a signature says it was made with. It verifies
// nothing.
//
//workflowcheck:ignore // a pure function
func KeyOf(armored, certificate []byte) (ssh.PublicKey, error) {
	_, key, _, err := open(armored)
	if err == nil && len(certificate) > 0 {
		key, err = certified(key, certificate)
	}
	return key, err
}

// Holds verifies that the key of a signature signed a message, whosever key it is, as
// `ssh-keygen -Y check-novalidate` does. It returns the key, or its certificate.
func Holds(armored, certificate []byte, namespace string, message []byte) (ssh.PublicKey, error) {
	e, key, sig, err := open(armored)
	if err == nil && len(certificate) > 0 {
		key, err = certified(key, certificate)
	}
	if err != nil {
		return nil, err
	}
	if namespace == "" || e.Namespace != namespace {
		return nil, fmt.Errorf("%w: its namespace is %q, not %q", ErrNamespace, e.Namespace, namespace)
	}
	data, err := toSign(namespace, e.Hash, message)
	if err != nil {
		return nil, err
	}
	if err := key.Verify(data, sig); err != nil {
		return nil, fmt.Errorf("%w: %s did not sign this (%v)", ErrWrong, ssh.FingerprintSHA256(key), err)
	}
	return key, nil
}

// certified returns the certificate of a plain key.
func certified(key ssh.PublicKey, line []byte) (ssh.PublicKey, error) {
	if len(line) > maxArmored {
		return nil, fmt.Errorf("%w: its certificate has %d bytes", ErrMalformed, len(line))
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(line)
	c, ok := pub.(*ssh.Certificate)
	switch {
	case err != nil || !ok:
		return nil, fmt.Errorf("%w: its certificate cannot be read", ErrMalformed)
	case !bytes.Equal(c.Key.Marshal(), key.Marshal()):
		return nil, fmt.Errorf("%w: its certificate is not that of its key", ErrMalformed)
	}
	return c, checkKey(c)
}

func open(armored []byte) (envelope, ssh.PublicKey, *ssh.Signature, error) {
	var e envelope
	fail := func(format string, args ...any) (envelope, ssh.PublicKey, *ssh.Signature, error) {
		return envelope{}, nil, nil, fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	raw, err := unarmor(armored)
	if err != nil {
		return fail("%v", err)
	}
	raw, ok := bytes.CutPrefix(raw, []byte(magic))
	if !ok {
		return fail("it does not begin with %s", magic)
	}
	if err := ssh.Unmarshal(raw, &e); err != nil {
		return fail("%v", err)
	}
	if e.Version != version {
		return fail("version %d is not known", e.Version)
	}
	if e.Reserved != "" {
		return fail("its reserved field is not empty")
	}
	key, err := ssh.ParsePublicKey(e.PublicKey)
	if err != nil {
		return fail("its key cannot be read: %v", err)
	}
	if err := checkKey(key); err != nil {
		return fail("%v", err)
	}
	var sig ssh.Signature
	if err := ssh.Unmarshal(e.Signature, &sig); err != nil {
		return fail("its signature blob cannot be read: %v", err)
	}
	if !formatFits(key, sig.Format) {
		return fail("a key of type %s does not sign as %q", key.Type(), sig.Format)
	}
	if len(sig.Rest) > 0 && !touched(sig.Format) {
		return fail("something follows it")
	}
	return e, key, &sig, nil
}

var keyTypes = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoRSA, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}

// ByTouch reports whether a key that signed is a FIDO key. Its signature needs a touch: others are
// refused wherever signatures are verified.
func ByTouch(key ssh.PublicKey) bool { return touched(plainType(key)) }

// touched reports whether a signature needs a touch of the key.
func touched(format string) bool {
	return format == ssh.KeyAlgoSKED25519 || format == ssh.KeyAlgoSKECDSA256
}

func plainType(key ssh.PublicKey) string {
	if c, ok := key.(*ssh.Certificate); ok {
		return c.Key.Type()
	}
	return key.Type()
}

// formatFits refuses SHA-1.
func formatFits(key ssh.PublicKey, format string) bool {
	if t := plainType(key); t != ssh.KeyAlgoRSA {
		return t == format
	}
	return format == ssh.KeyAlgoRSASHA512 || format == ssh.KeyAlgoRSASHA256
}

// minRSA is in bits.
const minRSA = 2048

func checkKey(key ssh.PublicKey) error {
	if c, ok := key.(*ssh.Certificate); ok {
		key = c.Key
	}
	if !slices.Contains(keyTypes, key.Type()) {
		return fmt.Errorf("keys of type %s do not count", key.Type())
	}
	if n := rsaBits(key); n > 0 && n < minRSA {
		return fmt.Errorf("an RSA key of %d bits is too short: %d at least", n, minRSA)
	}
	return nil
}

func armor(raw []byte) []byte {
	var b bytes.Buffer
	b.WriteString(begin + "\n")
	for text := base64.StdEncoding.EncodeToString(raw); text != ""; {
		n := min(lineWidth, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString(end + "\n")
	return b.Bytes()
}

func unarmor(armored []byte) ([]byte, error) {
	if len(armored) > maxArmored {
		return nil, fmt.Errorf("it has %d bytes", len(armored))
	}
	text, ok := bytes.CutPrefix(bytes.TrimSpace(armored), []byte(begin))
	if ok {
		text, ok = bytes.CutSuffix(text, []byte(end))
	}
	if !ok {
		return nil, errors.New("it does not stand between the lines BEGIN and END SSH SIGNATURE")
	}
	text = bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, text)
	raw, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil {
		return nil, errors.New("it is no base64")
	}
	return raw, nil
}
