package protocol

import (
	"encoding/json"
	"slices"
	"time"
)

// Message is a person's message to codex.
type Message struct {
	ID    string `json:"id"`
	Text  string `json:"text,omitempty"`
	Blob  string `json:"blob,omitempty"`  // key of the text in the store, for texts longer than MaxText
	Chars int    `json:"chars,omitempty"` // length of the text in the blob
	Mode  string `json:"mode,omitempty"`  // queue (default), steer
	// Turn is the turn to steer. The message is refused if another turn runs, and void if
	// the turn ends before codex gets the message.
	Turn int `json:"turn,omitempty"`
	// Do makes the turn one that takes no text: compact, or review. Review says what to
	// review.
	Do     Act     `json:"do,omitempty"`
	Review *Review `json:"review,omitempty"`
	// AnyModel accepts a Model that codex does not list.
	AnyModel bool   `json:"any_model,omitempty"`
	Model    string `json:"model,omitempty"`
	Effort   string `json:"effort,omitempty"`
	By       string `json:"by,omitempty"`
	// Inputs are attached files, as returned by the worker's API.
	Inputs []Input `json:"inputs,omitempty"`
	// Schema is the JSON schema for the last message of the turn. A schema above MaxSchemaInline
	// is in the store, as SchemaBlob.
	Schema     json.RawMessage `json:"output_schema,omitempty"`
	SchemaBlob string          `json:"output_schema_blob,omitempty"`
}

// Limits of a message.
const (
	MaxText  = 32 << 10  // bytes of text in a message; longer texts go through the store
	MaxChars = 1_048_576 // codex's own limit, in characters
)

// MessageAccepted is the answer to a message.
type MessageAccepted struct {
	Session   string `json:"session"`
	N         int    `json:"n"` // number of the turn that the message will begin
	MessageID string `json:"message_id"`
}

// Decide is a decision on an approval. The digest is required.
type Decide struct {
	Approval string `json:"approval"`
	Digest   string `json:"digest"`
	Outcome  string `json:"outcome"`         // accept, decline, cancel, answer, grant, amend
	Scope    string `json:"scope,omitempty"` // once (default), session
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	// Answers, for the outcome answer, maps question ids to a text or a list of texts.
	// Answers contains no secret answers. AnswersBlob names these in the store, where the
	// worker's API put them after it had checked them against the questions.
	Answers     json.RawMessage `json:"answers,omitempty"`
	AnswersBlob string          `json:"answers_blob,omitempty"`
	// Grant, for the outcome grant, is the granted part of the requested permissions, in
	// the shape of Approval.Permissions.
	Grant json.RawMessage `json:"grant,omitempty"`
	// Signature is an armored signature, in the format of `ssh-keygen -Y sign`. It signs
	// the sshsig.Decision that is made from this message.
	Signature string `json:"signature,omitempty"`
}

// Interrupt ends the running turn.
type Interrupt struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Close ends the session.
type Close struct {
	By      string `json:"by,omitempty"`
	Discard bool   `json:"discard,omitempty"`
}

// Budget changes the bounds of a session; omitted values stay.
type Budget struct {
	By          string `json:"by,omitempty"`
	TurnTimeout string `json:"turn_timeout,omitempty"` // of one turn, e.g. 90m
	// The following bounds apply to the whole session; 0 means no bound.
	Tokens    *int64 `json:"tokens,omitempty"`
	Turns     *int64 `json:"turns,omitempty"`
	Time      string `json:"time,omitempty"` // of all turns together, e.g. 8h
	Approvals *int64 `json:"approvals,omitempty"`
	Commands  *int64 `json:"commands,omitempty"`
}

// Park makes an idle session give back its host and seed. The next message brings it back.
type Park struct {
	By string `json:"by,omitempty"`
}

// Resume brings back a parked session, moves an idle session, or lets a session whose host
// is lost continue on another host.
type Resume struct {
	Host string `json:"host,omitempty"` // empty means the host where it was, or any suitable host
	By   string `json:"by,omitempty"`
}

// TakeSnapshot asks for a snapshot now. The answer does not wait for the snapshot. The
// session's view shows the result of snapshot N.
type TakeSnapshot struct {
	By string `json:"by,omitempty"`
}

// SnapshotAccepted is the answer to TakeSnapshot.
type SnapshotAccepted struct {
	Session string `json:"session"`
	N       int    `json:"n"` // number among the session's snapshots, from 1
}

// Set changes the settings of a session from its next turn on; omitted values stay.
type Set struct {
	By     string  `json:"by,omitempty"`
	Model  string  `json:"model,omitempty"`
	Effort string  `json:"effort,omitempty"`
	Name   *string `json:"name,omitempty"` // empty for none
	// AnyModel accepts a model that codex does not list.
	AnyModel bool `json:"any_model,omitempty"`
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

// AskModels asks codex which models it lists.
type AskModels struct {
	By string `json:"by,omitempty"`
}

// ModelsView is the model list that codex gave last, with the model and effort that the
// session uses.
type ModelsView struct {
	Session  string    `json:"session"`
	Model    string    `json:"model"`
	Effort   string    `json:"effort"`
	Provider string    `json:"provider"`
	Codex    string    `json:"codex"`
	At       time.Time `json:"at,omitzero"` // zero if codex was never asked
	Models   []Model   `json:"models"`
	// Error says why codex gave no list when it was asked.
	Error string `json:"error,omitempty"`
}

// A Push is a request to push. Two requests with the same id are one push.
type Push struct {
	ID      string `json:"id"`
	Branch  string `json:"branch"`
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"`
}

// SessionEnded is a session's final report.
type SessionEnded struct {
	ID    string        `json:"id"`
	Run   string        `json:"run"` // first run of its workflow
	State SessionStatus `json:"state"`
	// Turn is the newest turn, or nil if none began. Its final text is cut to
	// maxEndText bytes.
	Turn    *TurnView `json:"turn,omitempty"`
	Failure *Failure  `json:"failure,omitempty"`
	// Effects says whether codex may have done anything: none, some, unknown.
	Effects   string    `json:"effects"`
	Host      string    `json:"host,omitempty"`
	Attempt   int       `json:"attempt"`
	Usage     UsageView `json:"usage"`
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at"`
	Left      string    `json:"left,omitempty"`    // why data of the session may still be on the host
	Archive   string    `json:"archive,omitempty"` // the snapshot that archives it
}

// The effects that a session may have had outside codex.
const (
	EffectsNone    = "none"    // it certainly began no command and no change
	EffectsSome    = "some"    // it began at least one
	EffectsUnknown = "unknown" // nobody knows all that one of its turns did
)

// Words of a decision.
const (
	ScopeOnce    = "once"
	ScopeSession = "session"

	AcceptForSession = "accept_for_session"
)

// NotOffered returns the first word of the decision that codex does not offer for the
// request. Declining is always possible.
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
