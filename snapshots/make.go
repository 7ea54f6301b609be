package snapshots

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// ErrLacking means that a tree's chunk is neither in the store nor was it sent.
var ErrLacking = errors.New("a chunk is missing: the store does not have it, and it was not uploaded")

// Lacking returns the digests whose chunks the store does not have.
func Lacking(ctx context.Context, c *chunks.Store, of []chunks.Digest) []chunks.Digest {
	b := c.NewBatch(ctx, chunks.BatchOptions{})
	defer b.Abort()
	var out []chunks.Digest
	for _, d := range of {
		if !b.Has(d) {
			out = append(out, d)
		}
	}
	return out
}

// Make makes a snapshot of a work folder that is on no host. entries are in order. next
// returns the chunks in turn, and nil after the last one. It may omit chunks that the store
// has. by is the principal who sends the tree, or empty.
func Make(ctx context.Context, c *chunks.Store, session, by string, at time.Time, entries []Entry, next func() ([]byte, error)) (Manifest, error) {
	return makeOf(ctx, c, session, by, at, func(batch *chunks.Batch) ([]Entry, error) {
		if err := checkEntries(entries); err != nil {
			return nil, err
		}
		for {
			data, err := next()
			if err != nil || data == nil {
				return entries, err
			}
			if _, err := batch.Put(data); err != nil {
				return nil, err
			}
		}
	})
}

// makeOf makes a snapshot of the entries that fill returns, once it has put their chunks.
func makeOf(ctx context.Context, c *chunks.Store, session, by string, at time.Time, fill func(*chunks.Batch) ([]Entry, error)) (Manifest, error) {
	spec := TakeSpec{Session: session, At: at, Facts: Facts{Work: WorkFull}}
	if err := spec.check(); err != nil {
		return Manifest{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batch := c.NewBatch(ctx, chunks.BatchOptions{})
	defer batch.Abort()
	t := &taking{ctx: ctx, c: c, batch: batch, spec: spec, began: time.Now(), manifest: Manifest{
		ID: spec.ID, Session: session, By: by, CreatedAt: at.UTC(), Facts: spec.Facts, Format: format,
	}}
	entries, err := fill(batch)
	if err != nil {
		return Manifest{}, err
	}
	out := Tree{Name: Work}
	lists := listWriter{put: batch.PutList}
	seg := segmenter{put: func(data []byte) error {
		d, err := batch.PutList(data)
		if err != nil {
			return err
		}
		return lists.add(d)
	}}
	for _, e := range entries {
		for _, r := range e.Content {
			if r.Hole == 0 && !batch.Has(r.Digest) {
				return Manifest{}, fmt.Errorf("%s: %w", e.Path, ErrLacking)
			}
		}
		if e.Kind == File {
			out.Bytes, out.Data = out.Bytes+e.Size, out.Data+e.Size-e.Holes
		}
		out.Files++
		if err := seg.add(e); err != nil {
			return Manifest{}, err
		}
	}
	if err := errors.Join(seg.end(), lists.end()); err != nil {
		return Manifest{}, err
	}
	out.Index = lists.index
	t.manifest.Trees, t.manifest.Files, t.manifest.Bytes = []Tree{out}, out.Files, out.Bytes
	return t.finish()
}

// checkEntries rejects names outside the tree, and entries that do not follow their folder.
func checkEntries(entries []Entry) error {
	folders := map[string]bool{".": true}
	seen := map[string]bool{}
	for _, e := range entries {
		switch {
		case e.Path == "" || e.Path == "." || path.Clean(e.Path) != e.Path || path.IsAbs(e.Path) || e.Path == ".." || strings.HasPrefix(e.Path, "../") || strings.ContainsRune(e.Path, 0):
			return fmt.Errorf("%q is not a clean path in a tree", e.Path)
		case !folders[path.Dir(e.Path)] || seen[e.Path]:
			return fmt.Errorf("%q is listed twice, or its folder is not listed before it", e.Path)
		case e.Kind != File && e.Kind != Dir && e.Kind != Symlink || e.Mode&^0o777 != 0 || e.Size < 0 || e.Holes < 0:
			return fmt.Errorf("%q has a kind, mode or size that a tree cannot have", e.Path)
		}
		seen[e.Path] = true
		folders[e.Path] = folders[e.Path] || e.Kind == Dir
	}
	return nil
}
