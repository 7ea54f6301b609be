package audit

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/sshsig"
)

// What a record's evidence is worth.
const (
	Proved   = "proved"   // a key that counts signed it
	Chained  = "chained"  // nobody signed it, or it was refused: the chain shows only that it was not changed
	Unproved = "unproved" // its signature does not count
)

// A Proof says whether the evidence of a record proves who caused it.
type Proof struct {
	Entity    string `json:"entity"`
	Seq       int64  `json:"seq"`
	Principal string `json:"principal"`
	Verb      string `json:"verb"`
	Proof     string `json:"proof"`
	// Key is the fingerprint of the key that signed.
	Key string `json:"key,omitempty"`
	// Reason says whose key it is, or why the record is not proved.
	Reason string `json:"reason"`
}

// Prove judges the evidence of a record by the keys of people and certificate authorities,
// and by those of workers, which sign for people whose login they have verified. A
// certificate must have been valid when it signed. revoked says why a key does not count, or
// returns "".
func (r Record) Prove(people, workers *sshsig.Allowed, revoked func(ssh.PublicKey) string) Proof {
	p := Proof{Entity: r.Entity, Seq: r.Seq, Principal: r.Principal, Verb: r.Verb}
	switch {
	case r.Outcome == Refused:
		p.Proof, p.Reason = Chained, "it was refused"
		return p
	case r.Source != Key && r.Source != Certificate:
		p.Proof, p.Reason = Chained, "nobody signed it: its source is "+r.Source
		return p
	}
	key, by, err := r.signer(people, workers, revoked)
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	if key != nil {
		p.Key = ssh.FingerprintSHA256(key)
	}
	if p.Proof, p.Reason = Proved, by; err != nil {
		p.Proof, p.Reason = Unproved, err.Error()
	}
	return p
}

func (r Record) signer(people, workers *sshsig.Allowed, revoked func(ssh.PublicKey) string) (key ssh.PublicKey, by string, err error) {
	if err := r.proven(); err != nil {
		return nil, "", err
	}
	armored, certificate, message := []byte(r.Evidence.Signature), []byte(r.Evidence.Certificate), []byte(r.Evidence.Message)
	if key, err = sshsig.KeyOf(armored, certificate); err != nil { // cannot happen: proven has read the signature
		return nil, "", err
	}
	s, err := command.ParseStatement(message)
	if err != nil { // cannot happen: proven has read the message
		return key, "", err
	}
	at, err := time.Parse(time.RFC3339Nano, s.At)
	if err != nil { // cannot happen: proven has read the time
		return key, "", err
	}
	if why := revoked(key); why != "" {
		return key, "", errors.New(why)
	}
	if name, err := sshsig.VerifyCertified(armored, certificate, command.Namespace, message, workers, at); err == nil {
		return key, fmt.Sprintf("signed for %s by the key of a worker (%s)", r.Principal, name), nil
	}
	who, err := sshsig.VerifyCertified(armored, certificate, command.Namespace, message, people, at)
	switch {
	case err != nil:
		return key, "", err
	case who != r.Principal:
		return key, "", fmt.Errorf("the record names %.100q as principal, but the key of %s signed it", r.Principal, who)
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		return key, fmt.Sprintf("signed by %s, with certificate %.100q", who, cert.KeyId), nil
	}
	return key, "signed by " + who, nil
}
