package snapshots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

// RestoreSpec says where a snapshot goes.
type RestoreSpec struct {
	// Dirs are folders on the host by the names of trees. One that is named
	// must not be there yet, or be empty (hostexec.ErrExists); a tree that is
	// not named is not restored. A folder of which the snapshot has no tree is
	// made, empty.
	Dirs map[string]string
	// Fence lets trees into their places only if no higher epoch is known then.
	Fence    *hostexec.Fence
	Logger   *slog.Logger   // may be nil
	Progress func(Progress) // may be nil; ReadFiles and ReadBytes are what was written
}

// Restored says what came to the host.
type Restored struct {
	Manifest Manifest
	Files    int64
	Bytes    int64
	Took     time.Duration
	// Differs says in what a work folder that was kept by the policy git is not
	// as it was, a line each: by what was left out, say.
	Differs []string
}

// Restore brings a snapshot to a host. Only a complete one is, and each file
// is compared with its digests on the way: a snapshot that turns out damaged is
// ErrIncomplete. Each tree appears in its place whole, with its modes and
// times, or not at all; owners are whoever we are on the host. Killed anywhere
// and called again with the same arguments, it goes on. A disk that is, or
// would get, full is hostexec.ErrNoSpace.
func Restore(ctx context.Context, h hostexec.Host, c *Chunks, id string, spec RestoreSpec) (_ Restored, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore snapshot %s on %s: %w", id, h.Name(), err)
		}
	}()
	began := time.Now()
	m, err := c.manifest(ctx, id)
	if err != nil {
		return Restored{}, err
	}
	r := restoring{ctx: ctx, host: h, spec: spec, out: Restored{Manifest: m}}
	if r.spec.Logger == nil {
		r.spec.Logger = slog.New(slog.DiscardHandler)
	}
	for name := range spec.Dirs {
		if !validTree.MatchString(name) {
			return Restored{}, fmt.Errorf("%q is not the name of a tree", name)
		}
	}
	git, isGit := r.gitDirs()
	if isGit {
		if isGit, err = r.partsFirst(git); err != nil {
			return Restored{}, err
		}
	}
	if err := r.room(ctx); err != nil {
		return Restored{}, err
	}
	for name, dir := range r.spec.Dirs {
		t, there := m.Tree(name)
		if !there {
			t = Tree{Name: name}
		}
		opts := hostexec.WriteTreeOptions{ID: m.ID + ":" + name, Fence: spec.Fence}
		err := hostexec.WriteTree(ctx, h, dir, opts, func(w *hostexec.TreeWriter) error {
			r.to = w
			return c.walk(ctx, t, &r)
		})
		if err != nil {
			return r.out, fmt.Errorf("%s: %w", name, err)
		}
	}
	if isGit {
		if err := r.rebuild(git); err != nil {
			return r.out, err
		}
	}
	r.out.Took = time.Since(began)
	return r.out, nil
}

// manifest reads that of a complete snapshot.
func (c *Chunks) manifest(ctx context.Context, id string) (Manifest, error) {
	return read(ctx, c.blobs, id)
}

// A restoring writes trees to a host; it is the sink of a walk.
type restoring struct {
	ctx  context.Context
	host hostexec.Host
	spec RestoreSpec
	out  Restored
	to   *hostexec.TreeWriter
	file *hostexec.TreeFileWriter
}

func (r *restoring) entry(e Entry) error {
	t := hostexec.TreeEntry{Path: e.Path, Mode: e.Mode, MTime: e.MTime, Size: e.Size, Link: e.Link}
	r.out.Files++
	switch e.Kind {
	case Dir:
		t.Kind = hostexec.Folder
	case Symlink:
		t.Kind = hostexec.Symlink
	case HardLink:
		t.Kind = hostexec.HardLink
	case File:
		t.Kind = hostexec.RegularFile
		var err error
		r.file, err = r.to.File(t, e.Holes > 0)
		r.out.Bytes += e.Size
		if r.spec.Progress != nil {
			r.spec.Progress(Progress{Entries: r.out.Files, ReadFiles: r.out.Files, ReadBytes: r.out.Bytes})
		}
		return err
	}
	return r.to.Add(t)
}

func (r *restoring) piece(data []byte) error {
	_, err := r.file.Write(data)
	return err
}

func (r *restoring) hole(n int64) error { return r.file.Hole(n) }
func (r *restoring) end() error         { return r.file.Close() }

// blockSize is what a file or folder takes at least, and half of it what one
// wastes at its end.
const blockSize = 4096

// roomScript prints for each folder the file system where it would be, and how
// many KiB are free there.
const roomScript = `for d; do
	while [ ! -d "$d" ]; do d=${d%/*}; d=${d:-/}; done
	df -kP -- "$d" 2>/dev/null | awk 'END { print $1, $4 }' || echo
done`

// room sees whether the host has enough of it, before anything is written.
func (r *restoring) room(ctx context.Context) error {
	var names, dirs []string
	for name, dir := range r.spec.Dirs {
		if !path.IsAbs(dir) {
			return fmt.Errorf("the folder for %s is no absolute path: %q", name, dir)
		}
		names, dirs = append(names, name), append(dirs, dir)
	}
	res, err := r.host.Run(ctx, hostexec.Command{Script: roomScript, Args: dirs})
	var exit *hostexec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	lines := strings.Split(string(res.Stdout), "\n")
	need := map[string]int64{}
	for i, name := range names {
		if i >= len(lines) {
			break
		}
		device, free, _ := strings.Cut(lines[i], " ")
		kib, err := strconv.ParseInt(free, 10, 64)
		if err != nil {
			r.spec.Logger.Warn("the host does not say how much room there is", "snapshot", r.out.Manifest.ID, "host", r.host.Name(), "dir", dirs[i])
			continue
		}
		t, _ := r.out.Manifest.Tree(name)
		need[device] += t.Data + t.Files*blockSize/2
		if need[device] > kib<<10 {
			return fmt.Errorf("%w for %s: it takes %s, and %s are free on %s", hostexec.ErrNoSpace,
				dirs[i], sizeText(need[device]), sizeText(kib<<10), cmp.Or(device, "its disk"))
		}
	}
	return nil
}
