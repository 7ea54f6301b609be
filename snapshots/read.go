package snapshots

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/store"
)

// Read returns the manifest of a complete snapshot, whose parts are all in the
// store with the sizes that it says. ErrIncomplete, ErrNotFound, or the store's
// own error.
func Read(ctx context.Context, st *store.Store, id string) (Manifest, error) {
	session, err := sessionOf(id)
	if err != nil {
		return Manifest{}, err
	}
	m, err := readManifest(ctx, st, prefixOf(session, id)+manifestName)
	if errors.Is(err, store.ErrNotFound) {
		there, err := st.List(ctx, prefixOf(session, id))
		switch {
		case err != nil:
			return Manifest{}, err
		case len(there) == 0:
			return Manifest{}, fmt.Errorf("%s: %w", id, ErrNotFound)
		}
		return Manifest{}, fmt.Errorf("%s: %w: it has no manifest", id, ErrIncomplete)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", id, err)
	}
	for _, p := range m.Parts {
		switch info, err := st.Stat(ctx, p.Key); {
		case errors.Is(err, store.ErrNotFound):
			return Manifest{}, fmt.Errorf("%s: %w: %s is missing", id, ErrIncomplete, p.Key)
		case err != nil:
			return Manifest{}, err
		case info.Size != p.Stored:
			return Manifest{}, fmt.Errorf("%s: %w: %s has %d bytes, not %d", id, ErrIncomplete, p.Key, info.Size, p.Stored)
		}
	}
	return m, nil
}

func readManifest(ctx context.Context, st *store.Store, key string) (Manifest, error) {
	data, err := st.Get(ctx, key)
	if errors.Is(err, store.ErrTorn) {
		return Manifest{}, fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil || !m.Complete {
		return Manifest{}, fmt.Errorf("%w: its manifest cannot be read", ErrIncomplete)
	}
	return m, nil
}

// List returns the snapshots of a session (of all when empty), oldest first,
// the incomplete ones too, with Complete false and little else.
func List(ctx context.Context, st *store.Store, session string) ([]Manifest, error) {
	prefix := "snapshots/"
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
	byID := map[string]*Manifest{}
	for _, o := range objects {
		parts := strings.Split(o.Key, "/") // snapshots, session, id, object
		if len(parts) != 4 {
			continue
		}
		if s, err := sessionOf(parts[2]); err != nil || s != parts[1] {
			continue
		}
		m := byID[parts[2]]
		if m == nil {
			m = &Manifest{ID: parts[2], Session: parts[1], CreatedAt: o.ModTime.UTC()}
			byID[m.ID] = m
		}
		m.StoredBytes += o.Size
	}
	var found []Manifest
	for id, m := range byID {
		whole, err := Read(ctx, st, id)
		switch {
		case err == nil:
			found = append(found, whole)
		case errors.Is(err, ErrIncomplete):
			found = append(found, *m)
		case errors.Is(err, ErrNotFound): // deleted meanwhile
		default:
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b Manifest) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return found, nil
}

// Export writes a snapshot as one plain tar archive: manifest.json and the
// folders rollouts and work. Digests are checked on the way, so it is good only
// with a nil error.
func Export(ctx context.Context, st *store.Store, id string, w io.Writer) error {
	m, err := Read(ctx, st, id)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	h := &tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Size: int64(len(data)), Mode: 0o600, ModTime: m.CreatedAt, Format: tar.FormatPAX}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	if _, err := out.Write(data); err != nil {
		return err
	}
	for _, p := range m.Parts {
		if err := exportPart(ctx, st, p, out); err != nil {
			return fmt.Errorf("export %s: %w", id, err)
		}
	}
	return out.Close()
}

func exportPart(ctx context.Context, st *store.Store, part Part, out *tar.Writer) error {
	r, err := OpenPart(ctx, st, part)
	if err != nil {
		return err
	}
	defer r.Close()
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r) // to its very end, where the digest is known
			return err
		}
		if err != nil {
			return err
		}
		h.Name = part.Name + "/" + h.Name
		if h.Typeflag == tar.TypeLink {
			h.Linkname = part.Name + "/" + h.Linkname
		}
		h.Format, h.PAXRecords = tar.FormatPAX, nil
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// OpenPart reads the tar archive of one part. Its digest is checked on the
// way: what was read is good only once Read has returned io.EOF, and
// ErrIncomplete comes in its place otherwise.
func OpenPart(ctx context.Context, st *store.Store, part Part) (io.ReadCloser, error) {
	r, err := st.NewReader(ctx, part.Key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s is missing", ErrIncomplete, part.Key)
	}
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{newChecker(r, part), r}, nil
}

// Delete removes a snapshot from the store, its manifest first, so that one
// that is cut short is incomplete and not wrong. One that is not there is success.
func Delete(ctx context.Context, st *store.Store, id string) error {
	session, err := sessionOf(id)
	if err != nil {
		return err
	}
	prefix := prefixOf(session, id)
	if err := st.Delete(ctx, prefix+manifestName); err != nil {
		return err
	}
	objects, err := st.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := st.Delete(ctx, o.Key); err != nil {
			return err
		}
	}
	return nil
}
