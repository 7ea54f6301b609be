package logins

import (
	"context"
	"errors"
	"slices"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// DeleteSeedBlobs removes a seed's blobs from the store. Missing ones are no error.
func (s *Activities) DeleteSeedBlobs(ctx context.Context, in DeleteSeedInput) error {
	err := DeleteSeed(ctx, s.Site, in)
	return kit.Failing{}.Failure(ctx, "delete seed "+in.Name, err)
}

// DeleteSeed does the work of DeleteSeedBlobs.
func DeleteSeed(ctx context.Context, s *site.Site, in DeleteSeedInput) error {
	if err := seeds.ValidName(in.Name); err != nil {
		return kit.BadInput("%v", err)
	}
	orphans, err := seeds.Orphans(ctx, s.Store, in.Name, in.Before)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(in.Blobs), func(blob string) bool { return !seeds.Owns(in.Name, blob) })
	if n := len(in.Blobs) - len(own); n > 0 {
		s.Logger.Warn("blobs that are not of the seed are not deleted", "seed", in.Name, "blobs", n)
	}
	keys := append(own, orphans...)
	return errors.Join(seeds.Delete(ctx, s.Store, keys...), seeds.DeleteIntents(ctx, s.Store, in.Name))
}

// DeleteSeedInput is the input of DeleteSeedBlobs.
type DeleteSeedInput struct {
	Name  string   `json:"name"`
	Blobs []string `json:"blobs"`
	// Before is when the seed was deleted. Blobs from before are removed even if they never
	// became a generation. Later ones belong to a new seed.
	Before time.Time `json:"before,omitzero"`
}
