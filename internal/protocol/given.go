package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A GivenText is a text that whoever starts a session gives to codex. A long one is in the
// store, and is checked by its digest when it is read.
type GivenText struct {
	Text   string `json:"text,omitempty"`
	Blob   string `json:"blob,omitempty"` // key in the store, in place of Text
	Digest string `json:"digest"`         // hex SHA-256
	Bytes  int    `json:"bytes"`
}

const (
	// MaxGiven bounds each of the instructions of organisation and session, and base
	// instructions, in bytes.
	MaxGiven = 64 << 10
	// MaxGivenInline bounds the text that ctl does not put into the store.
	MaxGivenInline = 4 << 10
	// MaxAgentsFile bounds the AGENTS.md that is made of the instructions of organisation,
	// seed and session.
	MaxAgentsFile = 256 << 10
)

// Give returns a text as it is given inline.
func Give(text string) *GivenText {
	if text == "" {
		return nil
	}
	return &GivenText{Text: text, Digest: digestOf(text), Bytes: len(text)}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Check returns an error if no session may be started with g. what names the text in errors.
func (g *GivenText) Check(what string, isBlob func(key string) bool) error {
	switch {
	case g == nil:
		return nil
	case (g.Text == "") == (g.Blob == ""):
		return fmt.Errorf("%s: want a text or the key of one, not both", what)
	case g.Blob != "" && !isBlob(g.Blob):
		return fmt.Errorf("%s: blob is not a key that the worker's API returned for a text: send the text through the API (ctl does so)", what)
	case g.Bytes < 1 || g.Bytes > MaxGiven:
		return fmt.Errorf("%s: %d bytes, want 1 to %d", what, g.Bytes, MaxGiven)
	case len(g.Digest) != sha256.Size*2:
		return fmt.Errorf("%s: digest is not the SHA-256 of the text in hex", what)
	case g.Text != "":
		return g.Is(g.Text, what)
	}
	return nil
}

// Is returns an error if text is not the given one.
func (g *GivenText) Is(text, what string) error {
	switch {
	case len(text) != g.Bytes || digestOf(text) != g.Digest:
		return fmt.Errorf("%s: the text does not match its digest", what)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fmt.Errorf("%s: it is not text in UTF-8", what)
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%s: it is blank", what)
	}
	return nil
}

// BlobKey returns the key of a text in the store, or "".
func (g *GivenText) BlobKey() string {
	if g == nil {
		return ""
	}
	return g.Blob
}

// Whose instructions a part of AGENTS.md is.
const (
	OfOrganisation = "organisation"
	OfSeed         = "seed"
	OfSession      = "session"
)

// Instructions are what codex is told before all messages, as they were when the session's
// host was last prepared.
type Instructions struct {
	Session string    `json:"session"`
	At      time.Time `json:"at"`
	Host    string    `json:"host"`
	// File is the file of CODEX_HOME that codex reads, and Text its whole content. They are
	// empty if there are no parts.
	File  string            `json:"file,omitempty"`
	Text  string            `json:"text,omitempty"`
	Parts []InstructionPart `json:"parts"` // in the order of Text
	// Base replaces codex's own base instructions; empty means that codex has its own.
	Base string `json:"base,omitempty"`
	// BaseBytes is the length of base instructions in the store whose text is not at hand.
	BaseBytes int `json:"base_bytes,omitempty"`
	// Developer are the developer instructions. Workers leave them out: the session has them.
	Developer string `json:"developer,omitempty"`
}

// An InstructionPart is the part of one author.
type InstructionPart struct {
	Of   string `json:"of"`             // organisation, seed or session
	Name string `json:"name,omitempty"` // of the seed
	Text string `json:"text"`
	// Bytes is the length of a part in the store whose text is not at hand.
	Bytes int `json:"bytes,omitempty"`
}

// GivenView shows what was given to a session. Long texts are keys: see Instructions.
type GivenView struct {
	Agents *GivenText `json:"agents,omitempty"`
	Base   *GivenText `json:"base,omitempty"`
	// Tools are those of a team.
	Tools *ToolsGiven `json:"tools,omitempty"`
}
