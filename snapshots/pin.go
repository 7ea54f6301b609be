package snapshots

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// A pin says that a session will continue from a snapshot. It is written before the session
// is prepared on a host, and is needed until the session has a snapshot of its own. A store
// has no compare-and-swap, so Keep and Drop first write their intent, and then look for
// that of the other:
//
//   - Keep writes the pin, then looks for marks of drops, then for the snapshot. Without a
//     mark the snapshot is safe.
//   - Drop writes a mark, then looks for pins. If there is one, it removes the mark.
//     Otherwise it deletes the snapshot, and then the mark.
//
// The writer of a pin may die, so Drop asks whether the holder still needs the snapshot.

const (
	pinPrefix  = "snapshot-pins/"  // <id>/<holder>
	dropPrefix = "snapshot-drops/" // <id>/<who>

	dropFor  = time.Minute      // limit of a drop after its mark is written
	dropDead = 10 * time.Minute // an older mark is of a dead process
)

// ErrDropping means that a deletion has begun. It may still find the new pin and stop, so
// try again soon.
var ErrDropping = errors.New("the snapshot is being deleted (try again soon)")

// A Pin is held by a run of a session.
type Pin struct{ ID, Holder string }

func (p Pin) key() string { return pinPrefix + p.ID + "/" + p.Holder }

// A HeldError means that a snapshot stays because a session will continue from it.
type HeldError struct{ Pin }

func (e *HeldError) Error() string {
	return fmt.Sprintf("snapshot %s is not deleted: %s is going to continue from it", e.ID, e.Holder)
}

// Keep pins a snapshot for a holder and returns the manifest. It may be repeated.
func Keep(ctx context.Context, st *store.Store, id, holder string) (Manifest, error) {
	return keep(ctx, chunks.StoreBlobs{Store: st}, Pin{id, holder})
}

func keep(ctx context.Context, st chunks.Blobs, p Pin) (Manifest, error) {
	if _, err := sessionOf(p.ID); err != nil {
		return Manifest{}, err
	}
	if p.Holder == "" || strings.ContainsAny(p.Holder, "/\\") {
		return Manifest{}, fmt.Errorf("%q is not a valid holder of a snapshot", p.Holder)
	}
	if err := st.Put(ctx, p.key(), nil); err != nil {
		return Manifest{}, err
	}
	now, err := st.Stat(ctx, p.key())
	if err != nil {
		return Manifest{}, err
	}
	marks, err := st.List(ctx, dropPrefix+p.ID+"/")
	if err != nil {
		return Manifest{}, err
	}
	for _, m := range marks {
		if now.ModTime.Sub(m.ModTime) < dropDead {
			return Manifest{}, fmt.Errorf("%s: %w", p.ID, ErrDropping)
		}
	}
	return read(ctx, st, p.ID)
}

// Pins returns the pins of a snapshot, or all if id is empty.
func Pins(ctx context.Context, st *store.Store, id string) ([]Pin, error) {
	return pinsOf(ctx, chunks.StoreBlobs{Store: st}, id)
}

func pinsOf(ctx context.Context, st chunks.Blobs, id string) (pins []Pin, err error) {
	prefix := pinPrefix
	if id != "" {
		prefix += id + "/"
	}
	found, err := st.List(ctx, prefix)
	for _, o := range found {
		if id, holder, ok := strings.Cut(strings.TrimPrefix(o.Key, pinPrefix), "/"); ok {
			pins = append(pins, Pin{id, holder})
		}
	}
	return pins, err
}

// Unpin removes a pin.
func Unpin(ctx context.Context, st *store.Store, p Pin) error { return st.Delete(ctx, p.key()) }

// Drop deletes a snapshot, and its pins for which held returns false. If held returns true
// for one, the snapshot stays and the error is a *HeldError.
func Drop(ctx context.Context, st *store.Store, id string, held func(context.Context, Pin) (bool, error)) error {
	return drop(ctx, chunks.StoreBlobs{Store: st}, id, held)
}

func drop(ctx context.Context, st chunks.Blobs, id string, held func(context.Context, Pin) (bool, error)) error {
	session, err := sessionOf(id)
	if err == nil {
		err = mayDelete(ctx, st, id)
	}
	if err != nil {
		return err
	}
	pins, err := pinsOf(ctx, st, id)
	if err != nil {
		return err
	}
	for _, p := range pins {
		holds, err := held(ctx, p)
		if err != nil {
			return fmt.Errorf("find out whether %s still needs snapshot %s: %w", p.Holder, id, err)
		}
		if holds {
			return &HeldError{p}
		}
		if err := st.Delete(ctx, p.key()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dropFor)
	defer cancel()
	var who [8]byte
	rand.Read(who[:])
	mark := dropPrefix + id + "/" + hex.EncodeToString(who[:])
	if err := st.Put(ctx, mark, nil); err != nil {
		return err
	}
	pins, err = pinsOf(ctx, st, id)
	if err != nil {
		return errors.Join(err, st.Delete(ctx, mark))
	}
	if len(pins) > 0 {
		return errors.Join(&HeldError{pins[0]}, st.Delete(ctx, mark))
	}
	// If the outcome is unknown, the mark stays until it expires.
	if err := st.Delete(ctx, manifestKey(session, id)); err != nil {
		return err
	}
	return st.Delete(ctx, mark)
}

// Tidy removes marks of processes that died.
func Tidy(ctx context.Context, st *store.Store, now time.Time) error {
	marks, err := st.List(ctx, dropPrefix)
	if err != nil {
		return err
	}
	for _, m := range marks {
		if now.Sub(m.ModTime) > 24*time.Hour {
			if err := st.Delete(ctx, m.Key); err != nil {
				return err
			}
		}
	}
	return nil
}
