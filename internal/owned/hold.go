package owned

import (
	"context"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

// ErrGone: the contents of the folder may be deleted, or are.
var ErrGone = errors.New("it is not kept in the store any more")

// Blobs is the part of a store.Store that this package uses.
type Blobs interface {
	Put(ctx context.Context, key string, data []byte) error
	Stat(ctx context.Context, key string) (store.Info, error)
	List(ctx context.Context, prefix string) ([]store.Info, error)
	Delete(ctx context.Context, key string) error
}

// Kept returns nil if what was just written into a folder will stay until its owner
// starts, and ErrGone if the folder was condemned after nobody had written there for
// long. The caller must then use another folder.
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

// Hold keeps blobs of other owners for as long as owner by exists. It must be called
// before by uses them, and is idempotent. It is ErrGone if a blob is not kept any
// more. Keys outside of folders are ignored.
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
		// Check the blob after that: a deleted folder is no longer condemned.
		if _, err := st.Stat(ctx, key); errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("%s: %w", key, ErrGone)
		} else if err != nil {
			return err
		}
	}
	return nil
}
