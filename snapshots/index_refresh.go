package snapshots

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/internal/store"
)

// refreshReaders is how many index blobs are read at once.
const refreshReaders = 8

// refresh brings the index up to date with the store: what other workers
// added, merged and condemned. Markers are listed first: a pack that has none
// by then and is still named by an index that is listed later was not deleted
// before.
func (c *Chunks) refresh(ctx context.Context) (err error) {
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
	return errors.New("others change it all the time (try again)")
}

func (c *Chunks) refreshOnce(ctx context.Context) (again bool, err error) {
	markers, err := c.ids(ctx, markerPrefix)
	if err != nil {
		return false, err
	}
	// What we add ourselves meanwhile may not be listed yet.
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
	if missing { // merged into another one meanwhile
		return true, nil
	}
	c.index.drop(vanished)
	return false, nil
}

// salvage reads the packs that no index names and takes them into memory for
// who misses a chunk: their index was lost, or their capture was killed or is
// about to index them. Nothing newly relies on them; what a snapshot needs in
// them prune indexes anew.
func (c *Chunks) salvage(ctx context.Context) error {
	listed, err := c.blobs.List(ctx, packPrefix)
	if err != nil {
		return err
	}
	for _, info := range listed {
		id, ok := idOf(info.Key, packPrefix)
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

// ids lists what lies below a prefix.
func (c *Chunks) ids(ctx context.Context, prefix string) ([]packID, error) {
	found, err := c.blobs.List(ctx, prefix)
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

// readIndexes reads the index blobs that are not known yet. missing says that
// one vanished between the list and now.
func (c *Chunks) readIndexes(ctx context.Context, listed []packID) (missing bool, err error) {
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
			data, err := c.blobs.Get(ctx, indexPrefix+id.String())
			var packs []indexedPack
			if err == nil {
				// What was decrypted is what was written, so an error here is
				// of a program newer than this, which knows packs that we do
				// not: nothing is done without them.
				packs, err = readIndex(data)
			}
			switch {
			case errors.Is(err, store.ErrNotFound):
				mu.Lock()
				missing = true
				mu.Unlock()
				return nil
			case errors.Is(err, store.ErrTorn):
				// Its packs tell themselves: prune makes it anew. Until then
				// what is in them is stored once more, or is missing.
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
