package owned

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

const usersPrefix = "owned-users/"

func userKey(namespace string) string {
	sum := sha256.Sum256([]byte(namespace))
	return usersPrefix + hex.EncodeToString(sum[:8])
}

// Use records that sessions of a namespace use the store. namespace is its id, not its
// name. Use must be called before such a session can start.
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

// Alone returns an error if another namespace, whose sessions this worker does not know,
// uses the store, or if that is unknown. Then no folder may be deleted.
func Alone(ctx context.Context, st Blobs, namespace string) error {
	all, err := st.List(ctx, usersPrefix)
	if err != nil {
		return err
	}
	for _, u := range all {
		if u.Key != userKey(namespace) {
			return fmt.Errorf("another namespace of Temporal has used this store, and its sessions are not known here (if that namespace is gone for good, delete %s from the store)", u.Key)
		}
	}
	if len(all) == 0 || namespace == "" {
		return errors.New("it is not known which namespace of Temporal uses this store (start a worker, which records it)")
	}
	return nil
}
