package owned

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

// usersPrefix is the prefix of the keys that record which namespaces use the store.
const usersPrefix = "owned-users/"

func userKey(namespace string) string {
	sum := sha256.Sum256([]byte(namespace))
	return usersPrefix + hex.EncodeToString(sum[:8])
}

// Use records that sessions of a namespace use the store. namespace is the namespace's id,
// not its name. It must be called before any such session can start.
func Use(ctx context.Context, st Blobs, namespace string) error {
	if namespace == "" {
		return errors.New("the namespace has no id")
	}
	_, err := st.Stat(ctx, userKey(namespace))
	if errors.Is(err, store.ErrNotFound) {
		return st.Put(ctx, userKey(namespace), nil)
	}
	return err
}

// Alone returns an error if other namespaces use the store, or if that is unknown. If it
// does, no folder may be deleted, because this worker does not know the sessions of other
// namespaces.
func Alone(ctx context.Context, st Blobs, namespace string) error {
	all, err := st.List(ctx, usersPrefix)
	if err != nil {
		return err
	}
	for _, u := range all {
		if u.Key != userKey(namespace) {
			return fmt.Errorf("another namespace of Temporal has used this store: who is there is known to neither alone (one that is gone for good is forgotten by deleting %s from the store)", u.Key)
		}
	}
	if len(all) == 0 || namespace == "" {
		return errors.New("it is not known which namespace of Temporal uses this store (a worker that starts says so)")
	}
	return nil
}
