package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// The outcomes of a record.
const (
	Accepted = "accepted"
	Refused  = "refused"
)

// The sources of a record's principal.
const (
	Unix        = "unix"        // the user of the worker, whose stack takes unsigned commands: nobody signed
	Key         = "ssh_key"     // a signature
	Certificate = "certificate" // a signature, with a certificate
	Policy      = "policy"      // a policy decided, and no person
	Workflow    = "workflow"    // Fairlead did it
)

// Verbs of records that are about no command.
const (
	CredentialLend   = "credential.lend"   // a session got the use of a seed
	CredentialReturn = "credential.return" // it gives that back
	CredentialLost   = "credential.lost"   // it lost that
	CredentialSave   = "credential.save"   // a rotated login is in the store
	CredentialDoubt  = "credential.doubt"  // a seed became suspect
	CredentialDead   = "credential.dead"   // a seed became dead
	CredentialRevive = "credential.revive" // a suspect or dead seed was seen to work
	CertificateIssue = "certificate.issue" // a worker signed a certificate for a person or an API token
	ConsoleLogin     = "console.login"     // a person logged in at the console
	PasskeyAdd       = "passkey.add"       // a person registered a passkey at the console
	PasskeyRemove    = "passkey.remove"    // a person removed one
	SlackLink        = "slack.link"        // an account of Slack was linked to a person
	SlackUnlink      = "slack.unlink"      // that was ended
	SlackDecide      = "slack.decide"      // a click in Slack became a decision
	APIRequest       = "api.request"       // a request to a worker that needs no right
	ModelAsk         = "model.ask"         // somebody asked the model gateway of a session
	EgressAsk        = "egress.ask"        // somebody who has no right to it asked for the way out of a session's programs
	EgressEnd        = "egress.end"        // that way out ended, and what it carried is in no report of the session
	BudgetChange     = "budget.change"     // the budget of a seed or a tenant is another one in the configuration of a worker
	Omitted          = "audit.omitted"     // records that were too many are not kept, but counted
)

// A Record says that somebody did something, or was refused it.
type Record struct {
	Entity    string   `json:"entity"` // whose chain it is in
	Seq       int64    `json:"seq"`    // from 1
	Prev      string   `json:"prev"`   // digest of the line before
	At        string   `json:"at"`     // RFC 3339, in UTC
	Principal string   `json:"principal"`
	Source    string   `json:"source"` // how the principal is known
	Verb      string   `json:"verb"`
	Object    string   `json:"object"`
	Outcome   string   `json:"outcome"`
	Reason    string   `json:"reason"`
	Evidence  Evidence `json:"evidence"`
	// Decision is what a command that decides an approval says.
	Decision *Decision `json:"decision,omitempty"`
	// Access is the digest of the access file that judged. Records of workers without one, and
	// those that an older version made, have none.
	Access string `json:"access,omitempty"`
}

// A Decision is the word of an approver. Signature is that of a policy that names approvers:
// one of ssh-keygen -Y sign, in the namespace of sshsig.Decision, of Message.
type Decision struct {
	Approval  string `json:"approval"`
	Digest    string `json:"digest"` // of the request
	Outcome   string `json:"outcome"`
	Scope     string `json:"scope,omitempty"`
	Message   string `json:"message,omitempty"`
	Signature string `json:"signature,omitempty"`
	// Cut says that the signature is too long for a record: then it is its digest.
	Cut bool `json:"cut,omitempty"`
	// Passkey is an assertion with which the person proved who they are, of Message.
	Passkey *protocol.Passkey `json:"passkey,omitempty"`
}

// bounded returns the decision with texts that a record has room for.
func (d Decision) bounded() *Decision {
	for _, text := range []*string{&d.Approval, &d.Digest, &d.Outcome, &d.Scope} {
		*text = clip(*text, maxText)
	}
	d.Message = clip(d.Message, 4<<10)
	if len(d.Signature) > maxSignature {
		d.Signature, d.Cut = digest(d.Signature), true
	}
	if d.Passkey != nil && passkey.Bounded(*d.Passkey) != nil {
		d.Passkey = nil
	}
	return &d
}

// proven reports whether the approver's signature and the passkey are of what the record says.
func (d *Decision) proven() error {
	if d == nil || d.Passkey == nil && (d.Signature == "" || d.Cut) {
		return nil
	}
	var said sshsig.Decision
	if err := json.Unmarshal([]byte(d.Message), &said); err != nil {
		return fmt.Errorf("the message that its approver signed cannot be read: %w", err)
	}
	if said.Approval != d.Approval || said.Digest != d.Digest || said.Outcome != d.Outcome || said.Scope != cmp.Or(d.Scope, "once") {
		return errors.New("its approver signed another decision")
	}
	if d.Passkey != nil {
		if err := passkey.Proves(*d.Passkey, []byte(d.Message)); err != nil {
			return fmt.Errorf("its passkey: %w", err)
		}
	}
	if d.Signature == "" || d.Cut {
		return nil
	}
	if _, err := sshsig.Holds([]byte(d.Signature), nil, sshsig.Namespace, []byte(d.Message)); err != nil {
		return fmt.Errorf("the approver's signature is not of its message: %w", err)
	}
	return nil
}

// Evidence proves a record. Without a signature it only says what was asked.
type Evidence struct {
	Args        string `json:"args,omitempty"`        // SHA-256 of the canonical arguments, in hex
	Message     string `json:"message,omitempty"`     // what was signed
	Signature   string `json:"signature,omitempty"`   // of ssh-keygen -Y sign
	Certificate string `json:"certificate,omitempty"` // if it is not part of the signature
	// Cut says that signature and certificate are too long for a record: then they are their
	// digests.
	Cut bool `json:"cut,omitempty"`
}

// Bounds of records.
const (
	MaxLine      = 32 << 10
	maxText      = 512 // principal, object, verb, entity
	maxReason    = 1000
	maxSignature = 8 << 10 // of an approver
)

// line returns the canonical line of a record. Texts beyond their bounds are cut.
func (r Record) line() string {
	r.Principal, r.Verb, r.Object = clip(r.Principal, maxText), clip(r.Verb, maxText), clip(r.Object, maxText)
	r.Entity, r.Reason, r.Access = clip(r.Entity, maxText), clip(r.Reason, maxReason), clip(r.Access, maxText)
	r.Evidence.Message = clip(r.Evidence.Message, 4<<10)
	if r.Decision != nil {
		r.Decision = r.Decision.bounded()
	}
	text := canonical(r)
	if len(text) > MaxLine {
		r.Evidence.Signature, r.Evidence.Certificate = digest(r.Evidence.Signature), digest(r.Evidence.Certificate)
		r.Evidence.Cut = true
		text = canonical(r)
	}
	return text
}

//workflowcheck:ignore // a pure function
func canonical(r Record) string {
	raw, err := command.Marshal(r)
	if err == nil {
		raw, err = command.Canonical(raw)
	}
	if err != nil { // not reached: all fields are valid text
		panic("audit: " + err.Error())
	}
	return string(raw)
}

// clip shortens text, and makes it valid UTF-8.
func clip(text string, most int) string {
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Digest returns the SHA-256 of a line, as the next line has it.
func Digest(line string) string { return digest(line) }

func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TimeText is how Record.At is written.
func TimeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Parse reads a line that a stranger may have written.
func Parse(line string) (Record, error) {
	var r Record
	if len(line) > MaxLine {
		return r, fmt.Errorf("it has %d bytes, and %d at most are allowed", len(line), MaxLine)
	}
	if _, err := command.Canonical([]byte(line)); err != nil { // which bounds its depth, too
		return r, err
	}
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("it is no record that this version knows: %w", err)
	}
	switch {
	case canonical(r) != line:
		return Record{}, errors.New("it is not the canonical JSON of a record (each field once, sorted, no spaces)")
	case r.Entity == "" || r.Seq < 1:
		return Record{}, errors.New("it is no record: it needs an entity and a seq")
	case r.Outcome != Accepted && r.Outcome != Refused:
		return Record{}, fmt.Errorf("its outcome %.40q is neither %s nor %s", r.Outcome, Accepted, Refused)
	}
	if at, err := time.Parse(time.RFC3339Nano, r.At); err != nil || TimeText(at) != r.At {
		return Record{}, fmt.Errorf("its time %.60q is not one in UTC", r.At)
	}
	return r, nil
}
