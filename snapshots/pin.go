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
)

// A pin says that somebody is to go on from a snapshot, from before he is
// brought anywhere until he has one of his own. Whoever deletes a snapshot and
// whoever pins it may come at the same time, and a store compares nothing: each
// writes down what he is about to do, then looks what the other one has written.
//
//   - Who pins writes the pin, and then looks for marks of those who drop it, and
//     then for the snapshot. Without a mark, and with the snapshot, it stays.
//   - Who drops writes a mark, and then looks for pins. With one he takes his mark
//     back; without one he deletes the snapshot, and then takes his mark back.
//
// A pin is never taken back by who wrote it: he may be gone. Who drops asks
// whether the holder still is to go on from there. A mark that is older than
// anybody takes to drop a snapshot is of somebody who died.

const (
	pinPrefix  = "snapshot-pins/"  // <id>/<holder>
	dropPrefix = "snapshot-drops/" // <id>/<who>

	dropFor  = time.Minute      // to drop takes no longer, once it is marked
	dropDead = 10 * time.Minute // a mark that is older means nothing
)

// ErrDropping: somebody deletes the snapshot just now, or finds that he must not.
var ErrDropping = errors.New("it is being deleted")

// A Pin is held by a session's run.
type Pin struct{ ID, Holder string }

func (p Pin) key() string { return pinPrefix + p.ID + "/" + p.Holder }

// A HeldError refuses to delete a snapshot from which somebody is to go on.
type HeldError struct{ Pin }

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is held by %s, which is to begin with it", e.ID, e.Holder)
}

// Keep pins a snapshot for a holder, which is repeatable, and returns its
// manifest. ErrDropping means that it is to be tried again soon.
func Keep(ctx context.Context, st *store.Store, id, holder string) (Manifest, error) {
	return keep(ctx, storeBlobs{st}, Pin{id, holder})
}

func keep(ctx context.Context, st blobs, p Pin) (Manifest, error) {
	if _, err := sessionOf(p.ID); err != nil {
		return Manifest{}, err
	}
	if p.Holder == "" || strings.ContainsAny(p.Holder, "/\\") {
		return Manifest{}, fmt.Errorf("%q holds no snapshot", p.Holder)
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

// Pins are those of a snapshot, of all where id is empty.
func Pins(ctx context.Context, st *store.Store, id string) ([]Pin, error) {
	return pinsOf(ctx, storeBlobs{st}, id)
}

func pinsOf(ctx context.Context, st blobs, id string) (pins []Pin, err error) {
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

// Unpin forgets a pin of somebody who does not go on from there any more.
func Unpin(ctx context.Context, st *store.Store, p Pin) error { return st.Delete(ctx, p.key()) }

// Drop is Delete, unless somebody has pinned the snapshot who held says still
// is to go on from it: a HeldError. It forgets the pins of all others.
func Drop(ctx context.Context, st *store.Store, id string, held func(context.Context, Pin) (bool, error)) error {
	return drop(ctx, storeBlobs{st}, id, held)
}

func drop(ctx context.Context, st blobs, id string, held func(context.Context, Pin) (bool, error)) error {
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
			return fmt.Errorf("find out whether %s still is to begin with %s: %w", p.Holder, id, err)
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
	// Where it is not known whether this was done the mark stays, and dies.
	if err := st.Delete(ctx, manifestKey(session, id)); err != nil {
		return err
	}
	return st.Delete(ctx, mark)
}

// Tidy forgets marks of those who died while they dropped a snapshot.
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
