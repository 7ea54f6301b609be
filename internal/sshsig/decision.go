package sshsig

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Namespace is that of decisions: a signature for a login, a commit or a file does not
// count.
const Namespace = "fairlead-decision@fairlead.dev"

// A Decision is the message that a person signs.
type Decision struct {
	Approval string `json:"approval"`
	// AskedAt is the time of the request, as shown in the approval. A session's id, and so
	// an approval's, may be used again for the same request: the earlier signature must not
	// count.
	AskedAt string `json:"asked_at"`
	Digest  string `json:"digest"`
	Outcome string `json:"outcome"`
	// Payload is the SHA-256, in hex, of the answers, grant or content as canonical JSON;
	// empty without one.
	Payload string `json:"payload"`
	Scope   string `json:"scope"`
	Session string `json:"session"`
}

// Message returns the canonical JSON of a decision: sorted keys, no spaces, no line end. To
// sign one by hand:
//
//	printf %s '{"approval":"s.1","asked_at":"…","digest":"…","outcome":"accept","payload":"","scope":"once","session":"s"}' |
//		ssh-keygen -Y sign -n fairlead-decision@fairlead.dev -f KEY
func (d Decision) Message() ([]byte, error) {
	for _, s := range []string{d.Approval, d.AskedAt, d.Digest, d.Outcome, d.Payload, d.Scope, d.Session} {
		if !utf8.ValidString(s) { // two such strings could be the same JSON
			return nil, errors.New("a decision is text in UTF-8")
		}
	}
	if d.Approval == "" || d.AskedAt == "" || d.Digest == "" || d.Outcome == "" || d.Session == "" {
		return nil, errors.New("a decision names its session, its approval, the moment it was asked, its digest and its outcome")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
