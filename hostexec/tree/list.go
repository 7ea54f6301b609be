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
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

//go:embed tree_list.sh
var treeListScript string

// An Entry is a name in a tree with the properties of its file.
type Entry struct {
	// Path is clean and relative to the tree's folder, which is ".". It may hold any byte
	// but NUL.
	Path string
	Kind Kind
	// Mode is as in chmod, with setuid, setgid and sticky.
	Mode         uint32
	Size         int64
	MTime, CTime time.Time
	Inode, Dev   uint64
	Links        uint64 // names that the file has
	Blocks       int64  // allocated blocks of 512 bytes
	// Link is a symlink's target or, for a HardLink, another path of the same file.
	Link string
	// Pruned says that a pattern of ListOptions.Prune matches. Its content is not listed.
	Pruned bool
	// Unreadable marks a folder that may not be read. Its content is not listed.
	Unreadable bool
}

// Kind is the type of a file.
type Kind byte

// The letters are those of find. List reports each name of a file as RegularFile, never as
// HardLink.
const (
	RegularFile Kind = 'f'
	Folder      Kind = 'd'
	Symlink     Kind = 'l'
	FIFO        Kind = 'p'
	Socket      Kind = 's'
	CharDevice  Kind = 'c'
	BlockDevice Kind = 'b'
	HardLink    Kind = 'h'
	UnknownKind Kind = '?'
)

// Sparse reports whether a file occupies less space than its size: it has holes, or its
// file system compresses.
func (e Entry) Sparse() bool { return e.Kind == RegularFile && e.Blocks*512 < e.Size }

// ComparePaths compares paths in the order of List: the byte order of the paths with "//"
// appended. So a/-b comes before a. "." comes first.
func ComparePaths(a, b string) int {
	if a == "." || b == "." {
		return cmp.Compare(btoi(a != "."), btoi(b != "."))
	}
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 || len(a) == len(b) {
		return c
	}
	return strings.Compare(a[n:]+"//", b[n:]+"//")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxTreePath and maxTreeName are the longest path below a tree's folder and the longest
// name that every host can handle. Linux accepts paths of 4,095 bytes, with a "./" before
// and a slash after, and nearly all file systems names of 255.
const maxTreePath, maxTreeName = 4090, 255

// PathFits reports whether Read and Write can handle this path. List also lists longer
// paths.
func PathFits(p string) bool {
	if len(p) > maxTreePath {
		return false
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxTreeName {
			return false
		}
	}
	return true
}

// ListOptions configure List.
type ListOptions struct {
	// Prune holds patterns of entries to list without their content. A pattern without a
	// slash is matched with the name, as in fnmatch(3): *, ?, […]. A pattern with a slash
	// at its end matches only folders. A pattern with a slash elsewhere is a literal path
	// below the folder.
	Prune []string
	// Began, if set, gets the host's time before the first entry.
	Began func(clock time.Time)
}

// A Listing holds what concerns a whole listing.
type Listing struct {
	// Clock is the host's time at the beginning, in whole seconds if its date prints no
	// fraction. A file that changed at that time or later may change again without a change
	// of its properties.
	Clock time.Time
	// Problems are messages of the host's tools about files that could not be examined, at
	// most maxProblems, without vanished files.
	Problems []string
}

// List calls fn once for each path in dir, in the order of ComparePaths, perhaps beginning
// with "." for dir. Its memory is bounded. It skips files that vanish, and lists a folder
// that may not be read as Unreadable. An error of fn ends the listing. If dir is not a
// folder, the error wraps ErrNotExist. More than maxEntries paths are a *FloodError.
func List(ctx context.Context, h hostexec.Host, dir string, opts ListOptions, fn func(Entry) error) (Listing, error) {
	l, err := listTree(ctx, h, dir, opts, fn)
	if err != nil {
		return l, fmt.Errorf("list tree %s on %s: %w", dir, h.Name(), hostexec.SentBy(h, err))
	}
	return l, nil
}

func listTree(ctx context.Context, h hostexec.Host, dir string, opts ListOptions, fn func(Entry) error) (Listing, error) {
	if err := script.CheckPath(dir); err != nil {
		return Listing{}, err
	}
	tests, err := pruneTests(opts.Prune)
	if err != nil {
		return Listing{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mark := "//" + rand.Text()[:8]
	s, err := h.Start(ctx, hostexec.Command{Script: treePackScript + treeListScript, Args: append([]string{dir, mark}, tests...), Bulk: true, TellFar: true})
	if err != nil {
		return Listing{}, err
	}
	defer s.Close()
	s.CloseWrite()
	l := &treeLister{mark: []byte(mark), fn: fn, began: opts.Began, most: maxEntries}
	told, readErr := l.read(onlyReader{s})
	if readErr != nil && !errors.Is(readErr, io.EOF) && !errors.Is(readErr, io.ErrUnexpectedEOF) {
		return told, readErr
	}
	if err := s.Wait(); err != nil {
		var exit *hostexec.ExitError
		if errors.As(err, &exit) && exit.Code == script.ExitNotExist {
			err = fmt.Errorf("%w%s", hostexec.ErrNotExist, script.FirstLine(exit.Stderr))
		}
		return told, err
	}
	if readErr != nil {
		return told, fmt.Errorf("the listing ended early%s", script.FirstLine(s.Stderr()))
	}
	told.Problems = treeProblems(s.Stderr())
	return told, nil
}

func pruneTests(patterns []string) ([]string, error) {
	var tests []string
	for _, p := range patterns {
		p, folder := strings.CutSuffix(p, "/")
		switch {
		case p == "" || strings.ContainsRune(p, 0):
			return nil, fmt.Errorf("%q is no pattern", p)
		case strings.Contains(p, "/") && (path.IsAbs(p) || path.Clean(p) != p || strings.HasPrefix(p, "../")):
			return nil, fmt.Errorf("%q is not a clean path below the folder", p)
		}
		if len(tests) > 0 {
			tests = append(tests, "-o")
		}
		if folder {
			tests = append(tests, "-type", "d")
		}
		if strings.Contains(p, "/") {
			tests = append(tests, "-path", "./"+globEscaper.Replace(p))
		} else {
			tests = append(tests, "-name", p)
		}
	}
	return tests, nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

const maxProblems = 20

func treeProblems(stderr []byte) []string {
	var problems []string
	for line := range strings.Lines(string(stderr)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasSuffix(line, "No such file or directory") {
			continue
		}
		if problems = append(problems, line); len(problems) == maxProblems {
			break
		}
	}
	return problems
}

type treeLister struct {
	in   *bufio.Reader
	mark []byte // see tree_list.sh
	fn   func(Entry) error

	began func(clock time.Time)

	unordered bool
	most      int64 // the host may list so many entries
	told      int64

	long      []byte // a record that exceeds the buffer of in
	any       bool
	last      string
	held      []Entry
	heldBytes int // of held and flags, see keep
	flags     map[string]byte
	status    string // of find
	sorted    string // of sort
	ended     string // of the host's tools, see toolsEnded
}

const (
	// maxTreeRecord exceeds the longest path and link target of any system, in bytes.
	maxTreeRecord = 1 << 20
	// maxEntries bounds a listing.
	maxEntries = 100_000_000
	// maxKept bounds the memory for entries of a listing from stat that must be kept until
	// others have come, in bytes.
	maxKept = 24 << 20
	// keptOverhead is what a kept entry takes beside its texts.
	keptOverhead = 200
)

// keep counts memory for an entry that is kept.
func (l *treeLister) keep(n int) error {
	if l.heldBytes += n + keptOverhead; l.heldBytes > maxKept {
		return &hostexec.ContentError{What: "the pruned and unreadable folders of a listing, and names that begin with one another", Limit: maxKept, Unit: "bytes"}
	}
	return nil
}

func (l *treeLister) read(from io.Reader) (Listing, error) {
	in, done, err := unpackTree(from, 64<<10)
	if err != nil {
		return Listing{}, err
	}
	defer done()
	l.in = in
	// The line has the record of the folder itself.
	line, err := hostexec.ReadLine(l.in, maxHead, "the first line of a listing")
	if err != nil {
		return Listing{}, err
	}
	how, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	clock, root, _ := strings.Cut(rest, " ")
	sec, fraction, _ := strings.Cut(clock, ".")
	now, err := strconv.ParseInt(sec, 10, 64)
	if err != nil {
		return Listing{}, fmt.Errorf("%w: it begins with %.200q", script.ErrGarbled, line)
	}
	ns, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil || len(fraction) != 9 {
		ns, err = 0, nil // some date programs print no fraction, or the format itself
	}
	told := Listing{Clock: time.Unix(now, ns)}
	if l.began != nil {
		l.began(told.Clock)
	}
	switch how {
	case "gnu":
		if err = l.tellFound([]byte(root)); err == nil {
			err = l.readRecords()
		}
		if err == nil && l.sorted != "0" {
			err = fmt.Errorf("sort ended with status %q", l.sorted)
		}
	case "stat":
		if err = l.readFlags(); err == nil {
			err = l.readLines([]byte(root))
		}
		if err == nil {
			err = toolsEnded(l.ended, "sort", "look")
		}
	default:
		err = fmt.Errorf("%w: it begins with %.200q", script.ErrGarbled, line)
	}
	if err == nil {
		if n, bad := strconv.Atoi(l.status); bad != nil || n > 125 {
			err = fmt.Errorf("find ended with status %q", l.status)
		}
	}
	return told, err
}

// toolsEnded returns an error unless all these tools ended with status 0; a failed tool may
// have passed on less than it got. said holds "name status" pairs. "look" may also end with
// 1 (find) or 123 (xargs), because files may have vanished.
func toolsEnded(said string, tools ...string) error {
	words := strings.Fields(said)
	for _, tool := range tools {
		i := slices.Index(words, tool)
		if i < 0 || i+1 == len(words) {
			return fmt.Errorf("%w: the exit status of %q is missing", script.ErrGarbled, tool)
		}
		status := words[i+1]
		n, err := strconv.Atoi(status)
		if err == nil && tool == "look" && n <= 123 {
			n = 0
		}
		if err != nil || n != 0 {
			return fmt.Errorf("%q failed on the host with status %s; the listing may be incomplete", tool, status)
		}
	}
	return nil
}

// next returns the bytes before the next end byte, valid until the next call.
func (l *treeLister) next(end byte) ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice(end)
		switch {
		case err == nil && len(l.long) == 0:
			return part[:len(part)-1], nil
		case err == nil:
			l.long = append(l.long, part...)
			return l.long[:len(l.long)-1], nil
		case err != bufio.ErrBufferFull:
			if err == io.EOF && len(part)+len(l.long) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		case len(l.long) > maxTreeRecord:
			return nil, &hostexec.FloodError{What: "a record of a listing", Limit: maxTreeRecord}
		}
		l.long = append(l.long, part...)
	}
}

func (l *treeLister) readRecords() error {
	for {
		rec, err := l.next(0)
		if err != nil {
			return l.end(err)
		}
		if status, ok := bytes.CutPrefix(rec, []byte("///")); ok {
			if l.status == "" {
				l.status = string(status)
			} else if l.sorted == "" {
				l.sorted = string(status)
			} else {
				return fmt.Errorf("%w: it goes on after its end", script.ErrGarbled)
			}
			continue
		}
		if err := l.tellFound(rec); err != nil {
			return err
		}
	}
}

func (l *treeLister) tellFound(rec []byte) error {
	e, err := parseFound(rec)
	if err != nil {
		return err
	}
	return l.tell(e)
}

func (l *treeLister) end(err error) error {
	if err == io.EOF && l.status == "" {
		return io.ErrUnexpectedEOF
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// tell passes an entry to fn, but drops repeated ones: a folder that changes while it is
// read may list a name twice.
func (l *treeLister) tell(e Entry) error {
	if l.any && !l.unordered {
		switch c := ComparePaths(l.last, e.Path); {
		case c == 0:
			return nil
		case c > 0:
			return fmt.Errorf("%w: %q comes after %q", script.ErrGarbled, e.Path, l.last)
		}
	}
	if l.told++; l.told > l.most {
		return &hostexec.FloodError{What: "a listing", Limit: l.most, Unit: "entries"}
	}
	l.any, l.last = true, e.Path
	return l.fn(e)
}

// parseFound parses "path//how kind mode size mtime ctime inode links blocks dev target".
func parseFound(rec []byte) (Entry, error) {
	i := bytes.Index(rec, []byte("//"))
	if i < 0 {
		return Entry{}, fmt.Errorf("%w: record %.200q", script.ErrGarbled, rec)
	}
	e := Entry{Path: string(rec[:i])}
	if e.Path == "" {
		e.Path = "."
	}
	e.Path = strings.TrimPrefix(e.Path, "./")
	f := fields{rest: rec[i+2:]}
	how, kind := f.word(), f.word()
	if len(how) != 1 || len(kind) != 1 {
		return e, fmt.Errorf("%w: record %.200q", script.ErrGarbled, rec)
	}
	e.Pruned, e.Unreadable = how[0] == 'x', how[0] == 'r'
	e.Kind = knownKind(Kind(kind[0]))
	e.Mode = uint32(f.number(8))
	e.Size = int64(f.number(10))
	e.MTime, e.CTime = f.time(), f.time()
	e.Inode, e.Links, e.Blocks, e.Dev = f.number(10), f.number(10), int64(f.number(10)), f.number(10)
	if e.Kind == Symlink {
		e.Link = string(f.rest)
	}
	if f.bad {
		return e, fmt.Errorf("%w: record %.200q", script.ErrGarbled, rec)
	}
	return e, nil
}

func knownKind(k Kind) Kind {
	switch k {
	case RegularFile, Folder, Symlink, FIFO, Socket, CharDevice, BlockDevice:
		return k
	}
	return UnknownKind
}

type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) word() []byte {
	i := bytes.IndexByte(f.rest, ' ')
	if i < 0 {
		f.bad = true
		return nil
	}
	w := f.rest[:i]
	f.rest = f.rest[i+1:]
	return w
}

func (f *fields) number(base uint64) uint64 {
	n, ok := parseDigits(f.word(), base)
	f.bad = f.bad || !ok
	return n
}

func parseDigits(w []byte, base uint64) (n uint64, ok bool) {
	for _, c := range w {
		d := uint64(c - '0')
		if c >= 'a' {
			d = uint64(c-'a') + 10
		}
		if d >= base {
			return 0, false
		}
		n = n*base + d
	}
	return n, len(w) > 0
}

func (f *fields) time() time.Time {
	w := f.word()
	w, negative := bytes.CutPrefix(w, []byte("-"))
	sec, fraction, _ := bytes.Cut(w, []byte("."))
	s, ok := parseDigits(sec, 10)
	ns, ok2 := nanoseconds(fraction)
	f.bad = f.bad || !ok || !ok2
	if negative {
		return time.Unix(-int64(s), ns) // find prints sign and seconds apart from nanoseconds
	}
	return time.Unix(int64(s), ns)
}

func nanoseconds(digits []byte) (int64, bool) {
	var ns int64
	for i := range 9 {
		ns *= 10
		if i < len(digits) {
			if digits[i] < '0' || digits[i] > '9' {
				return 0, false
			}
			ns += int64(digits[i] - '0')
		}
	}
	return ns, true
}
