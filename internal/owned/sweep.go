package owned

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

const (
	// Unbegun is how long a folder is kept after its last write, because its owner may not
	// have started yet.
	Unbegun = 7 * 24 * time.Hour
	// Apart is how long a folder must have been unneeded before it is deleted.
	Apart = 24 * time.Hour

	// clockKey is written to learn the store's time.
	clockKey = "owned-clock"

	askAtOnce = 8
)

// A Sweep deletes the folders that nobody needs. Several may run at once, and any may be
// killed.
type Sweep struct {
	Store Blobs
	// Ask reports whether Temporal knows an owner, running or ended. An error means that
	// Ask cannot find out now.
	Ask func(context.Context, Owner) (there bool, err error)
	// Alone returns an error if owners that Ask does not know may have folders in the
	// store. It is called after the folders are listed.
	Alone func(context.Context) error
	// Most bounds the number of deleted blobs. The last folder may exceed it.
	Most int
	// Tell gets the progress; it may be nil.
	Tell func(step string, done, total int64)
}

// A Swept is the result of a sweep. Blobs and Bytes are those of deleted folders.
type Swept struct {
	Folders int   `json:"folders"`
	Deleted int   `json:"deleted"`
	Blobs   int   `json:"blobs"`
	Bytes   int64 `json:"bytes"`
	Marked  int   `json:"marked"` // not needed; deleted if still not needed after a day
	Left    int   `json:"left,omitempty"`
	// Records are blobs that sessions wrote outside folders. A Sweep leaves it 0.
	Records int `json:"records,omitempty"`
	// Problems concern single folders, or say why nothing was deleted.
	Problems []string `json:"problems,omitempty"`
}

const mostProblems = 20

func (s *Swept) problem(format string, args ...any) {
	if len(s.Problems) < mostProblems {
		s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
	}
}

type contents struct {
	folder            string
	owner             Owner
	holders           []holder
	blobs             []store.Info
	missed, condemned *store.Info
	newest            time.Time // write of a blob or holder
}

type holder struct {
	Owner
	info store.Info
}

// Run sweeps once.
func (s Sweep) Run(ctx context.Context) (Swept, error) {
	var out Swept
	all, now, err := s.look(ctx, prefix)
	if err != nil {
		return out, err
	}
	folders := sorted(all, &out)
	out.Folders = len(folders)
	if err := s.Alone(ctx); err != nil {
		out.problem("nothing is deleted: %v", err)
		return out, ctx.Err()
	}
	folders = slices.DeleteFunc(folders, func(c *contents) bool { return now.Sub(c.newest) < Unbegun })
	there, err := s.askAll(ctx, folders)
	if err != nil {
		return out, err
	}
	for i, c := range folders {
		s.tell("sweeping", i, len(folders))
		if err := s.sweep(ctx, c, there[c.owner], now, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (s Sweep) tell(step string, done, total int) {
	if s.Tell != nil {
		s.Tell(step, int64(done), int64(total))
	}
}

// look lists a prefix, and returns the store's time just before.
func (s Sweep) look(ctx context.Context, prefix string) ([]store.Info, time.Time, error) {
	err := s.Store.Put(ctx, clockKey, nil)
	var clock store.Info
	if err == nil {
		clock, err = s.Store.Stat(ctx, clockKey)
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("ask the store what time it is: %w", err)
	}
	all, err := s.Store.List(ctx, prefix)
	return all, clock.ModTime, err
}

// sorted groups keys by folder, the one with the oldest last write first.
func sorted(all []store.Info, out *Swept) (folders []*contents) {
	byName := map[string]*contents{}
	strange, example := 0, ""
	for _, info := range all {
		folder, ok := folderOf(info.Key)
		if !ok {
			strange, example = strange+1, info.Key
			continue
		}
		c := byName[folder]
		if c == nil {
			owner, _ := OwnerOf(folder)
			c = &contents{folder: folder, owner: owner}
			byName[folder] = c
			folders = append(folders, c)
		}
		if !c.add(info) {
			strange, example = strange+1, info.Key
		}
	}
	if strange > 0 {
		out.problem("%d blobs have keys of a form that this version does not know, and stay (such as %s)", strange, example)
	}
	slices.SortFunc(folders, func(a, b *contents) int { return cmp.Or(a.newest.Compare(b.newest), cmp.Compare(a.folder, b.folder)) })
	return folders
}

func (c *contents) add(info store.Info) (known bool) {
	rest := strings.TrimPrefix(info.Key, prefix+c.folder+"/")
	switch {
	case rest == missed:
		c.missed = &info
		return true
	case rest == condemned:
		c.condemned = &info
		return true
	}
	// A key of an unknown form counts as a write, and is not deleted.
	known = true
	if name, ok := strings.CutPrefix(rest, held+"/"); ok {
		by, ok := parseOwner(name)
		if known = ok; ok {
			c.holders = append(c.holders, holder{by, info})
		}
	} else if _, _, ok := Parse(info.Key); ok {
		c.blobs = append(c.blobs, info)
	} else {
		known = false
	}
	if info.ModTime.After(c.newest) {
		c.newest = info.ModTime
	}
	return known
}

type answer struct {
	there bool
	err   error
}

func (s Sweep) askAll(ctx context.Context, folders []*contents) (map[Owner]answer, error) {
	var owners []Owner
	got := map[Owner]answer{}
	for _, c := range folders {
		if _, seen := got[c.owner]; !seen {
			got[c.owner] = answer{}
			owners = append(owners, c.owner)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	places := make(chan struct{}, askAtOnce)
	for i, o := range owners {
		s.tell("asking", i, len(owners))
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			there, err := s.Ask(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			got[o] = answer{there, err}
		})
	}
	wg.Wait()
	return got, ctx.Err()
}

func (s Sweep) needed(ctx context.Context, c *contents, owner answer) (bool, error) {
	if owner.there || owner.err != nil {
		return owner.there, owner.err
	}
	// The newest holder will probably exist longest.
	slices.SortFunc(c.holders, func(a, b holder) int { return b.info.ModTime.Compare(a.info.ModTime) })
	for _, h := range c.holders {
		if there, err := s.Ask(ctx, h.Owner); there || err != nil {
			return there, err
		}
	}
	return false, nil
}

// sweep takes the next step for a folder. Its errors are those of the store.
func (s Sweep) sweep(ctx context.Context, c *contents, owner answer, now time.Time, out *Swept) error {
	needed, err := s.needed(ctx, c, owner)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		out.problem("%s stays: %v", c.folder, err)
		return nil
	case needed && c.missed != nil:
		return s.Store.Delete(ctx, c.missed.Key)
	case needed:
		return nil
	case c.missed == nil:
		out.Marked++
		return s.Store.Put(ctx, prefix+c.folder+"/"+missed, nil)
	case now.Sub(c.missed.ModTime) < Apart:
		out.Marked++
		return nil
	case out.Blobs >= s.Most:
		out.Left++
		return nil
	}
	return s.remove(ctx, c.folder, out)
}

// remove condemns a folder, and deletes it unless somebody still needs it.
func (s Sweep) remove(ctx context.Context, folder string, out *Swept) error {
	if err := s.Store.Put(ctx, prefix+folder+"/"+condemned, nil); err != nil {
		return err
	}
	// From here on no new hold succeeds, and earlier holds are listed.
	all, now, err := s.look(ctx, prefix+folder+"/")
	if err != nil {
		return err
	}
	var strange Swept
	found := sorted(all, &strange)
	if len(found) != 1 || len(strange.Problems) > 0 {
		return nil // another sweep was here, or the problem was reported above
	}
	c := found[0]
	if now.Sub(c.newest) < Unbegun {
		return nil
	}
	if err := s.Alone(ctx); err != nil {
		out.problem("%s stays: %v", folder, err)
		return ctx.Err()
	}
	there, err := s.Ask(ctx, c.owner)
	needed, err := s.needed(ctx, c, answer{there, err})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		out.problem("%s stays: %v", folder, err)
		return nil
	}
	if needed {
		return nil
	}
	var bytes int64
	for _, b := range c.blobs {
		bytes += b.Size
		if err := s.Store.Delete(ctx, b.Key); err != nil {
			return err
		}
	}
	// The condemnation goes last, so that a new holder gets ErrGone until then.
	for _, h := range c.holders {
		if err := s.Store.Delete(ctx, h.info.Key); err != nil {
			return err
		}
	}
	err = errors.Join(s.Store.Delete(ctx, prefix+folder+"/"+missed), s.Store.Delete(ctx, prefix+folder+"/"+condemned))
	out.Deleted++
	out.Blobs += len(c.blobs)
	out.Bytes += bytes
	return err
}
