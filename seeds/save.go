package seeds

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

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

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ValidName says why a name cannot be a seed's, nil if it can.
func ValidName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a seed: a-z, 0-9, '.', '_' and '-', at most 63, a letter or digit first", name)
	}
	return nil
}

// Save writes a bundle to the store as a generation of a seed. Each call makes
// a new blob; which one counts is decided by who keeps the Ref, so two imports
// at once never mix. A process without an identity can do it.
func Save(ctx context.Context, st *store.Store, name string, generation int64, b *Bundle) (Ref, error) {
	if err := ValidName(name); err != nil {
		return Ref{}, err
	}
	var suffix [8]byte
	_, _ = rand.Read(suffix[:]) // never fails
	ref := Ref{
		Name: name, Generation: generation, Digest: b.Manifest().Digest(), Kind: b.Kind(),
		Blob: fmt.Sprintf("seeds/%s/%010d-%s", name, generation, hex.EncodeToString(suffix[:])),
	}
	if err := st.Create(ctx, ref.Blob, b.Bytes()); err != nil {
		return Ref{}, fmt.Errorf("save seed %s: %w", name, err)
	}
	return ref, nil
}

// Load reads a generation from the store and validates it.
func Load(ctx context.Context, st *store.Store, blob string) (*Bundle, error) {
	data, err := st.Get(ctx, blob)
	if err != nil {
		return nil, fmt.Errorf("load seed: %w", err)
	}
	b, err := Unpack(data)
	if err != nil {
		return nil, fmt.Errorf("load seed %s: %w", blob, err)
	}
	return b, nil
}

// Delete removes generations from the store; those not there are success.
func Delete(ctx context.Context, st *store.Store, blobs ...string) error {
	var errs []error
	for _, blob := range blobs {
		if err := st.Delete(ctx, blob); err != nil {
			errs = append(errs, fmt.Errorf("delete seed: %w", err))
		}
	}
	return errors.Join(errs...)
}
