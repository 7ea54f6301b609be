package conn

import (
	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/internal/flows"
)

// KeyFlags holds --key, which makes a start repeatable.
type KeyFlags struct{ key string }

func (f *KeyFlags) Add(c *cobra.Command, what string) {
	c.Flags().StringVar(&f.key, "key", "", "a `TEXT` that identifies this request: repeating the request with it returns the same "+what+", and starts no second one; a different request with it is refused")
}

// Request returns the claim of a start, or nil without a key. id is the user's choice, or
// empty. what lists all values that identify the request.
func (f *KeyFlags) Request(kind, id string, what ...any) (*Keyed, error) {
	if err := flows.CheckKey("--key", f.key); err != nil {
		return nil, err
	}
	return flows.RequestOf(f.key, kind, id, what...)
}
