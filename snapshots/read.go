package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// Read returns the manifest of a complete snapshot; the content is not checked. The error
// wraps ErrIncomplete, ErrNotFound or ErrNewer, or is one of the store.
func Read(ctx context.Context, st *store.Store, id string) (Manifest, error) {
	return read(ctx, chunks.StoreBlobs{Store: st}, id)
}

func read(ctx context.Context, st chunks.Blobs, id string) (Manifest, error) {
	session, err := sessionOf(id)
	if err != nil {
		return Manifest{}, err
	}
	m, err := readManifest(ctx, st, id, manifestKey(session, id))
	if errors.Is(err, store.ErrNotFound) {
		return Manifest{}, fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", id, err)
	}
	return m, nil
}

// readManifest returns a partial manifest together with ErrNewer.
func readManifest(ctx context.Context, st chunks.Blobs, id, key string) (Manifest, error) {
	data, err := st.Get(ctx, key)
	if errors.Is(err, store.ErrTorn) {
		return Manifest{}, fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	switch err := json.Unmarshal(data, &m); {
	case err != nil || m.Format > format:
		return newer(id, data)
	case !m.Complete || m.ID != id:
		return Manifest{}, fmt.Errorf("%w: its manifest is not marked complete, or has the id of another snapshot", ErrIncomplete)
	}
	return m, nil
}

// newer returns what is known of a manifest that this version cannot parse. Encryption
// shows that it is unchanged, so a newer program wrote it.
func newer(id string, data []byte) (Manifest, error) {
	var head struct {
		Format int `json:"format"`
	}
	_ = json.Unmarshal(data, &head) // without a format, Format stays 0
	m := Manifest{ID: id, Format: max(head.Format, format+1)}
	var taken struct {
		At time.Time `json:"created_at"`
	}
	if json.Unmarshal(data, &taken) == nil {
		m.CreatedAt = taken.At
	}
	return m, fmt.Errorf("%w: its format is %d, and this version reads up to %d", ErrNewer, m.Format, format)
}

// List returns the snapshots of a session, or of all if session is empty, oldest first. If
// one is incomplete or [Manifest.Newer], Complete is false and most fields are empty.
func List(ctx context.Context, st *store.Store, session string) ([]Manifest, error) {
	return list(ctx, chunks.StoreBlobs{Store: st}, session)
}

func list(ctx context.Context, st chunks.Blobs, session string) ([]Manifest, error) {
	prefix := snapshotsPrefix
	if session != "" {
		if !validSession.MatchString(session) {
			return nil, fmt.Errorf("%q is not the id of a session", session)
		}
		prefix += session + "/"
	}
	objects, err := st.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var found []Manifest
	for _, o := range objects {
		parts := strings.Split(o.Key, "/")
		if len(parts) != 4 || parts[3] != manifestName {
			continue
		}
		if s, err := sessionOf(parts[2]); err != nil || s != parts[1] {
			continue
		}
		m, err := readManifest(ctx, st, parts[2], o.Key)
		switch {
		case err == nil:
		case errors.Is(err, ErrNewer):
			m.Session, m.StoredBytes = parts[1], o.Size
			if m.CreatedAt.IsZero() {
				m.CreatedAt = o.ModTime.UTC()
			}
		case errors.Is(err, ErrIncomplete):
			m = Manifest{ID: parts[2], Session: parts[1], CreatedAt: o.ModTime.UTC(), StoredBytes: o.Size}
		case errors.Is(err, store.ErrNotFound): // deleted meanwhile
			continue
		default:
			return nil, err
		}
		found = append(found, m)
	}
	sortByTime(found)
	return found, nil
}

func sortByTime(all []Manifest) {
	slices.SortFunc(all, func(a, b Manifest) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// Delete deletes a snapshot's manifest, if it exists. The next Prune frees its chunks. A
// snapshot of a newer version stays, and the error wraps ErrNewer.
func Delete(ctx context.Context, st *store.Store, id string) error {
	session, err := sessionOf(id)
	if err == nil {
		err = mayDelete(ctx, chunks.StoreBlobs{Store: st}, id)
	}
	if err != nil {
		return err
	}
	return st.Delete(ctx, manifestKey(session, id))
}

func mayDelete(ctx context.Context, st chunks.Blobs, id string) error {
	_, err := read(ctx, st, id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrIncomplete) {
		return nil
	}
	return err
}
