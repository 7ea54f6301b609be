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
	"sync"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/tree"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// RestoreSpec says where to restore a snapshot.
type RestoreSpec struct {
	// Dirs are folders on the host by tree name; other trees are not restored. If one is
	// neither absent nor empty, the error is tree.ErrExists. For a tree that the snapshot
	// lacks, Restore creates an empty folder.
	Dirs map[string]string
	// With Fence, a tree is put in place only if the host knows no higher epoch then.
	Fence    *hostexec.Fence
	Logger   *slog.Logger   // may be nil
	Progress func(Progress) // may be nil; ReadFiles and ReadBytes count what was written
}

// Restored describes what was restored.
type Restored struct {
	Manifest Manifest
	Files    int64
	Bytes    int64
	Took     time.Duration
	// Differs lists differences between a work folder with the policy git and the original.
	Differs []string
}

// Restore restores a snapshot to a host. If the snapshot is damaged, the error wraps
// ErrIncomplete. Each tree appears in its place complete, with its modes and times, or not
// at all. The owner is our user on the host. If Restore is killed, call it again with the
// same arguments. If the disk is too small, the error is hostexec.ErrNoSpace.
func Restore(ctx context.Context, h hostexec.Host, c *chunks.Store, id string, spec RestoreSpec) (_ Restored, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore snapshot %s on %s: %w", id, h.Name(), err)
		}
	}()
	began := time.Now()
	m, err := manifestOf(ctx, c, id)
	if err != nil {
		return Restored{}, err
	}
	r := restoring{ctx: ctx, host: h, c: c, spec: spec, out: Restored{Manifest: m}}
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
	// The host is asked for free space while a tree's stream opens, because each takes a
	// round trip, and perhaps a new connection.
	room := sync.OnceValue(func() error { return r.room(ctx) })
	looked := make(chan struct{})
	go func() { defer close(looked); _ = room() }()
	defer func() { <-looked }()
	for name, dir := range r.spec.Dirs {
		t, there := m.Tree(name)
		if !there {
			t = Tree{Name: name}
		}
		opts := tree.WriteOptions{ID: m.ID + ":" + name, Fence: spec.Fence}
		err := tree.Write(ctx, h, dir, opts, func(w *tree.Writer) error {
			if err := room(); err != nil {
				return err
			}
			r.to = w
			return walk(ctx, c, t, &r)
		})
		if err != nil {
			if short := room(); short != nil {
				return Restored{}, short
			}
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

func manifestOf(ctx context.Context, c *chunks.Store, id string) (Manifest, error) {
	return read(ctx, c.Blobs, id)
}

type restoring struct {
	ctx  context.Context
	host hostexec.Host
	c    *chunks.Store
	spec RestoreSpec
	out  Restored
	to   *tree.Writer
	file *tree.FileWriter
}

func (r *restoring) entry(e Entry) error {
	t := tree.Entry{Path: e.Path, Mode: e.Mode, MTime: e.MTime, Size: e.Size, Link: e.Link}
	r.out.Files++
	switch e.Kind {
	case Dir:
		t.Kind = tree.Folder
	case Symlink:
		t.Kind = tree.Symlink
	case HardLink:
		t.Kind = tree.HardLink
	case File:
		t.Kind = tree.RegularFile
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

// blockSize is the least space of a file or folder. On average, half a block is unused at
// the end of a file.
const blockSize = 4096

// roomScript prints the file system and the free KiB for each folder, which need not exist.
const roomScript = `for d; do
	while [ ! -d "$d" ]; do d=${d%/*}; d=${d:-/}; done
	df -kP -- "$d" 2>/dev/null | awk 'END { print $1, $4 }' || echo
done`

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
