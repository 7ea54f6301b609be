package snapshots

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/store"
)

// Take brings what it takes to go on elsewhere from a host into the store, and
// returns once all of it was read back and found right. Only a nil error
// allows anything to be deleted on the host, and not what the manifest says
// was left out. On error doing it again is safe: what came into the store so far
// need not travel into it again, and a snapshot of that ID that is there all the
// same is whole. Several may take the same one at once, as attempts of which one
// was overtaken: all return the one that is complete first, and none takes it
// back. Nothing on the host changes.
func Take(ctx context.Context, h hostexec.Host, c *Chunks, spec TakeSpec) (_ Manifest, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("take a snapshot of session %s on %s: %w", spec.Session, h.Name(), err)
		}
	}()
	if err := spec.check(); err != nil {
		return Manifest{}, err
	}
	key := manifestKey(spec.Session, spec.ID)
	switch m, err := readManifest(ctx, c.blobs, spec.ID, key); {
	case err == nil:
		return m, nil
	case !errors.Is(err, store.ErrNotFound):
		return Manifest{}, err
	}
	for try := 1; ; try++ {
		m, err := take(ctx, h, c, spec)
		if !errors.Is(err, ErrCondemned) && !errors.Is(err, errCrossed) || try == maxTries {
			return m, err
		}
		// A prune came between, which takes that we were stopped for long, or
		// another attempt did on the host.
		spec.Logger.Warn("snapshot is taken again", "snapshot", spec.ID, "error", err)
	}
}

// maxTries is how often a snapshot is taken that somebody comes between.
const maxTries = 3

// A taking is one attempt to take a snapshot.
type taking struct {
	ctx   context.Context
	host  hostexec.Host
	c     *Chunks
	batch *Batch
	spec  TakeSpec

	began    time.Time
	clock    time.Time // of the host, before anything of the present tree was read
	parent   *Manifest
	known    getter // chunks of the parent
	manifest Manifest
	progress Progress
	folders  folderSizes
	git      *gitPlan         // where the work folder is kept by git
	noted    map[string]Entry // what is taken of a tree, while that is to be looked at
	masker   Masker           // reused, nil where nothing is known
	buf      []byte           // likewise
}

func take(ctx context.Context, h hostexec.Host, c *Chunks, spec TakeSpec) (Manifest, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batch := c.NewBatch(ctx, BatchOptions{Mask: spec.Mask})
	defer batch.Abort()
	batch.refreshAhead()
	t := &taking{ctx: ctx, host: h, c: c, batch: batch, spec: spec, began: time.Now(), manifest: Manifest{
		ID: spec.ID, Session: spec.Session, CreatedAt: spec.At.UTC(), Facts: spec.Facts, Secrets: spec.Secrets, Format: format,
	}}
	if spec.Mask != nil {
		t.masker = spec.Mask()
	}
	reader := c.NewReader(ctx)
	defer reader.Close()
	t.known = reader.Get
	if err := t.findParent(); err != nil {
		return Manifest{}, err
	}
	trees, err := t.gitTrees(spec.Trees)
	if err != nil {
		return Manifest{}, err
	}
	for _, tree := range trees {
		if tree.Name == Work && tree.Policy == WorkNone {
			continue
		}
		if err := t.kept(tree); err != nil {
			return Manifest{}, fmt.Errorf("%s: %w", tree.Name, err)
		}
	}
	return t.finish()
}

// findParent opens the parent, if there is one that is good for it.
func (t *taking) findParent() error {
	if t.spec.Parent == "" {
		return nil
	}
	session, err := sessionOf(t.spec.Parent)
	var m Manifest
	if err == nil {
		m, err = readManifest(t.ctx, t.c.blobs, t.spec.Parent, manifestKey(session, t.spec.Parent))
	}
	switch {
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrIncomplete), errors.Is(err, ErrNewer), errors.Is(err, store.ErrNotFound):
		t.noParent(err)
	case err != nil:
		return err
	case m.Format != format:
		t.noParent(errors.New("its format is another one"))
	case !hasAll(m.Secrets, t.spec.Secrets):
		t.noParent(errors.New("secrets are known now that were not looked for then"))
	case m.Host != t.spec.Facts.Host:
		t.noParent(errors.New("it was taken on another host")) // whose inodes say nothing here
	default:
		t.parent, t.manifest.Parent = &m, m.ID
	}
	return nil
}

// noParent goes on without one: all is read, and what the store has is not
// stored again.
func (t *taking) noParent(why error) {
	t.parent = nil
	t.manifest.Parent = ""
	t.spec.Logger.Warn("snapshot is taken without its parent: all is read from the host",
		"snapshot", t.spec.ID, "parent", t.spec.Parent, "error", why)
}

func hasAll(have, want []string) bool {
	set := make(map[string]bool, len(have))
	for _, s := range have {
		set[s] = true
	}
	for _, s := range want {
		if !set[s] {
			return false
		}
	}
	return true
}

// finish makes sure of what is in the store and writes the manifest.
func (t *taking) finish() (Manifest, error) {
	added, err := t.batch.Flush()
	if err != nil {
		return Manifest{}, err
	}
	m := &t.manifest
	m.AddedBytes = added.Stored
	m.StoredBytes = t.batch.reliedBytes()
	if t.spec.MaxAdded > 0 && m.AddedBytes > t.spec.MaxAdded {
		return Manifest{}, t.quota("what it adds to the store", m.AddedBytes, t.spec.MaxAdded)
	}
	m.Took = time.Since(t.began).Round(time.Millisecond).String()
	m.Complete = true
	data, err := t.manifestJSON()
	if err != nil {
		return Manifest{}, err
	}
	key := manifestKey(m.Session, m.ID)
	began, written, exists := time.Now().Round(0), false, false
	err = t.batch.Commit(func() error {
		if t.spec.Sure != nil {
			if err := t.spec.Sure(); err != nil {
				return err
			}
		}
		err := t.c.blobs.Create(t.ctx, key, data)
		written, exists = err == nil, errors.Is(err, store.ErrExists)
		return err
	})
	if exists {
		// Another attempt was there first, or our own answer was lost: what
		// the store says is so.
		return readManifest(t.ctx, t.c.blobs, m.ID, key)
	}
	if err != nil && written && (errors.Is(err, ErrCondemned) || time.Since(began) > mayStall) {
		// What it needs may be gone. Otherwise it is whole, whatever has called
		// us back in that moment, and somebody may have heard of it by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, t.c.blobs.Delete(ctx, key))
	}
	if err != nil {
		return Manifest{}, err
	}
	return t.manifest, nil
}

// mayStall is how long the writing of a manifest may take, by the clock on the
// wall, without anything being deleted that it needs: far less than the grace
// of what is condemned.
const mayStall = time.Hour

// manifestJSON is the manifest as it is written: known secrets that facts have
// in them are overwritten there too.
func (t *taking) manifestJSON() ([]byte, error) {
	data, err := json.MarshalIndent(t.manifest, "", "  ")
	if err != nil || t.masker == nil {
		return data, err
	}
	clean, n := t.mask(data)
	if n == 0 {
		return data, nil
	}
	m := Manifest{}
	if err := json.Unmarshal(clean, &m); err != nil || m.ID != t.manifest.ID || !m.Complete {
		return nil, fmt.Errorf("%w: it is part of the manifest's own words", ErrSecret)
	}
	m.Masked += n
	t.manifest = m
	if data, err = json.MarshalIndent(m, "", "  "); err != nil {
		return nil, err
	}
	if again, n := t.mask(data); n > 0 || !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: in the manifest", ErrSecret)
	}
	return data, nil
}

// mask overwrites secrets in p, in place.
func (t *taking) mask(p []byte) (_ []byte, found int) {
	if t.masker == nil {
		return p, 0
	}
	before := t.masker.Count()
	n := copy(p, t.masker.Next(p))
	copy(p[n:], t.masker.Flush())
	return p, t.masker.Count() - before
}

// hide overwrites secrets in a name.
func (t *taking) hide(name string) string {
	if t.masker == nil {
		return name
	}
	t.buf = append(t.buf[:0], name...)
	p, n := t.mask(t.buf)
	if n == 0 {
		return name
	}
	t.manifest.Masked += n
	return string(p)
}

// leaveOut notes what is not kept. What could not be read is listed however
// much else there is: somebody has to see to it.
func (t *treeTaking) leaveOut(p, why string) {
	m, most := &t.manifest, maxListed-keptForUnread
	m.LeftOutCount++
	if why == whyUnreadable {
		m.Unreadable++
		t.out.Unreadable++
		most = maxListed
	}
	if len(m.LeftOut) < most {
		m.LeftOut = append(m.LeftOut, LeftOut{Path: t.spec.Name + "/" + t.hide(p), Why: why})
	}
}

// keptForUnread is how many places of a manifest's list are kept for that.
const keptForUnread = 10

func (t *taking) unstable(tree, p string) {
	t.manifest.UnstableCount++
	if len(t.manifest.Unstable) < maxListed {
		t.manifest.Unstable = append(t.manifest.Unstable, tree+"/"+p)
	}
}

func (t *taking) told() {
	if t.spec.Progress != nil {
		t.spec.Progress(t.progress)
	}
}
