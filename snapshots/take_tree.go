package snapshots

import (
	"errors"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/tree"
)

// A treeTaking merges the host's listing of a tree with the parent's list, takes over
// unchanged files, and reads the others. Entries that wait for content, and those behind
// them, are held up to a window. So memory is bounded, and most trees need only one stream
// for their content.
type treeTaking struct {
	*taking
	spec   TreeSpec
	filter *treeFilter
	out    Tree
	old    *entryCursor
	seg    segmenter
	lists  listWriter

	held      []held
	heldBytes int

	hollow *held // a folder in TreeSpec.Hollow, until the next entry shows whether it is empty

	reading *reading // for the held entries so far, or nil
	whole   []byte

	names   map[fileID]string // first names of files with several names
	secrets map[fileID]bool   // files with a name that was left out as a credential
	masked  map[string]bool   // names in which a secret was overwritten
	over    bool              // the quota is exceeded, so only sizes are still added up
}

type fileID struct{ dev, inode uint64 }

// A held is an entry that waits for its content or for an earlier entry.
type held struct {
	Entry
	name    string // on the host
	id      fileID
	links   bool   // it has several names
	file    *Entry // of a hard link, as an entry of its own
	read    bool
	got     bool
	gotSize int64
	tries   int
	seen    bool // existed after the read
	gone    bool // vanished or is left out
}

const (
	windowEntries = 50_000
	windowBytes   = 16 << 20
	// maxNames bounds the remembered files with several names. Beyond it, each name becomes
	// a file of its own.
	maxNames = 200_000
)

const (
	whyCredential = "credential"
	whyUnreadable = "unreadable"
	whySkipped    = "ours"         // by TreeSpec.Skip
	whyOtherTree  = "another tree" // part of another tree, or left out of it
	whySameName   = "with its secrets overwritten, its name is that of another entry"
	whyPruned     = "excluded"
)

func (t *taking) tree(spec TreeSpec) error {
	tt, err := t.newTree(spec)
	if err != nil {
		return err
	}
	defer func() {
		if tt.old != nil {
			tt.old.stop()
		}
		tt.stopReading()
	}()
	tt.reading = tt.newReading() // at once, because usually a file has changed
	there := false
	listing, err := tree.List(t.ctx, t.host, spec.Dir, tree.ListOptions{
		Prune: tt.filter.prunes(), Began: func(clock time.Time) { t.clock, there = clock, true }}, tt.listed)
	if errors.Is(err, hostexec.ErrNotExist) && !there {
		return nil // for example, a thread without a turn has no rollouts
	}
	if err != nil {
		return err
	}
	for _, p := range listing.Problems {
		t.spec.Logger.Warn("the host complained while a tree was listed", "snapshot", t.spec.ID, "tree", spec.Name, "error", p)
		if hidesNames(p) {
			tt.leaveOut(p, whyUnreadable)
		}
	}
	return tt.finish()
}

// hidesNames reports whether a message means that the listing lacks names, because a disk
// or a network file system fails. Unreadable folders are listed as such, and a login
// shell's output means nothing.
func hidesNames(problem string) bool {
	tool, what, _ := strings.Cut(problem, ": ")
	return (tool == "find" || tool == "stat") && !strings.HasPrefix(what, "warning: ") && !strings.HasSuffix(what, "Permission denied")
}

func (t *taking) newTree(spec TreeSpec) (*treeTaking, error) {
	filter, err := newTreeFilter(spec, t.spec.Trees)
	if err != nil {
		return nil, err
	}
	tt := &treeTaking{taking: t, spec: spec, filter: filter, out: Tree{Name: spec.Name, Dir: spec.Dir},
		names: map[fileID]string{}, secrets: map[fileID]bool{}, masked: map[string]bool{}}
	tt.lists.put = t.batch.PutList
	tt.seg.put = func(data []byte) error {
		d, err := t.batch.PutList(data)
		if err != nil {
			return err
		}
		return tt.lists.add(d)
	}
	if t.parent != nil {
		if old, there := t.parent.Tree(spec.Name); there {
			tt.old = newEntryCursor(old, t.known)
		}
	}
	return tt, nil
}

func (t *treeTaking) finish() error {
	if t.over {
		return t.quota("the content of its folders", t.manifest.Bytes, t.taking.spec.MaxBytes)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := t.seg.end(); err != nil {
		return err
	}
	if err := t.lists.end(); err != nil {
		return err
	}
	t.out.Index = t.lists.index
	t.manifest.Trees = append(t.manifest.Trees, t.out)
	return nil
}

func (t *treeTaking) listed(e tree.Entry) error {
	if err := t.reading.failed(); err != nil && !errors.Is(err, hostexec.ErrNotExist) {
		return err // at once, because the listing may take long
	}
	if h := t.hollow; h != nil {
		t.hollow = nil
		if strings.HasPrefix(e.Path, h.name+"/") { // a folder's first entry comes directly after it
			if err := t.add(*h); err != nil {
				return err
			}
		}
	}
	id := fileID{e.Dev, e.Inode}
	several := e.Kind == tree.RegularFile && e.Links > 1
	switch t.filter.judge(e.Path, e.Kind == tree.Folder) {
	case ignored:
		return nil
	case leftThis:
		why := t.filter.why(e.Path)
		if several && why == whyCredential {
			if t.secrets[id] = true; len(t.secrets) > maxNames {
				return &hostexec.ContentError{What: "the list of credentials with several names", Limit: maxNames, Unit: "files"}
			}
		}
		t.leaveOut(e.Path, why)
		return nil
	}
	kind, why := kindOfEntry(e.Kind)
	switch {
	case kind == 0:
		t.leaveOut(e.Path, why)
		return nil
	case e.Pruned:
		t.leaveOut(e.Path, whyPruned)
		return nil
	case !tree.PathFits(e.Path) || !tree.PathFits(t.hide(e.Path)):
		// The host cannot read or create the path. Only the highest such path is recorded.
		if up := path.Dir(e.Path); tree.PathFits(up) && tree.PathFits(t.hide(up)) {
			t.leaveOut(shortened(e.Path), whyUnreadable)
		}
		return nil
	case e.Unreadable:
		t.leaveOut(e.Path+"/", whyUnreadable)
	}
	if t.progress.Entries++; t.progress.Entries%1000 == 0 {
		t.told()
	}
	h := held{name: e.Path, id: id, links: several, Entry: Entry{
		Path: t.hide(e.Path), Kind: kind, Mode: e.Mode, MTime: e.MTime.UTC()}}
	switch kind {
	case Symlink:
		h.Link = t.hide(e.Link)
	case File:
		h.Size, h.CTime, h.Inode = e.Size, e.CTime.UTC(), e.Inode
	}
	if e.Kind == tree.Folder && !e.Unreadable && slices.Contains(t.spec.Hollow, e.Path) {
		t.hollow = &h
		return nil
	}
	return t.add(h)
}

func shortened(p string) string {
	const most = 200
	if len(p) <= most {
		return p
	}
	return strings.ToValidUTF8(p[:most], "") + "…"
}

func (t *treeTaking) add(h held) error {
	if h.Path != h.name {
		if t.masked[h.Path] {
			t.leaveOut(h.name, whySameName)
			return nil
		}
		if t.masked[h.Path] = true; len(t.masked) > maxNames {
			return &hostexec.ContentError{What: "the list of names with a secret", Limit: maxNames, Unit: "names"}
		}
	}
	old, there, err := t.before(h.name)
	if err != nil {
		return err
	}
	if h.Kind == File {
		if first, known := t.names[h.id]; h.links && known {
			file := h.Entry
			h.file = &file
			h.Entry = Entry{Path: h.Path, Kind: HardLink, Mode: h.Mode, MTime: h.MTime, Link: first}
			return t.hold(h)
		}
		if h.links && len(t.names) < maxNames {
			t.names[h.id] = h.Path
		}
		if t.count(h.name, h.Size); t.over {
			return nil
		}
		if there && old.unchanged(h.Entry) && t.relies(old) {
			h.Content, h.flags, h.Masks, h.Holes = old.Content, old.flags, old.Masks, old.Holes
		} else {
			h.read = h.Size > 0
		}
	}
	return t.hold(h)
}

func (t *treeTaking) count(name string, size int64) {
	t.manifest.Bytes += size
	t.folders.add(path.Join(t.spec.Name, name), size)
	if most := t.taking.spec.MaxBytes; most > 0 && t.manifest.Bytes > most && !t.over {
		t.over, t.held = true, nil
	}
}

// before returns the parent's entry of that name. A parent whose list cannot be read is
// ignored from then on.
func (t *treeTaking) before(name string) (Entry, bool, error) {
	if t.old == nil {
		return Entry{}, false, nil
	}
	e, there, err := t.old.seek(name)
	if err != nil {
		t.old.stop()
		t.old = nil
		return Entry{}, false, t.damaged(err)
	}
	return e, there, nil
}

func (t *taking) damaged(err error) error {
	if t.ctx.Err() != nil {
		return err
	}
	t.spec.Logger.Warn("the parent of a snapshot is damaged: the rest is read from the host",
		"snapshot", t.spec.ID, "parent", t.spec.Parent, "error", err)
	return nil
}

// relies records that the snapshot needs a file's old content, unless the store lacks it.
func (t *treeTaking) relies(e Entry) bool {
	if e.flags&listed != 0 {
		for _, l := range e.Content {
			if !t.batch.Has(l.Digest) {
				return false
			}
		}
	}
	err := e.eachRef(t.known, func(r Ref) error {
		if r.Hole == 0 && !t.batch.Has(r.Digest) {
			return errStop
		}
		return nil
	})
	return err == nil
}

func (t *treeTaking) hold(h held) error {
	if t.over {
		return nil
	}
	if !h.read && len(t.held) == 0 {
		return t.emit(h.Entry)
	}
	t.held = append(t.held, h)
	if h.read {
		t.ask(&h)
	}
	t.heldBytes += 300 + 2*len(h.name) + len(h.Link) + 40*len(h.Content)
	if len(t.held) < windowEntries && t.heldBytes < windowBytes {
		return nil
	}
	return t.flush()
}

func (t *treeTaking) flush() error {
	t.dropSecrets()
	if err := t.readHeld(); err != nil {
		return err
	}
	for i := range t.held {
		if h := &t.held[i]; !h.gone {
			if err := t.emit(h.Entry); err != nil {
				return err
			}
		}
	}
	t.held, t.heldBytes = t.held[:0], 0
	return nil
}

// dropSecrets leaves out the other names of credentials.
func (t *treeTaking) dropSecrets() {
	if len(t.secrets) == 0 {
		return
	}
	for i := range t.held {
		if h := &t.held[i]; h.links && t.secrets[h.id] && !h.gone {
			h.gone, h.read = true, false
			t.leaveOut(h.name, whyCredential)
		}
	}
}

func (t *treeTaking) emit(e Entry) error {
	if t.noting[e.Path] {
		t.noted[e.Path] = e
	}
	if e.Path != "." {
		t.manifest.Files++
		t.out.Files++
	}
	t.manifest.Masked += e.Masks
	if e.Kind == File {
		t.out.Bytes += e.Size
		t.out.Data += e.Size - e.Holes
		if e.Unstable() {
			t.unstable(t.spec.Name, e.Path)
		}
	}
	return t.seg.add(e)
}

type entryCursor struct {
	next func() (Entry, error, bool)
	stop func()
	now  Entry
	have bool
	end  bool
}

func newEntryCursor(t Tree, get getter) *entryCursor {
	next, stop := iter.Pull2(func(yield func(Entry, error) bool) {
		err := t.each(get, func(e Entry) error {
			if !yield(e, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(Entry{}, err)
		}
	})
	return &entryCursor{next: next, stop: stop}
}

// seek must be called with names in order.
func (c *entryCursor) seek(name string) (Entry, bool, error) {
	for !c.end {
		if c.have {
			if order := tree.ComparePaths(c.now.Path, name); order >= 0 {
				return c.now, order == 0, nil
			}
		}
		e, err, more := c.next()
		if err != nil {
			c.end = true
			return Entry{}, false, err
		}
		c.now, c.have, c.end = e, more, !more
	}
	return Entry{}, false, nil
}
