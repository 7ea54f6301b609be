package sshsig

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Namespace is what signatures of decisions are made for: one that was made to
// log in, to sign a commit or a file does not count as a decision.
const Namespace = "fairlead-decision@fairlead.dev"

// A Decision is what a person signs: which request, what was asked (its
// digest), and what the answer is.
type Decision struct {
	Approval string `json:"approval"`
	// AskedAt is the moment of the request, as the approval shows it: where the id
	// of a session comes again, so do those of its approvals, and the same may be
	// asked. What was signed for the former must not count for the latter.
	AskedAt string `json:"asked_at"`
	Digest  string `json:"digest"`
	Outcome string `json:"outcome"`
	// Payload is the SHA-256 in hex of the answers, the grant or the content
	// that goes with the outcome, as canonical JSON; empty without any.
	Payload string `json:"payload"`
	Scope   string `json:"scope"`
	Session string `json:"session"`
}

// Message is the canonical JSON of a decision: sorted keys, no spaces, no line
// end. What is signed by hand is made so:
//
//	printf %s '{"approval":"s.1","asked_at":"…","digest":"…","outcome":"accept","payload":"","scope":"once","session":"s"}' |
//		ssh-keygen -Y sign -n fairlead-decision@fairlead.dev -f KEY
func (d Decision) Message() ([]byte, error) {
	for _, s := range []string{d.Approval, d.AskedAt, d.Digest, d.Outcome, d.Payload, d.Scope, d.Session} {
		if !utf8.ValidString(s) { // JSON would make the same of two of them
			return nil, errors.New("a decision is text in UTF-8")
		}
	}
	if d.Approval == "" || d.AskedAt == "" || d.Digest == "" || d.Outcome == "" || d.Session == "" {
		return nil, errors.New("a decision names its session, its approval, the moment it was asked, its digest and its outcome")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil { // fields of plain text
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
