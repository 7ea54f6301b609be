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
	"fairlead.dev/fairlead/snapshots/chunks"
)

// Take stores what a session needs to continue elsewhere, and verifies it. It changes
// nothing in the folders on the host. Only after a nil error may a caller delete files
// there, except those that the manifest lists as left out. After an error Take can be
// repeated; chunks in the store are not stored again. If a snapshot of that ID exists in
// spite of an error, it is complete. Concurrent calls for the same ID all return the
// snapshot that was complete first.
func Take(ctx context.Context, h hostexec.Host, c *chunks.Store, spec TakeSpec) (_ Manifest, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("take a snapshot of session %s on %s: %w", spec.Session, h.Name(), err)
		}
	}()
	if err := spec.check(); err != nil {
		return Manifest{}, err
	}
	key := manifestKey(spec.Session, spec.ID)
	switch m, err := readManifest(ctx, c.Blobs, spec.ID, key); {
	case err == nil:
		return m, nil
	case !errors.Is(err, store.ErrNotFound):
		return Manifest{}, err
	}
	for try := 1; ; try++ {
		m, err := take(ctx, h, c, spec)
		if !errors.Is(err, chunks.ErrCondemned) && !errors.Is(err, errCrossed) || try == maxTries {
			return m, err
		}
		// A prune intervened while this process was stopped, or another attempt worked on
		// the host.
		spec.Logger.Warn("snapshot is taken again", "snapshot", spec.ID, "error", err)
	}
}

const maxTries = 3

type taking struct {
	ctx   context.Context
	host  hostexec.Host
	c     *chunks.Store
	batch *chunks.Batch
	spec  TakeSpec

	began    time.Time
	clock    time.Time // host's time before the current tree was listed
	parent   *Manifest
	known    getter // of the parent
	manifest Manifest
	progress Progress
	folders  folderSizes
	git      *gitPlan
	noted    map[string]Entry // entries of the tree Git, for hasGit
	noting   map[string]bool  // their paths
	masker   chunks.Masker    // nil if no secrets are known
	buf      []byte
}

func take(ctx context.Context, h hostexec.Host, c *chunks.Store, spec TakeSpec) (Manifest, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batch := c.NewBatch(ctx, chunks.BatchOptions{Mask: spec.Mask})
	defer batch.Abort()
	batch.RefreshAhead()
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

func (t *taking) findParent() error {
	if t.spec.Parent == "" {
		return nil
	}
	session, err := sessionOf(t.spec.Parent)
	var m Manifest
	if err == nil {
		m, err = readManifest(t.ctx, t.c.Blobs, t.spec.Parent, manifestKey(session, t.spec.Parent))
	}
	switch {
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrIncomplete), errors.Is(err, ErrNewer), errors.Is(err, store.ErrNotFound):
		t.noParent(err)
	case err != nil:
		return err
	case m.Format != format:
		t.noParent(errors.New("it has another format"))
	case !hasAll(m.Secrets, t.spec.Secrets):
		t.noParent(errors.New("it was not searched for secrets that are known now"))
	case m.Host != t.spec.Facts.Host:
		t.noParent(errors.New("it was taken on another host")) // inode numbers of another host mean nothing here
	default:
		t.parent, t.manifest.Parent = &m, m.ID
	}
	return nil
}

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

func (t *taking) finish() (Manifest, error) {
	added, err := t.batch.Flush()
	if err != nil {
		return Manifest{}, err
	}
	m := &t.manifest
	m.AddedBytes = added.Stored
	m.StoredBytes = t.batch.ReliedBytes()
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
		err := t.c.Blobs.Create(t.ctx, key, data)
		written, exists = err == nil, errors.Is(err, store.ErrExists)
		return err
	})
	if exists {
		// Another attempt was first, or the store's answer to our write was lost. The
		// stored manifest is valid.
		return readManifest(t.ctx, t.c.Blobs, m.ID, key)
	}
	if err != nil && written && (errors.Is(err, chunks.ErrCondemned) || time.Since(began) > mayStall) {
		// Chunks that the manifest needs may be gone. After other errors the snapshot is
		// complete and stays, because others may know of it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, t.c.Blobs.Delete(ctx, key))
	}
	if err != nil {
		return Manifest{}, err
	}
	return t.manifest, nil
}

// mayStall bounds the wall-clock time for writing a manifest, after which a prune may have
// deleted its chunks. It is far less than the grace of condemned packs.
const mayStall = time.Hour

// manifestJSON also overwrites known secrets in the facts.
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
		return nil, fmt.Errorf("%w: the secret occurs in the fixed text of the manifest, where it cannot be overwritten", chunks.ErrSecret)
	}
	m.Masked += n
	t.manifest = m
	if data, err = json.MarshalIndent(m, "", "  "); err != nil {
		return nil, err
	}
	if again, n := t.mask(data); n > 0 || !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: the secret is in the manifest", chunks.ErrSecret)
	}
	return data, nil
}

func (t *taking) mask(p []byte) (_ []byte, found int) {
	if t.masker == nil {
		return p, 0
	}
	before := t.masker.Count()
	n := copy(p, t.masker.Next(p))
	copy(p[n:], t.masker.Flush())
	return p, t.masker.Count() - before
}

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

// leaveOut reserves places in the list for unreadable paths, because a person has to deal
// with them.
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
