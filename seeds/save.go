package seeds

import (
	"context"

	"fairlead.dev/fairlead/internal/store"
)

// A Ref names one generation of a seed. It holds no secret.
type Ref struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Blob       string `json:"blob"`   // key in the store
	Digest     string `json:"digest"` // of the manifest
	Kind       Kind   `json:"kind"`
}

// Save writes a bundle to the store as a generation of a seed. Each call makes
// a new blob; which one counts is decided by who keeps the Ref. A process
// without an identity can do it.
func Save(ctx context.Context, st *store.Store, name string, generation int64, b *Bundle) (Ref, error) {
	panic("pending")
}

// Load reads a generation from the store and validates it.
func Load(ctx context.Context, st *store.Store, blob string) (*Bundle, error) { panic("pending") }

// Delete removes generations from the store; those not there are success.
func Delete(ctx context.Context, st *store.Store, blobs ...string) error { panic("pending") }

// ValidName says why a name cannot be a seed's, nil if it can.
func ValidName(name string) error { panic("pending") }
