package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// DeleteSeedBlobs removes a seed's generations from the store. Missing ones are no error.
func (s *LoginActs) DeleteSeedBlobs(ctx context.Context, in DeleteSeedInput) error {
	err := deleteSeed(ctx, s.site, in)
	return failing{}.failure(ctx, "delete seed "+in.Name, err)
}

func deleteSeed(ctx context.Context, s *site, in DeleteSeedInput) error {
	if err := seeds.ValidName(in.Name); err != nil {
		return badInput("%v", err)
	}
	orphans, err := seeds.Orphans(ctx, s.Store, in.Name, in.Before)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	keys := append(slices.Clone(in.Blobs), orphans...)
	return errors.Join(seeds.Delete(ctx, s.Store, keys...), seeds.DeleteIntents(ctx, s.Store, in.Name))
}

// DeleteSeedInput is the input of DeleteSeedBlobs.
type DeleteSeedInput struct {
	Name  string   `json:"name"`
	Blobs []string `json:"blobs"`
	// Before is when the seed was deleted. All its blobs that were in the store by then
	// are removed, also those that never became a generation. Later ones belong to a
	// new seed.
	Before time.Time `json:"before,omitzero"`
}
