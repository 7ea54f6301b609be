package seeds

import (
	"errors"
	"fmt"
	"log/slog"
)

// A Secret prints and logs as [secret] and cannot be encoded as JSON, text or gob.
type Secret struct{ text string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text. To find every use of a secret, search for its callers.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.text == "" }

const hidden = "[secret]"

var errNoEncoding = errors.New("a secret is not to be encoded")

func (s Secret) String() string   { return hidden }
func (s Secret) GoString() string { return hidden }

// Format prints [secret] for every verb; %x and %q would bypass String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

func (s Secret) LogValue() slog.Value           { return slog.StringValue(hidden) }
func (s Secret) MarshalJSON() ([]byte, error)   { return nil, errNoEncoding }
func (s Secret) MarshalText() ([]byte, error)   { return nil, errNoEncoding }
func (s Secret) MarshalBinary() ([]byte, error) { return nil, errNoEncoding }
func (s Secret) GobEncode() ([]byte, error)     { return nil, errNoEncoding }
