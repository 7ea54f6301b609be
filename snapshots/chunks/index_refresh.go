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

// refresh brings the index in memory up to date. It lists markers before index blobs. So a
// pack without a marker that a listed index blob names was not deleted before the markers
// were listed.
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
	// Blobs that this process adds meanwhile may not be listed yet.
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
	if missing { // another worker has merged that blob
		return true, nil
	}
	c.index.drop(vanished)
	return false, nil
}

// salvage adds packs that no index names to the index in memory when a chunk is missing:
// the index blob was lost, or the pack's capture was killed or has not indexed it yet. No
// batch begins to rely on such packs. If a snapshot needs one, prune indexes it.
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

// readIndexes reads new index blobs. missing says that one vanished after it was listed.
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
				// Encryption shows that the data is unchanged, so a newer program wrote the
				// blob. Without it, this program does not know all packs and must not go
				// on.
				packs, err = readIndex(data)
			}
			switch {
			case errors.Is(err, store.ErrNotFound):
				mu.Lock()
				missing = true
				mu.Unlock()
				return nil
			case errors.Is(err, store.ErrTorn):
				// Prune indexes its packs again. Until then captures store their chunks
				// again.
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
