package tree

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

//go:embed tree_read.sh
var treeReadScript string

// A File is a file that Read passes to fn. It is valid until fn returns.
type File struct {
	// Path is the requested path.
	Path string
	// Size is how many bytes Read will return.
	Size int64
	// Missing says that there is no content: the file vanished, cannot be read, or is not a
	// regular file.
	Missing bool
	// HardLink, if set, is an earlier file in the stream of which this path is another
	// name. This File then has no content. Not every host reports hard links.
	HardLink string

	in    *bufio.Reader
	holes []extent // the remaining data extents; the last marks the end of the file
	at    int64
	left  int64 // bytes of data left in the stream
	err   error
	torn  error // the error if the stream ends within the file
}

type extent struct{ offset, size int64 }

// ErrTorn means that a file was truncated while it was read.
var ErrTorn = errors.New("file was cut short while it was read")

// Read reads the content, with zeros for holes. After ErrTorn, later files can still be
// read.
func (f *File) Read(p []byte) (int, error) {
	if n := min(f.hole(), int64(len(p))); n > 0 {
		clear(p[:n])
		f.at += n
		return int(n), nil
	}
	if f.at >= f.Size {
		return 0, io.EOF
	}
	if f.err != nil {
		return 0, f.err
	}
	next := f.Size
	if len(f.holes) > 0 {
		next = f.holes[0].offset + f.holes[0].size
	}
	n, err := f.in.Read(p[:min(int64(len(p)), next-f.at)])
	f.at += int64(n)
	f.left -= int64(n)
	if len(f.holes) > 0 && f.at == next {
		f.holes = f.holes[1:]
	}
	if n > 0 || err == nil {
		return n, nil
	}
	if err == io.EOF {
		err = f.torn
	}
	f.err = err
	return 0, err
}

// SkipHole skips a hole and returns its length, or 0 if data follows or the content ends.
func (f *File) SkipHole() int64 {
	n := f.hole()
	f.at += n
	return n
}

// hole returns the distance from f.at to the next data.
func (f *File) hole() int64 {
	for len(f.holes) > 0 && f.holes[0].size == 0 && f.holes[0].offset <= f.at {
		f.holes = f.holes[1:]
	}
	switch {
	case f.holes == nil:
		return 0 // without a map, everything is data
	case len(f.holes) == 0:
		return f.Size - f.at
	}
	return max(0, f.holes[0].offset-f.at)
}

// treeBatch is how many names go at a time to a tar that cannot read a list.
const treeBatch = 256

// Read reads files below dir over one channel. names may wait for a listing, and fn for a
// store, but names must not wait for fn. names yields paths as List reports them, each
// once, including the files in a folder that it yields. It should end when ctx ends.
//
// fn is called for each name, in order, with its content or with Missing set. Content that
// it does not read is skipped. The host chooses a file's Size, so fn refuses what is larger
// than it wants. An error of fn ends the call. Finally Read calls again, if
// it is not nil, with the state of each name that still exists, in any order. If that state
// equals the one in an earlier listing, the file did not change while it was read.
//
// Holes are not transferred if the host has GNU tar and a Linux file system. Files that
// change, vanish, or may not be read are no error. If a file shrinks while busybox's tar
// reads it, tar gives up, and the following names are reported as missing although they
// exist; the caller can ask for them again. A disk that cannot be read is an error. So is a
// folder that became inaccessible after it was listed, because its files did not vanish; a
// new listing reports it as Unreadable.
func Read(ctx context.Context, h hostexec.Host, dir string, names func(yield func(string) bool), fn func(*File) error, again func(Entry) error) error {
	if err := readTree(ctx, h, dir, names, fn, again); err != nil {
		return fmt.Errorf("read tree %s on %s: %w", dir, h.Name(), hostexec.SentBy(h, err))
	}
	return nil
}

func readTree(ctx context.Context, h hostexec.Host, dir string, names func(yield func(string) bool), fn func(*File) error, again func(Entry) error) error {
	if err := script.CheckPath(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	mark := script.NewMark()
	s, err := h.Start(ctx, hostexec.Command{Script: treePackScript + treeReadScript, Args: []string{dir, mark, strconv.Itoa(treeBatch)}, Bulk: true, TellFar: true})
	if err != nil {
		return err
	}
	defer s.Close()
	asked := newNameQueue()
	defer asked.stop(nil)
	go asked.take(names, func(err error) { cancel(err); s.Close() })
	go asked.send(s)

	r := &treeReader{s: s, mark: mark, asked: asked, fn: fn, again: again}
	readErr := r.read(onlyReader{s})
	if bad := asked.failure(); bad != nil {
		return bad
	}
	if readErr != nil && !errors.Is(readErr, io.EOF) && !errors.Is(readErr, io.ErrUnexpectedEOF) {
		return readErr
	}
	if err := s.Wait(); err != nil {
		var exit *hostexec.ExitError
		if errors.As(err, &exit) && exit.Code == script.ExitNotExist {
			err = fmt.Errorf("%w%s", hostexec.ErrNotExist, script.FirstLine(exit.Stderr))
		}
		return err
	}
	stderr := s.Stderr()
	if readErr != nil {
		return fmt.Errorf("the stream ended early (%w)%s", readErr, script.FirstLine(stderr))
	}
	return failedReads(stderr)
}

// failedReads returns an error if tar could not read a file for another reason than
// truncation: tar then wrote zeros, and the file's state does not show it. It also returns
// an error if a file exists but could not be examined afterwards.
func failedReads(stderr []byte) error {
	for line := range strings.Lines(string(stderr)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, ": Read error at byte ") {
			return fmt.Errorf("a file cannot be read: %s", line)
		}
		tool, what, _ := strings.Cut(line, ": ")
		if (tool == "find" || tool == "stat") && !wentAway(what) {
			return fmt.Errorf("a file cannot be looked at: %s", line)
		}
	}
	return nil
}

// wentAway reports whether a tool's message is a warning or says that a file vanished.
func wentAway(what string) bool {
	for _, why := range []string{"No such file or directory", "Not a directory"} {
		if strings.HasSuffix(what, ": "+why) {
			return true
		}
	}
	return strings.HasPrefix(what, "warning: ")
}

func checkTreePath(p string) error {
	if p == "" || path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is not a clean path below the folder", p)
	}
	return nil
}

type treeReader struct {
	s     hostexec.Stream
	mark  string
	asked *nameQueue
	fn    func(*File) error
	again func(Entry) error
	in    *bufio.Reader

	unasked int64 // bytes that we did not ask for
}

// maxUnasked bounds what is skipped: files that were not asked for, which a tar that enters
// folders sends, and what follows a damaged archive, in bytes.
const maxUnasked = 64 << 20

func (r *treeReader) skipped(n int64) error {
	if r.unasked += n; r.unasked > maxUnasked || n < 0 {
		return &hostexec.FloodError{What: "what nobody asked for among the files of a tree", Limit: maxUnasked}
	}
	return nil
}

// drop skips the rest of an archive.
func (r *treeReader) drop(m io.Reader) error {
	for buf := make([]byte, 32<<10); ; {
		n, err := m.Read(buf)
		if flood := r.skipped(int64(n)); flood != nil {
			return flood
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *treeReader) line() (string, error) {
	return hostexec.ReadLine(r.in, maxHead, "a line between archives")
}

func (r *treeReader) read(from io.Reader) error {
	in, done, err := unpackTree(from, 256<<10)
	if err != nil {
		return err
	}
	defer done()
	r.in = in
	how, err := r.line()
	if err != nil {
		return err
	}
	switch how {
	case "gnu\n":
		return r.readOne()
	case "other\n":
		return r.readBatches()
	}
	return fmt.Errorf("%w: it begins with %q", script.ErrGarbled, how)
}

// readOne reads the archive of a tar that got all names.
func (r *treeReader) readOne() error {
	t := &tarReader{in: r.in, torn: io.ErrUnexpectedEOF}
	if err := r.readTar(t); err != nil {
		return err
	}
	line, err := r.line()
	if err != nil {
		return err
	}
	if _, _, ok := r.parseMark(line); !ok {
		return fmt.Errorf("%w: %.200q comes after the archive", script.ErrGarbled, line)
	}
	if err := r.tellMissing(math.MaxInt); err != nil {
		return err
	}
	if line, err = r.line(); err != nil {
		return err
	}
	how, ok := strings.CutPrefix(line, r.mark+" after ")
	if !ok {
		return fmt.Errorf("%w: %.200q comes after the archive", script.ErrGarbled, line)
	}
	return r.listAgain(how)
}

func (r *treeReader) parseMark(line string) (status, count int, ok bool) {
	n, err := fmt.Sscanf(line, r.mark+" %d %d\n", &status, &count)
	return status, count, err == nil && n == 2
}

func (r *treeReader) readTar(t *tarReader) error {
	for {
		hdr, err := t.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		p := strings.TrimPrefix(hdr.name, "./")
		missing, ok := r.asked.popTo(p)
		for _, m := range missing {
			if err := r.fn(&File{Path: m, Missing: true}); err != nil {
				return err
			}
		}
		if ok {
			f := hdr.file
			f.Path = p
			if hdr.kind == tarLink {
				f.HardLink = strings.TrimPrefix(hdr.link, "./")
			} else if hdr.kind != tarFile {
				f.Missing = true
			}
			if err := r.fn(f); err != nil {
				return err
			}
		} else if err := r.skipped(tarBlock + hdr.file.left); err != nil {
			return err
		}
		if err := t.skip(); err != nil {
			return err
		}
	}
}

// readBatches reads one archive per batch of names. An archive may be truncated, so the
// mark shows its end.
func (r *treeReader) readBatches() error {
	m := &markReader{in: r.in, mark: []byte(r.mark)}
	for {
		m.ended = false
		before := r.asked.popped
		t := &tarReader{in: bufio.NewReaderSize(m, 64<<10), torn: ErrTorn}
		if err := r.readTar(t); err != nil && !errors.Is(err, ErrTorn) {
			return err
		}
		if err := r.drop(m); err != nil {
			return err
		}
		line, err := r.line()
		if err != nil {
			return err
		}
		if how, ok := strings.CutPrefix(line, r.mark+" after "); ok {
			return r.listAgain(how)
		}
		_, count, ok := r.parseMark(line)
		if !ok {
			return fmt.Errorf("%w: %.200q comes after an archive", script.ErrGarbled, line)
		}
		if err := r.tellMissing(before + count); err != nil {
			return err
		}
	}
}

// tellMissing reports names as missing until the number of answered names is until.
func (r *treeReader) tellMissing(until int) error {
	for r.asked.popped < until {
		p, ok := r.asked.pop()
		if !ok {
			break
		}
		if err := r.fn(&File{Path: p, Missing: true}); err != nil {
			return err
		}
	}
	return nil
}

// listAgain parses the state of the files after all content.
func (r *treeReader) listAgain(how string) error {
	fn := r.again
	if fn == nil {
		fn = func(Entry) error { return nil }
	}
	l := &treeLister{in: r.in, mark: []byte("//" + r.mark), fn: fn, unordered: true, most: r.asked.total()}
	var err error
	switch how {
	case "gnu\n":
		err = l.readRecords()
		l.ended = l.status
	case "stat\n":
		err = l.readLines(nil)
	default:
		err = fmt.Errorf("%w: %q comes after the archive", script.ErrGarbled, how)
	}
	if err != nil {
		return err
	}
	return toolsEnded(l.ended, "tee", "sort", "look")
}
