package payload

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoKey means that this program does not have the payload's key.
	ErrNoKey = errors.New("encrypted with a key that is not here")
	// ErrTorn means that an encrypted payload was cut, changed or copied from elsewhere.
	ErrTorn = errors.New("payload is torn, or of another namespace")
	// ErrKeyFile means that the key file cannot be used.
	ErrKeyFile = errors.New("not a file of payload keys")
)

// An Error says why a payload cannot be decrypted and what to do. It wraps ErrNoKey or
// ErrTorn.
type Error struct {
	KeyID string   // of the needed key; empty if unknown
	Have  []string // ids of our keys
	Err   error
}

func (e *Error) Error() string {
	if errors.Is(e.Err, ErrTorn) {
		return fmt.Sprintf("decrypt a payload of Temporal's: %v", e.Err)
	}
	if e.KeyID == "" {
		return "decrypt a payload of Temporal's: it is encrypted, but not by Fairlead"
	}
	have := "none"
	if len(e.Have) > 0 {
		have = strings.Join(e.Have, ", ")
	}
	return fmt.Sprintf("decrypt a payload of Temporal's: it needs payload key %s, and this program has %s (set temporal.payload_key to the key file that the workers use; keep old keys in that file as long as histories need them)",
		e.KeyID, have)
}

func (e *Error) Unwrap() error { return e.Err }
