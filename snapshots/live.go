package snapshots

import (
	"context"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// Live returns a function for Prune and Check that yields every chunk that a complete
// snapshot needs, some repeatedly. If the lists of a snapshot cannot be read, the error
// names the snapshot, and nothing may be pruned until it is deleted. If there is a snapshot
// of a newer version, the error wraps ErrNewer.
func Live(c *chunks.Store) func(ctx context.Context, yield func(chunks.Digest) error) error {
	return func(ctx context.Context, yield func(chunks.Digest) error) error {
		all, err := list(ctx, c.Blobs, "")
		if err != nil {
			return err
		}
		reader := c.NewReader(ctx)
		defer reader.Close()
		seen := map[chunks.IndexKey]struct{}{}
		for _, m := range all {
			if m.Newer() {
				return fmt.Errorf("find out what snapshot %s needs: %w", m.ID, ErrNewer)
			}
			if !m.Complete {
				continue
			}
			if err := m.needs(reader.Get, seen, yield); err != nil {
				return fmt.Errorf("find out what snapshot %s needs (`ctl snapshot delete %s` gives it up): %w", m.ID, m.ID, err)
			}
		}
		return nil
	}
}

// needs skips lists that are in seen.
func (m Manifest) needs(get getter, seen map[chunks.IndexKey]struct{}, yield func(chunks.Digest) error) error {
	once := func(d chunks.Digest) (bool, error) {
		if _, was := seen[chunks.KeyOf(d)]; was {
			return false, nil
		}
		seen[chunks.KeyOf(d)] = struct{}{}
		return true, yield(d)
	}
	for _, t := range m.Trees {
		for _, d := range t.Index {
			fresh, err := once(d)
			if err != nil {
				return err
			}
			if !fresh {
				continue
			}
			part := Tree{Index: []chunks.Digest{d}}
			if err := part.eachSegment(get, func(d chunks.Digest) error { return needsOfSegment(d, get, once, yield) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func needsOfSegment(d chunks.Digest, get getter, once func(chunks.Digest) (bool, error), yield func(chunks.Digest) error) error {
	fresh, err := once(d)
	if err != nil || !fresh {
		return err
	}
	data, err := get(d)
	if err != nil {
		return err
	}
	return decodeSegment(data, func(e Entry) error {
		if e.flags&listed != 0 {
			for _, l := range e.Content {
				if err := yield(l.Digest); err != nil {
					return err
				}
			}
		}
		return e.eachRef(get, func(r Ref) error {
			if r.Hole > 0 {
				return nil
			}
			return yield(r.Digest)
		})
	})
}

// Damage describes a snapshot that cannot be restored as it was.
type Damage struct {
	ID      string
	Problem error
	Files   []string // some of those affected
	Count   int64
}

// FindDamage returns the snapshots that are incomplete, need a chunk for which bad returns
// an error, or have lists that cannot be read. If there is a snapshot of a newer version,
// the error wraps ErrNewer.
func FindDamage(ctx context.Context, c *chunks.Store, bad func(chunks.Digest) error) (snapshots int, damaged []Damage, err error) {
	all, err := list(ctx, c.Blobs, "")
	if err != nil {
		return 0, nil, err
	}
	for _, m := range all {
		if m.Newer() {
			return 0, nil, fmt.Errorf("look at snapshot %s: %w", m.ID, ErrNewer)
		}
		if !m.Complete {
			damaged = append(damaged, Damage{ID: m.ID, Problem: ErrIncomplete})
			continue
		}
		snapshots++
		d, err := m.damage(ctx, c, bad)
		if err != nil {
			return snapshots, damaged, err
		}
		if d.Problem != nil {
			damaged = append(damaged, d)
		}
	}
	return snapshots, damaged, nil
}

func (m Manifest) damage(ctx context.Context, c *chunks.Store, bad func(chunks.Digest) error) (Damage, error) {
	d := Damage{ID: m.ID}
	reader := c.NewReader(ctx)
	defer reader.Close()
	get := reader.Get
	for _, t := range m.Trees {
		err := t.each(get, func(e Entry) error {
			err := e.eachRef(get, func(r Ref) error {
				if r.Hole > 0 {
					return nil
				}
				return bad(r.Digest)
			})
			if err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if d.Problem == nil {
				d.Problem = err
			}
			if d.Count++; len(d.Files) < maxListed {
				d.Files = append(d.Files, t.Name+"/"+e.Path)
			}
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return d, context.Cause(ctx)
		case errors.Is(err, chunks.ErrMissing), errors.Is(err, chunks.ErrRotten), errors.Is(err, errEncoding):
			d.Problem = fmt.Errorf("its list of %s cannot be read: %w", t.Name, err)
		case err != nil:
			return d, err
		}
	}
	return d, nil
}
