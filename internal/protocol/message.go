package protocol

import (
	"encoding/json"
	"slices"
	"time"
)

// Auth says who gives a command. It is the field auth of the command's JSON.
type Auth struct {
	Principal string `json:"principal"`
	At        string `json:"at"` // when it was signed, RFC 3339 in UTC
	Nonce     string `json:"nonce"`
	// Kind is update, signal or start: a command counts as that kind of message. One without
	// a kind does not wait for a worker.
	Kind string `json:"kind,omitempty"`
	// Signature is an armored `ssh-keygen -Y sign` signature of the command's statement. If
	// the key has a certificate, the signature may contain it.
	Signature string `json:"signature"`
	// Certificate is the line of the certificate, if the signature has only its key.
	Certificate string `json:"certificate,omitempty"`
	// Groups are those of the principal, if a worker signs for a person whose certificate it
	// has verified. The signature covers them.
	Groups []string `json:"groups,omitempty"`
}

// Commanded is part of commands that are not messages to a session.
type Commanded struct {
	Auth *Auth `json:"auth,omitempty"` // who gives it
}

// CommandAuth returns who gives the command, or nil.
func (c Commanded) CommandAuth() *Auth { return c.Auth }

// Message is a person's message to codex.
type Message struct {
	ID    string `json:"id"`
	Text  string `json:"text,omitempty"`
	Blob  string `json:"blob,omitempty"`  // key in the store of a text longer than MaxText
	Chars int    `json:"chars,omitempty"` // of the text in Blob
	Mode  string `json:"mode,omitempty"`  // queue (default), steer
	// Turn is the turn to steer. The message is refused if another turn runs, and void if
	// the turn ends before codex gets it.
	Turn int `json:"turn,omitempty"`
	// Do is the act of a turn without text.
	Do     Act     `json:"do,omitempty"`
	Review *Review `json:"review,omitempty"`
	// AnyModel accepts a Model that codex does not list.
	AnyModel bool    `json:"any_model,omitempty"`
	Model    string  `json:"model,omitempty"`
	Effort   string  `json:"effort,omitempty"`
	By       string  `json:"by,omitempty"`
	Inputs   []Input `json:"inputs,omitempty"`
	// Schema is for the turn's last message. Above MaxSchemaInline it is in the store, as
	// SchemaBlob.
	Schema     json.RawMessage `json:"output_schema,omitempty"`
	SchemaBlob string          `json:"output_schema_blob,omitempty"`
}

// Limits of a message.
const (
	MaxText  = 32 << 10  // bytes; longer texts go through the store
	MaxChars = 1_048_576 // codex's own limit
)

// MessageAccepted answers a message.
type MessageAccepted struct {
	Session   string `json:"session"`
	N         int    `json:"n"` // turn that the message will begin
	MessageID string `json:"message_id"`
}

// Decide is a decision on an approval. Digest is required.
type Decide struct {
	Approval string `json:"approval"`
	Digest   string `json:"digest"`
	Outcome  string `json:"outcome"`         // an Outcome
	Scope    string `json:"scope,omitempty"` // once (default), session
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	// Answers maps question ids to a text or a list of texts. Secret answers are only in
	// the store, under AnswersBlob, where the worker's API put them after a check against
	// the questions.
	Answers     json.RawMessage `json:"answers,omitempty"`
	AnswersBlob string          `json:"answers_blob,omitempty"`
	// Grant is the granted part of Approval.Permissions.
	Grant json.RawMessage `json:"grant,omitempty"`
	// Signature is an armored `ssh-keygen -Y sign` signature of this message's
	// sshsig.Decision.
	Signature string `json:"signature,omitempty"`
	// Passkey is an assertion whose challenge is a digest of this message's sshsig.Decision.
	Passkey *Passkey `json:"passkey,omitempty"`
	// Touched says that Signature is by a FIDO key of the sender, which the access file lists.
	Touched bool   `json:"touched,omitempty"`
	Request string `json:"request,omitempty"` // see Requested
}

// A Passkey is the assertion of a person's passkey (WebAuthn) about a decision. Its fields are in
// base64url, without padding.
type Passkey struct {
	ID                string `json:"id" doc:"of the credential"`
	ClientData        string `json:"client_data" doc:"clientDataJSON"`
	AuthenticatorData string `json:"authenticator_data" doc:"authenticatorData"`
	Signature         string `json:"signature" doc:"of authenticatorData and the SHA-256 of clientDataJSON"`
	// PublicKey is COSE. The worker's API sets it, from what it knows of the passkey.
	PublicKey string `json:"public_key,omitempty" doc:"set by the worker"`
}

// Interrupt ends the running turn.
type Interrupt struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Request is the sender's id of the request; see Requested.
	Request string `json:"request,omitempty"`
}

// Close ends the session.
type Close struct {
	By      string `json:"by,omitempty"`
	Discard bool   `json:"discard,omitempty"`
	Sender
}

// A Sender is the workflow that sends a signal that no person signed.
type Sender struct {
	From  string `json:"from,omitempty"`  // its id
	Owner string `json:"owner,omitempty"` // of what it began, if it is a batch
}

// Budget changes the bounds of a session; omitted values stay.
type Budget struct {
	By          string `json:"by,omitempty"`
	TurnTimeout string `json:"turn_timeout,omitempty"` // e.g. 90m
	// The bounds below are for the session; 0 means none.
	Tokens    *int64 `json:"tokens,omitempty"`
	Turns     *int64 `json:"turns,omitempty"`
	Time      string `json:"time,omitempty"` // of all turns, e.g. 8h
	Approvals *int64 `json:"approvals,omitempty"`
	Commands  *int64 `json:"commands,omitempty"`
	Money     *Money `json:"money,omitempty"` // that the model gateway may spend, e.g. "2.50"
}

// SetBounds applies the values that b gives, but for the bound of one turn.
func (b Budget) SetBounds(to *Bounds) error {
	for _, g := range []struct{ n, to *int64 }{{b.Tokens, &to.Tokens}, {b.Turns, &to.Turns}, {b.Approvals, &to.Approvals}, {b.Commands, &to.Commands}} {
		if g.n != nil {
			*g.to = *g.n
		}
	}
	if b.Money != nil {
		to.Money = *b.Money
	}
	if b.Time == "" {
		return nil
	}
	v, err := time.ParseDuration(b.Time)
	if err == nil {
		to.Time = v
	}
	return err
}

// Park makes an idle session give back host and seed until the next message.
type Park struct {
	By      string `json:"by,omitempty"`
	Request string `json:"request,omitempty"` // see Requested
}

// Resume brings back a parked session, moves an idle one, or lets one whose host is lost
// continue elsewhere.
type Resume struct {
	Host string `json:"host,omitempty"` // default: the former one, or any suitable one
	By   string `json:"by,omitempty"`
	// Request is the sender's id of the request; see Requested.
	Request string `json:"request,omitempty"`
}

// TakeSnapshot asks for a snapshot. The session's view, not the answer, shows the result of
// snapshot N.
type TakeSnapshot struct {
	By      string `json:"by,omitempty"`
	Request string `json:"request,omitempty"` // see Requested
}

// SnapshotAccepted answers TakeSnapshot.
type SnapshotAccepted struct {
	Session string `json:"session"`
	N       int    `json:"n"` // from 1 within the session
}

// Set changes a session's settings from its next turn on; omitted values stay.
type Set struct {
	By       string  `json:"by,omitempty"`
	Model    string  `json:"model,omitempty"`
	Effort   string  `json:"effort,omitempty"`
	Name     *string `json:"name,omitempty"`
	AnyModel bool    `json:"any_model,omitempty"`
}

// Unsend takes back a message whose turn has not begun.
type Unsend struct {
	Message string `json:"message"`
	By      string `json:"by,omitempty"`
}

// Archive archives or unarchives a session.
type Archive struct {
	By string `json:"by,omitempty"`
}

// AskModels asks codex for its models.
type AskModels struct {
	By string `json:"by,omitempty"`
}

// ModelsView is codex's last model list, and the session's model and effort.
type ModelsView struct {
	Session  string    `json:"session"`
	Model    string    `json:"model"`
	Effort   string    `json:"effort"`
	Provider string    `json:"provider"`
	Codex    string    `json:"codex"`
	At       time.Time `json:"at,omitzero"` // zero if never asked
	Models   []Model   `json:"models"`
	Error    string    `json:"error,omitempty"`
}

// A Push asks for a push. The same ID means the same push.
type Push struct {
	ID      string `json:"id"`
	Branch  string `json:"branch"`
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"`
}

// SessionEnded is a session's final report.
type SessionEnded struct {
	ID    string        `json:"id"`
	Run   string        `json:"run"` // first run of the session's workflow
	State SessionStatus `json:"state"`
	// Turn is the newest turn, or nil. Its text is cut to session.MaxEndText bytes.
	Turn      *TurnView `json:"turn,omitempty"`
	Failure   *Failure  `json:"failure,omitempty"`
	Effects   string    `json:"effects"`
	Host      string    `json:"host,omitempty"`
	Attempt   int       `json:"attempt"`
	Usage     UsageView `json:"usage"`
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at"`
	Left      string    `json:"left,omitempty"`    // why the host may still have data
	Archive   string    `json:"archive,omitempty"` // the archiving snapshot
}

// Effects that a session may have had outside codex.
const (
	EffectsNone    = "none"    // certainly no command and no change
	EffectsSome    = "some"    // at least one command or change
	EffectsUnknown = "unknown" // not everything that a turn did is known
)

// Words of decisions.
const (
	ScopeOnce    = "once"
	ScopeSession = "session"

	AcceptForSession = "accept_for_session"
)

// NotOffered returns the first word of the decision that codex does not offer. Declining is
// always possible.
func (d Decide) NotOffered(offered []string) (word string, found bool) {
	words := []string{d.Outcome}
	switch {
	case d.Scope != ScopeSession:
	case d.Outcome == string(Accept):
		words = []string{AcceptForSession}
	default:
		words = append(words, AcceptForSession)
	}
	for _, word := range words {
		if word != string(Decline) && !slices.Contains(offered, word) {
			return word, true
		}
	}
	return "", false
}
