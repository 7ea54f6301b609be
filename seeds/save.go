package seeds

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// A Ref names a generation of a seed. It contains no secret.
type Ref struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Blob       string `json:"blob"`   // in the store
	Digest     string `json:"digest"` // of the manifest
	Kind       Kind   `json:"kind"`
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ValidName refuses a name that no seed can have.
func ValidName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a seed: a-z, 0-9, '.', '_' and '-', at most 63, a letter or digit first", name)
	}
	return nil
}

// Save writes a bundle to the store as a generation. Each call creates a new blob, and the
// seed's workflow decides which one counts, so concurrent imports never mix. Save needs no
// identity of the store.
func Save(ctx context.Context, st *store.Store, name string, generation int64, b *Bundle) (Ref, error) {
	if err := ValidName(name); err != nil {
		return Ref{}, err
	}
	var suffix [8]byte
	_, _ = rand.Read(suffix[:]) // never fails
	ref := refOf(name, generation, b, hex.EncodeToString(suffix[:]))
	if err := st.Create(ctx, ref.Blob, b.Bytes()); err != nil {
		return Ref{}, fmt.Errorf("save seed %s: %w", name, err)
	}
	return ref, nil
}

func refOf(name string, generation int64, b *Bundle, suffix string) Ref {
	return Ref{
		Name: name, Generation: generation, Digest: b.Manifest().Digest(), Kind: b.Kind(),
		Blob: blobPrefix(name) + fmt.Sprintf("%010d-%s", generation, suffix),
	}
}

func blobPrefix(name string) string { return "seeds/" + name + "/" }

// Owns reports whether a blob has a key that only generations of the seed have.
func Owns(name, blob string) bool {
	return ValidName(name) == nil && strings.HasPrefix(blob, blobPrefix(name))
}

// SaveAgain is Save for callers that may be killed and repeat it: it uses an existing blob
// of the bundle. It reads the blob back and checks it.
func SaveAgain(ctx context.Context, st *store.Store, name string, generation int64, b *Bundle) (Ref, error) {
	if err := ValidName(name); err != nil {
		return Ref{}, err
	}
	ref := refOf(name, generation, b, "h"+b.Manifest().Digest()[:16])
	err := st.Create(ctx, ref.Blob, b.Bytes())
	if err != nil && !errors.Is(err, store.ErrExists) {
		return Ref{}, fmt.Errorf("save seed %s: %w", name, err)
	}
	if err := verify(ctx, st, ref); err == nil || !errors.Is(err, store.ErrTorn) && !errors.Is(err, store.ErrWrongKey) {
		return ref, err
	}
	// The existing blob is unusable, and stays.
	if ref, err = Save(ctx, st, name, generation, b); err != nil {
		return Ref{}, err
	}
	return ref, verify(ctx, st, ref)
}

func verify(ctx context.Context, st *store.Store, ref Ref) error {
	b, err := Load(ctx, st, ref.Blob)
	if err != nil {
		return fmt.Errorf("read seed %s back: %w", ref.Name, err)
	}
	if b.Manifest().Digest() != ref.Digest {
		return fmt.Errorf("read seed %s back: %w: its files differ", ref.Name, store.ErrTorn)
	}
	return nil
}

// clocks is the tolerated difference between the store's clock and ours.
const clocks = 10 * time.Second

// Orphans lists a seed's blobs that may never have become a generation, for a purge: logins
// that codex or a refresh made, and all older than before. A later import may belong to the
// next seed of that name.
func Orphans(ctx context.Context, st *store.Store, name string, before time.Time) ([]string, error) {
	found, err := generations(ctx, st, name)
	var blobs []string
	for _, i := range found {
		_, suffix, _ := strings.Cut(path.Base(i.Key), "-")
		if strings.HasPrefix(suffix, "h") || strings.HasPrefix(suffix, "r") || i.ModTime.Before(before.Add(-clocks)) {
			blobs = append(blobs, i.Key)
		}
	}
	return blobs, err
}

func generations(ctx context.Context, st *store.Store, name string) ([]store.Info, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	found, err := st.List(ctx, blobPrefix(name))
	if err != nil {
		return nil, fmt.Errorf("list seed %s: %w", name, err)
	}
	return found, nil
}

// Newest lists a seed's n newest blobs, the newest generation first. Some may never have
// become a generation.
func Newest(ctx context.Context, st *store.Store, name string, n int) ([]string, error) {
	found, err := generations(ctx, st, name)
	if err != nil {
		return nil, err
	}
	var blobs []string
	for _, i := range found {
		blobs = append(blobs, i.Key)
	}
	slices.Sort(blobs)
	slices.Reverse(blobs)
	return blobs[:min(n, len(blobs))], nil
}

// Load reads and validates a generation.
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

// Delete removes blobs. A missing one is no error.
func Delete(ctx context.Context, st *store.Store, blobs ...string) error {
	var errs []error
	for _, blob := range blobs {
		if err := st.Delete(ctx, blob); err != nil {
			errs = append(errs, fmt.Errorf("delete seed: %w", err))
		}
	}
	return errors.Join(errs...)
}
