package owned

import (
	"context"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

// ErrGone: what is in the folder may be deleted, or is.
var ErrGone = errors.New("it is not kept in the store any more")

// Blobs is what of a store.Store it takes.
type Blobs interface {
	Put(ctx context.Context, key string, data []byte) error
	Stat(ctx context.Context, key string) (store.Info, error)
	List(ctx context.Context, prefix string) ([]store.Info, error)
	Delete(ctx context.Context, key string) error
}

// Kept says whether what has just been written into a folder will stay until its
// owner begins: ErrGone where nobody has written there for so long that it was
// given up. Who gets that begins anew, with another folder.
func Kept(ctx context.Context, st Blobs, folder string) error {
	_, err := st.Stat(ctx, prefix+folder+"/"+condemned)
	switch {
	case err == nil:
		return fmt.Errorf("folder %s: %w", folder, ErrGone)
	case errors.Is(err, store.ErrNotFound):
		return nil
	}
	return err
}

// Hold keeps blobs of others for an owner that is about to begin with them, for
// as long as it is there; ErrGone where one of them is not kept any more. Keys
// that name no blobs in folders are left alone. Doing it again is the same.
func Hold(ctx context.Context, st Blobs, by Owner, keys ...string) error {
	if err := by.Check(); err != nil {
		return err
	}
	holds := map[string]bool{}
	for _, key := range keys {
		folder, _, ok := Parse(key)
		if !ok {
			continue
		}
		if owner, _ := OwnerOf(folder); owner == by {
			continue
		}
		if !holds[folder] {
			if err := st.Put(ctx, prefix+folder+"/"+held+"/"+by.String(), nil); err != nil {
				return err
			}
			if err := Kept(ctx, st, folder); err != nil {
				return err
			}
			holds[folder] = true
		}
		// After that: a folder that is gone is condemned no more.
		if _, err := st.Stat(ctx, key); errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("%s: %w", key, ErrGone)
		} else if err != nil {
			return err
		}
	}
	return nil
}
