package payload

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoKey means that the payload is encrypted with a key that this program does not
	// have.
	ErrNoKey = errors.New("encrypted with a key that is not here")
	// ErrTorn means that the encrypted payload was cut, changed or copied from elsewhere.
	ErrTorn = errors.New("payload is torn, or of another namespace")
	// ErrKeyFile means that the key file cannot be used.
	ErrKeyFile = errors.New("not a file of payload keys")
)

// An Error says why a payload cannot be decrypted and what to do. It wraps ErrNoKey
// or ErrTorn.
type Error struct {
	KeyID string   // id of the needed key; empty if the payload does not name one
	Have  []string // ids of the keys of this program
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
	return fmt.Sprintf("decrypt a payload of Temporal's: it takes the payload key %s, and here is %s (name the key file that the workers use as temporal.payload_key in the config; an old key stays in it for as long as histories do)",
		e.KeyID, have)
}

func (e *Error) Unwrap() error { return e.Err }
