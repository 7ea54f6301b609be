package tree

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

var (
	//go:embed tree_write.sh
	treeWriteScript string
	//go:embed tree_place.sh
	treePlaceScript string
)

// treeWipeScript also removes folders without write permission.
const treeWipeScript = `rm -rf -- "$1" 2>/dev/null && exit
find "$1" -type d -exec chmod u+rwx {} \; 2>/dev/null
why=$(rm -rf -- "$1" 2>&1) || { r=$?; printf '%.1000s\n' "$why" >&2; exit $r; }`

const exitExists = 95

// ErrExists means that something is in the tree's place.
var ErrExists = errors.New("something is there already")

// WriteOptions configure Write.
type WriteOptions struct {
	// ID makes Write repeatable: if the tree of this ID is already in place, Write writes
	// nothing. ID is one word; it is kept in a file beside dir.
	ID string
	// With Fence, the tree is put in place only if the host knows no higher epoch.
	Fence *hostexec.Fence
}

var treeID = regexp.MustCompile(`^[A-Za-z0-9._:-]*$`)

// Write creates the tree dir from the entries that fill gives to the Writer. If dir is
// there and not an empty folder, the error wraps ErrExists. Modes and times are as precise
// as the host's tools allow. The owner is our user. The tree is written to a new folder
// beside dir, which is renamed when complete and removed on failure. If the disk is full,
// the error wraps ErrNoSpace. After ErrOutcomeUnknown the tree may be in place: repeat the
// call. A later call for dir removes unfinished folders of earlier ones.
func Write(ctx context.Context, h hostexec.Host, dir string, opts WriteOptions, fill func(*Writer) error) error {
	if err := writeTree(ctx, h, dir, opts, fill); err != nil {
		return fmt.Errorf("write tree %s on %s: %w", dir, h.Name(), hostexec.SentBy(h, err))
	}
	return nil
}

func writeTree(ctx context.Context, h hostexec.Host, dir string, opts WriteOptions, fill func(*Writer) error) error {
	if err := script.CheckPath(dir); err != nil {
		return err
	}
	if !treeID.MatchString(opts.ID) {
		return fmt.Errorf("%q is no id of a tree", opts.ID)
	}
	check, lock := "", ""
	if opts.Fence != nil {
		if err := opts.Fence.Check(); err != nil {
			return err
		}
		lock = script.FenceBegin(opts.Fence.Dir, opts.Fence.Epoch.Generation, opts.Fence.Epoch.Pump, opts.Fence.Epoch.Attempt)
		check = lock + "\n" + script.FenceEnd + "\n"
	}
	temp := path.Join(path.Dir(dir), ".fl-tree-"+path.Base(dir)+"."+rand.Text())
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := h.Start(streamCtx, hostexec.Command{Script: check + treeTakeScript + treeWriteScript, Args: []string{temp, dir, opts.ID}, Bulk: true, TellFar: true})
	if err != nil {
		return err
	}
	defer s.Close()
	line, err := hostexec.ReadLine(bufio.NewReaderSize(onlyReader{s}, 64), maxHead, "how to send a tree")
	if errors.Is(err, hostexec.ErrFlood) {
		return err
	}
	if err != nil || line == "placed\n" {
		if waitErr := s.Wait(); waitErr != nil {
			err = waitErr
		}
		return treeExists(err)
	}
	kind, how, _ := strings.Cut(strings.TrimSpace(line), " ")
	out := &spaceWatcher{s: s}
	packed := packTo(how, out, true)
	w := &Writer{ctx: streamCtx, host: h, temp: temp, gnu: kind == "gnu", out: out, packed: packed, tar: treeTar{out: bufio.NewWriterSize(packed, 256<<10)}}
	defer w.close()
	err = fill(w)
	if err == nil {
		err = w.err
	}
	if err = w.finish(s, err); err != nil {
		return errors.Join(err, removeTree(ctx, h, temp, err))
	}
	place := hostexec.Command{Script: treePlaceScript, Args: []string{temp, dir, opts.ID, kind, lock}}
	if w.gnu {
		_, err = h.Run(ctx, place)
	} else {
		place.Bulk = true
		err = w.placeFolders(streamCtx, place)
	}
	return treeExists(err)
}

func treeExists(err error) error {
	var exit *hostexec.ExitError
	if errors.As(err, &exit) && exit.Code == exitExists {
		return fmt.Errorf("%w%s", ErrExists, script.FirstLine(exit.Stderr))
	}
	return err
}

// removeTree removes a tree that was not put in place. It returns nil if why is
// ErrOutcomeUnknown.
func removeTree(ctx context.Context, h hostexec.Host, temp string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, err := h.Run(ctx, hostexec.Command{Script: treeWipeScript, Args: []string{temp}})
	if errors.Is(why, hostexec.ErrOutcomeUnknown) {
		return nil
	}
	return err
}

// finish ends the streams and waits until the host has received everything, or has dropped
// an incomplete tree.
func (w *Writer) finish(s hostexec.Stream, fillErr error) error {
	if fillErr == nil && w.gnu {
		fillErr = w.endHoles() // before tar sets the times of folders
	}
	if fillErr == nil {
		fillErr = w.tar.end()
	}
	if fillErr != nil {
		w.out.shut.Store(true) // the host must not take a partial tree for a complete one
	}
	if err := w.packed.Close(); fillErr == nil {
		fillErr = err
	}
	s.CloseWrite()
	err := s.Wait()
	if fillErr == nil && err == nil {
		fillErr = w.endHoles()
	}
	// The host's error says more than a failed write.
	if err != nil && (fillErr == nil || errors.Is(fillErr, errTreeStream) || errors.Is(err, hostexec.ErrNoSpace)) {
		return err
	}
	if errors.Is(err, hostexec.ErrOutcomeUnknown) {
		return errors.Join(err, fillErr)
	}
	return fillErr
}

// placeFolders sets modes and times of folders, and places the tree.
func (w *Writer) placeFolders(ctx context.Context, place hostexec.Command) error {
	s, err := w.host.Start(ctx, place)
	if err != nil {
		return err
	}
	defer s.Close()
	slices.SortStableFunc(w.folders, func(a, b Entry) int {
		return cmp.Compare(strings.Count(b.Path, "/"), strings.Count(a.Path, "/"))
	})
	t := treeTar{out: bufio.NewWriterSize(s, 64<<10)}
	for _, e := range w.folders {
		if e.Path != "." {
			err = errors.Join(err, t.header(e, tarFolder, 0))
		}
	}
	for _, e := range w.folders {
		if e.Path == "." {
			err = errors.Join(err, t.header(e, tarFolder, 0))
		}
	}
	err = errors.Join(err, t.end(), s.CloseWrite())
	if waitErr := s.Wait(); waitErr != nil {
		return waitErr
	}
	return err
}

var errTreeStream = errors.New("the host accepts no more input")

type spaceWatcher struct {
	s    hostexec.Stream
	seen int64
	shut atomic.Bool // write nothing more
}

func (w *spaceWatcher) Write(p []byte) (int, error) {
	if w.shut.Load() {
		return 0, errTreeStream
	}
	n, err := w.s.Write(p)
	if err != nil {
		return n, fmt.Errorf("%w: %w", errTreeStream, err)
	}
	if w.seen += int64(n); w.seen >= 4<<20 {
		w.seen = 0
		if stderr := w.s.Stderr(); len(stderr) > 0 && script.SaysNoSpace(stderr) {
			return n, fmt.Errorf("%w: %w", errTreeStream, hostexec.ErrNoSpace)
		}
	}
	return n, nil
}

// A Writer takes the entries of a tree in any order, but a file before its hard links. It
// creates missing parent folders. After an error, all further calls return it.
type Writer struct {
	ctx  context.Context //nolint:containedctx // lives as long as the call that made it
	host hostexec.Host
	temp string
	gnu  bool

	tar    treeTar
	packed io.WriteCloser // below tar
	out    *spaceWatcher  // below packed

	holes   *holeWriter
	holey   map[string]bool // files that holes writes, with their hard links
	folders []Entry         // set at the end if the host's tar does not delay their modes and times
	open    *FileWriter
	err     error
}

// Add adds a folder ("." is the tree itself), a symlink, or a hard link.
func (w *Writer) Add(e Entry) error {
	if err := w.check(e); err != nil {
		return w.fail(err)
	}
	switch e.Kind {
	case Folder:
		if !w.gnu {
			w.folders = append(w.folders, e)
			e.Mode |= 0o700
		}
		return w.fail(w.tar.header(e, tarFolder, 0))
	case Symlink:
		if e.Link == "" {
			return w.fail(fmt.Errorf("symlink %q has no target", e.Path))
		}
		return w.fail(w.tar.header(e, tarSymlink, 0))
	case HardLink:
		if err := checkTreePath(e.Link); err != nil {
			return w.fail(err)
		}
		if w.holey[e.Link] {
			w.holey[e.Path] = true
			return w.fail(w.holes.link(e))
		}
		e.Link = "./" + e.Link
		return w.fail(w.tar.header(e, tarLink, 0))
	}
	return w.fail(fmt.Errorf("%q is a %q, which cannot be added", e.Path, e.Kind))
}

// File adds a file; the caller then writes Size bytes. Unless sparse, holes become zeros.
func (w *Writer) File(e Entry, sparse bool) (*FileWriter, error) {
	err := w.check(e)
	if err == nil && (e.Kind != RegularFile || e.Size < 0 || e.Path == ".") {
		err = fmt.Errorf("%q (a %q of %d bytes) is no file", e.Path, e.Kind, e.Size)
	}
	if err == nil && sparse {
		err = w.beginHoles(e)
	} else if err == nil {
		err = w.tar.header(e, tarFile, e.Size)
	}
	if err != nil {
		return nil, w.fail(err)
	}
	w.open = &FileWriter{w: w, e: e, sparse: sparse, left: e.Size}
	return w.open, nil
}

func (w *Writer) check(e Entry) error {
	switch {
	case w.err != nil:
		return w.err
	case w.open != nil:
		return fmt.Errorf("%q is not closed", w.open.e.Path)
	case e.Path == "." && e.Kind == Folder:
		return nil
	case strings.ContainsRune(e.Link, 0):
		return fmt.Errorf("%q: the target of the link holds a NUL byte", e.Path)
	}
	return checkTreePath(e.Path)
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// A FileWriter takes the content of one file.
type FileWriter struct {
	w      *Writer
	e      Entry
	sparse bool
	left   int64
}

func (f *FileWriter) take(n int64) error {
	switch {
	case f.w.err != nil:
		return f.w.err
	case f.w.open != f:
		return f.w.fail(fmt.Errorf("%q is closed", f.e.Path))
	case n < 0 || n > f.left:
		return f.w.fail(fmt.Errorf("%q gets more than its %d bytes", f.e.Path, f.e.Size))
	}
	f.left -= n
	return nil
}

// Write adds data to the file.
func (f *FileWriter) Write(p []byte) (int, error) {
	if err := f.take(int64(len(p))); err != nil {
		return 0, err
	}
	var err error
	if f.sparse {
		err = f.w.holes.write(p)
	} else {
		_, err = f.w.tar.out.Write(p)
	}
	if err != nil {
		return 0, f.w.fail(err)
	}
	return len(p), nil
}

// Hole adds n zeros, which take no space in a sparse file.
func (f *FileWriter) Hole(n int64) error {
	if err := f.take(n); err != nil {
		return err
	}
	if f.sparse {
		return f.w.fail(f.w.holes.hole(n))
	}
	return f.w.fail(f.w.tar.zeros(n))
}

// Close ends the content, which must be complete.
func (f *FileWriter) Close() error {
	if err := f.take(0); err != nil {
		return err
	}
	if f.left > 0 {
		return f.w.fail(fmt.Errorf("%q: %d of %d bytes are missing", f.e.Path, f.left, f.e.Size))
	}
	f.w.open = nil
	if f.sparse {
		return f.w.fail(f.w.holes.endFile(f.e))
	}
	return f.w.fail(f.w.tar.zeros(-f.e.Size & (tarBlock - 1)))
}

var zeros = make([]byte, 64<<10)

func isZero(p []byte) bool {
	for len(p) > len(zeros) {
		if !bytes.Equal(p[:len(zeros)], zeros) {
			return false
		}
		p = p[len(zeros):]
	}
	return bytes.Equal(p, zeros[:len(p)])
}

var _ io.Writer = (*FileWriter)(nil)
