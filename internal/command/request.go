package command

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/sshsig"
)

const (
	// RequestNamespace is the SSH namespace of requests to a worker's API. So a signature for
	// a command is none for a request.
	RequestNamespace = "fairlead-request@fairlead.dev"
	// RequestHeader has the proof of a request: base64url without padding of the JSON of a
	// [Proof].
	RequestHeader = "Fairlead-Request"
	// WorkerHeader is in each answer: the id of the process that answers, a new one at each
	// start. A process knows the requests that were made to it, and takes no others.
	WorkerHeader = "Fairlead-Worker"
	// MaxRequestHeader bounds the header, in bytes. A signature by a certificate with RSA
	// keys has 4 KiB.
	MaxRequestHeader = 12 << 10
)

// A Request is what a principal asks of a worker's API.
type Request struct {
	Method string
	Target string // path and query, as in the request line
	// Worker is the id of the process that is asked, as the header [WorkerHeader] of its answers
	// has it. No other process takes the request.
	Worker string
	// Body is the SHA-256 of the body in hex. For an uploaded tree it is that of the first
	// line, which has the digests of all that follows.
	Body string
}

// A Proof is what the header of a signed request has.
type Proof struct {
	At        string `json:"at"` // RFC 3339, in UTC
	Body      string `json:"body"`
	Nonce     string `json:"nonce"`
	Principal string `json:"principal"`
	Worker    string `json:"worker"`
	// Signature is the base64 between the lines BEGIN and END SSH SIGNATURE.
	Signature string `json:"signature"`
}

// requestStatement is what a principal signs.
type requestStatement struct {
	At        string `json:"at"`
	Body      string `json:"body"`
	Method    string `json:"method"`
	Nonce     string `json:"nonce"`
	Principal string `json:"principal"`
	Target    string `json:"target"`
	Worker    string `json:"worker"`
}

func (p Proof) message(method, target string) ([]byte, error) {
	s := requestStatement{p.At, p.Body, method, p.Nonce, p.Principal, target, p.Worker}
	for _, part := range []string{s.At, s.Body, s.Method, s.Nonce, s.Principal, s.Target, s.Worker} {
		switch {
		case part == "":
			return nil, errors.New("a signed request names its principal, its method, its target, its body, its worker, its time and a nonce")
		case !utf8.ValidString(part): // two such strings could be the same JSON
			return nil, errors.New("a signed request is text in UTF-8")
		}
	}
	return encode(s)
}

const (
	armorBegin = "-----BEGIN SSH SIGNATURE-----"
	armorEnd   = "-----END SSH SIGNATURE-----"
)

// SignRequest returns the value of [RequestHeader]. The key may be a certificate's.
func SignRequest(key ssh.Signer, principal string, r Request, now time.Time) (string, error) {
	p := Proof{At: timeText(now), Body: r.Body, Nonce: rand.Text(), Principal: principal, Worker: r.Worker}
	message, err := p.message(r.Method, r.Target)
	if err != nil {
		return "", fmt.Errorf("sign %s %s: %w", r.Method, r.Target, err)
	}
	armored, err := sshsig.Sign(key, RequestNamespace, message)
	if err != nil {
		return "", fmt.Errorf("sign %s %s: %w", r.Method, r.Target, err)
	}
	text := strings.TrimSpace(string(armored))
	text = strings.TrimSuffix(strings.TrimPrefix(text, armorBegin), armorEnd)
	p.Signature = strings.Join(strings.Fields(text), "")
	raw, err := encode(p)
	if err != nil {
		return "", fmt.Errorf("sign %s %s: %w", r.Method, r.Target, err)
	}
	header := base64.RawURLEncoding.EncodeToString(raw)
	if len(header) > MaxRequestHeader {
		return "", fmt.Errorf("sign %s %s: the signature and its certificate have %d bytes, and %d at most fit: use a shorter key", r.Method, r.Target, len(header), MaxRequestHeader)
	}
	return header, nil
}

// ParseProof reads the value of [RequestHeader]. It verifies nothing.
func ParseProof(header string) (Proof, error) {
	var p Proof
	if len(header) > MaxRequestHeader {
		return p, fmt.Errorf("it has %d bytes, and %d at most are allowed", len(header), MaxRequestHeader)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(header)
	if err != nil {
		return p, errors.New("it is not base64url")
	}
	// Strict also about fields that occur twice.
	v, err := decode(raw)
	if err != nil {
		return p, err
	}
	if _, ok := v.(map[string]any); !ok {
		return p, errors.New("it is not a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Proof{}, fmt.Errorf("it is not the JSON of a proof: %w", err)
	}
	for _, f := range []struct {
		name, text string
		max        int
	}{{"at", p.At, maxWord}, {"body", p.Body, hex.EncodedLen(sha256.Size)}, {"nonce", p.Nonce, maxWord}, {"principal", p.Principal, maxPrincipal}, {"worker", p.Worker, maxWord}, {"signature", p.Signature, MaxRequestHeader}} {
		if f.text == "" || len(f.text) > f.max {
			return Proof{}, fmt.Errorf("its field %s has %d bytes, and 1 to %d are allowed", f.name, len(f.text), f.max)
		}
	}
	return p, nil
}

// Certified reports whether a certificate seems to have signed. It verifies nothing.
func (p Proof) Certified() bool {
	key, err := sshsig.KeyOf([]byte(armorBegin+"\n"+p.Signature+"\n"+armorEnd+"\n"), nil)
	_, is := key.(*ssh.Certificate)
	return err == nil && is
}

// A SignedRequest is one whose signature counts.
type SignedRequest struct {
	Principal string
	Groups    []string      // that its certificate names
	Key       ssh.PublicKey // or certificate
	// Fingerprint is that of the key, without its certificate.
	Fingerprint string
	Body        string // as in Request
	Worker      string // the same
	At          time.Time
	Nonce       string
	// ByWorker says that who signed has the key of a worker, which is [access.Worker].
	ByWorker bool
}

// CheckRequest verifies a request by its header. The error wraps one of the Err values. With
// ErrTime, the signature counts except for its time, and what was signed is returned, too. The
// caller compares the worker and the body, and refuses nonces that were used.
func CheckRequest(header, method, target string, a *access.Access, now time.Time) (SignedRequest, error) {
	if header == "" {
		return SignedRequest{}, ErrUnsigned
	}
	p, err := ParseProof(header)
	if err != nil {
		return SignedRequest{}, fmt.Errorf("%w: header %s: %w", ErrMalformed, RequestHeader, err)
	}
	at, err := time.Parse(time.RFC3339Nano, p.At)
	var skewed error
	switch {
	case err != nil || timeText(at) != p.At:
		return SignedRequest{}, fmt.Errorf("%w: header %s: its field at is not a time as in %s", ErrMalformed, RequestHeader, timeText(now))
	case at.After(now.Add(MaxSkew)) || at.Before(now.Add(-MaxSkew)):
		skewed = fmt.Errorf("%w: it was signed at %s, which is %s away from this worker's clock, and %s is the limit: set the clock of the machine that signs, or of this worker", ErrTime, p.At, at.Sub(now).Abs().Round(time.Second), MaxSkew)
	}
	message, err := p.message(method, target)
	if err != nil {
		return SignedRequest{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	armored := []byte(armorBegin + "\n" + p.Signature + "\n" + armorEnd + "\n")
	key, err := sshsig.KeyOf(armored, nil)
	if err != nil {
		return SignedRequest{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if why := a.Revoked(key); why != "" {
		return SignedRequest{}, fmt.Errorf("%w: %s", ErrRevoked, why)
	}
	if p.Principal == access.Worker {
		if _, err := sshsig.Verify(armored, RequestNamespace, message, a.Workers(), now); err == nil {
			return SignedRequest{Principal: p.Principal, Key: key, Fingerprint: ssh.FingerprintSHA256(key), Body: p.Body, Worker: p.Worker, At: at, Nonce: p.Nonce, ByWorker: true}, skewed
		}
	}
	who, err := sshsig.Verify(armored, RequestNamespace, message, a.Signers(), now)
	switch {
	case err != nil:
		return SignedRequest{}, fmt.Errorf("%w: %w%s", ErrSignature, errors.Unwrap(err), loginHint(key, a.Signers(), err)) // which says the same first
	case who != p.Principal:
		return SignedRequest{}, fmt.Errorf("%w: it names %.100q, and %s signed it", ErrSignature, p.Principal, who)
	}
	var groups []string
	fingerprint := ssh.FingerprintSHA256(key)
	if cert, ok := key.(*ssh.Certificate); ok {
		fingerprint = ssh.FingerprintSHA256(cert.Key)
		if groups, err = access.CertificateGroups(cert); err != nil {
			return SignedRequest{}, fmt.Errorf("%w: certificate %.100q: %w", ErrSignature, cert.KeyId, err)
		}
	}
	return SignedRequest{Principal: who, Groups: groups, Key: key, Fingerprint: fingerprint, Body: p.Body, Worker: p.Worker, At: at, Nonce: p.Nonce}, skewed
}

// BodyDigest is the digest of a body for [Request].
func BodyDigest(body []byte) string { return digestOf(body) }

// errOtherBody means that a body was changed on its way.
var errOtherBody = errors.New("the body is not the one that was signed")

// SignedBody returns a reader that fails at the end of a body with another digest.
func SignedBody(body io.ReadCloser, digest string) io.ReadCloser {
	return &signedBody{ReadCloser: body, want: digest, sum: sha256.New()}
}

type signedBody struct {
	io.ReadCloser
	want string
	sum  hash.Hash
}

func (b *signedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.sum.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(b.sum.Sum(nil)) != b.want {
		err = errOtherBody
	}
	return n, err
}
