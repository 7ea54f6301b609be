package owned

import (
	"context"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

// ErrGone means that a folder is deleted or may be at any time.
var ErrGone = errors.New("it is not kept in the store any more")

// Blobs is the part of a store.Store that this package uses.
type Blobs interface {
	Put(ctx context.Context, key string, data []byte) error
	Stat(ctx context.Context, key string) (store.Info, error)
	List(ctx context.Context, prefix string) ([]store.Info, error)
	Delete(ctx context.Context, key string) error
}

// Kept returns nil if data that was just written into a folder will stay until the folder's
// owner starts. If the folder is condemned, the error is ErrGone, and the caller must use
// another one.
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

// Hold keeps blobs of other owners for as long as owner by exists. It must be called before
// by uses them, and is idempotent. It returns ErrGone if a blob is not kept any more, and
// ignores keys outside of folders.
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
		// After the condemnation, because a deleted folder has none any more.
		if _, err := st.Stat(ctx, key); errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("%s: %w", key, ErrGone)
		} else if err != nil {
			return err
		}
	}
	return nil
}
