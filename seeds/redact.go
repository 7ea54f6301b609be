package seeds

// KnownSecrets returns the secrets that a bundle holds: tokens and keys of
// auth.json, and of config.toml whatever its key's name calls a secret.
func KnownSecrets(b *Bundle) []Secret { panic("pending") }

// A Redactor finds known secrets in text, raw and in the forms in which they
// travel (JSON-escaped, URL-escaped, base64, hex). Secrets of less than
// MinSecret bytes are not looked for: they would be found everywhere. The zero
// value and nil find nothing. It is safe for concurrent use.
type Redactor struct{}

// MinSecret is the length in bytes from which a secret is looked for.
const MinSecret = 8

// NewRedactor makes a redactor for the secrets of one seed.
func NewRedactor(seed string, secrets []Secret) *Redactor { panic("pending") }

// Bytes returns p with each secret replaced by [redacted:<seed>]; p itself
// where there is none. Redact before cutting an excerpt, not after.
func (r *Redactor) Bytes(p []byte) []byte { panic("pending") }

// String is Bytes for strings.
func (r *Redactor) String(s string) string { panic("pending") }

// Error returns err with its text redacted, still matching errors.Is and As;
// err itself where there is nothing to hide.
func (r *Redactor) Error(err error) error { panic("pending") }

// Stream redacts text that comes in pieces: a secret is found across them.
func (r *Redactor) Stream() *Stream { panic("pending") }

// MaskStream is Stream with each secret overwritten by as many '*', so that
// offsets stay what they were.
func (r *Redactor) MaskStream() *Stream { panic("pending") }

// A Stream holds back the end of a piece only while it may be the beginning
// of a secret. It is not safe for concurrent use.
type Stream struct{}

// Next takes a piece and returns what may be shown by now, good until the next call.
func (s *Stream) Next(p []byte) []byte { panic("pending") }

// Flush returns what was held back; the stream begins anew.
func (s *Stream) Flush() []byte { panic("pending") }

// Count is how many secrets were found so far.
func (s *Stream) Count() int { panic("pending") }
