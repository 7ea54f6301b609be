package sshsig

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Namespace is the namespace of decisions. A signature made to log in, or for a
// commit or a file, does not count as a decision.
const Namespace = "fairlead-decision@fairlead.dev"

// A Decision is the message that a person signs. It has the request, the digest of its
// content, and the outcome.
type Decision struct {
	Approval string `json:"approval"`
	// AskedAt is the time of the request, as shown in the approval. If a session's id is
	// used again, the ids of its approvals are used again too, and codex may ask the same
	// again. A signature for the earlier approval must not count for the later one.
	AskedAt string `json:"asked_at"`
	Digest  string `json:"digest"`
	Outcome string `json:"outcome"`
	// Payload is the SHA-256, in hex, of the answers, grant or content as canonical
	// JSON; empty if there is none.
	Payload string `json:"payload"`
	Scope   string `json:"scope"`
	Session string `json:"session"`
}

// Message returns the canonical JSON of a decision: sorted keys, no spaces, no line
// end. To sign one by hand:
//
//	printf %s '{"approval":"s.1","asked_at":"…","digest":"…","outcome":"accept","payload":"","scope":"once","session":"s"}' |
//		ssh-keygen -Y sign -n fairlead-decision@fairlead.dev -f KEY
func (d Decision) Message() ([]byte, error) {
	for _, s := range []string{d.Approval, d.AskedAt, d.Digest, d.Outcome, d.Payload, d.Scope, d.Session} {
		if !utf8.ValidString(s) { // JSON could encode two different strings as the same text
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
