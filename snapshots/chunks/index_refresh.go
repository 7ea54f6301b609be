package chunks

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/store"
)

const refreshReaders = 8

// refresh brings the index up to date with what other workers added, merged and condemned.
// It lists markers first: a pack that has no marker by then, and is named by an index
// listed later, was not deleted before.
func (c *Store) refresh(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bring the index of chunks up to date: %w", err)
		}
	}()
	select {
	case c.refreshing <- struct{}{}:
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for range 10 {
		again, err := c.refreshOnce(ctx)
		if err != nil || !again {
			return err
		}
	}
	return errors.New("other processes keep changing it (try again)")
}

func (c *Store) refreshOnce(ctx context.Context) (again bool, err error) {
	markers, err := c.ids(ctx, markerPrefix)
	if err != nil {
		return false, err
	}
	// What we add meanwhile may not be listed yet.
	c.mu.Lock()
	before := make([]packID, 0, len(c.index.blobs))
	for id := range c.index.blobs {
		before = append(before, id)
	}
	c.mu.Unlock()
	listed, err := c.ids(ctx, indexPrefix)
	if err != nil {
		return false, err
	}
	missing, err := c.readIndexes(ctx, listed)
	if err != nil {
		return false, err
	}
	there := make(map[packID]bool, len(listed))
	for _, id := range listed {
		there[id] = true
	}
	var vanished []packID
	for _, id := range before {
		if !there[id] {
			vanished = append(vanished, id)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.condemn(markers)
	if missing { // a blob was merged into another one meanwhile
		return true, nil
	}
	c.index.drop(vanished)
	return false, nil
}

// salvage adds packs that no index names to the index in memory, for a caller that misses a
// chunk. Their index was lost, or their capture was killed or will index them soon. No
// batch newly relies on them. If a snapshot needs them, prune indexes them again.
func (c *Store) salvage(ctx context.Context) error {
	listed, err := c.Blobs.List(ctx, PackPrefix)
	if err != nil {
		return err
	}
	for _, info := range listed {
		id, ok := idOf(info.Key, PackPrefix)
		c.mu.Lock()
		n, known := c.index.byID[id]
		known = known && !c.index.packs[n].gone
		c.mu.Unlock()
		if !ok || known {
			continue
		}
		p, err := c.openPack(ctx, id)
		switch {
		case spoiled(err):
			continue
		case err != nil:
			return err
		}
		p.Close()
		c.mu.Lock()
		c.index.salvage(indexedPack{id: id, stored: info.Size, created: info.ModTime, table: p.table})
		c.mu.Unlock()
	}
	return nil
}

func (c *Store) ids(ctx context.Context, prefix string) ([]packID, error) {
	found, err := c.Blobs.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	ids := make([]packID, 0, len(found))
	for _, f := range found {
		if id, ok := idOf(f.Key, prefix); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// readIndexes reads the new index blobs. missing says that one vanished after it was
// listed.
func (c *Store) readIndexes(ctx context.Context, listed []packID) (missing bool, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(refreshReaders)
	for _, id := range listed {
		c.mu.Lock()
		_, known := c.index.blobs[id]
		c.mu.Unlock()
		if known {
			continue
		}
		g.Go(func() error {
			data, err := c.Blobs.Get(ctx, indexPrefix+id.String())
			var packs []indexedPack
			if err == nil {
				// Decrypted data is what was written, so this error means that a newer
				// program wrote the blob. It names packs that we do not know, so nothing
				// may be done without it.
				packs, err = readIndex(data)
			}
			switch {
			case errors.Is(err, store.ErrNotFound):
				mu.Lock()
				missing = true
				mu.Unlock()
				return nil
			case errors.Is(err, store.ErrTorn):
				// Prune indexes its packs again. Until then their chunks are stored once
				// more, or are missing.
				c.log.Error("index of chunks cannot be read", "key", indexPrefix+id.String(), "error", err)
			case err != nil:
				return fmt.Errorf("%s%s: %w", indexPrefix, id, err)
			}
			c.mu.Lock()
			c.index.add(id, packs)
			c.mu.Unlock()
			return nil
		})
	}
	return missing, g.Wait()
}
