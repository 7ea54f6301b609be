package hosttest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// NastyTree makes dir, which must not exist, with entries of every kind that copying a tree
// easily loses or changes. largest is the size of its largest file, which is sparse.
func NastyTree(dir string, largest int64) error {
	n := &nasty{dir: dir, rnd: rand.NewPCG(1, 2), largest: largest}
	n.do("make", os.Mkdir(dir, 0o755))
	n.names()
	n.modes()
	n.links()
	n.sizes()
	n.others()
	n.times()
	return errors.Join(n.errs...)
}

type nasty struct {
	dir  string
	rnd  *rand.PCG
	errs []error

	largest int64
}

func (n *nasty) do(what string, err error) {
	if err != nil {
		n.errs = append(n.errs, fmt.Errorf("%s: %w", what, err))
	}
}

func (n *nasty) path(name string) string { return n.dir + "/" + name }

func (n *nasty) bytes(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(n.rnd.Uint64())
	}
	return b
}

func (n *nasty) file(name string, size int) {
	n.do(name, os.MkdirAll(filepath.Dir(n.path(name)), 0o755))
	n.do(name, os.WriteFile(n.path(name), n.bytes(size), 0o644))
}

func (n *nasty) folder(name string) { n.do(name, os.MkdirAll(n.path(name), 0o755)) }

// names makes files with names that break under careless quoting, sorting or decoding.
func (n *nasty) names() {
	for i, name := range []string{
		"a b", " ", "  lead", "trail ", "new\nline", "\n", "\nlead", "trail\n", "tab\there", "cr\r", "quote'", `double"`, "back`tick",
		`back\slash`, `\`, `\n`, `\0`, `trail\`, "*", "?", "[g]*?", "$HOME", "$(id)", "&", ";", "|", "<", ">", "(", "#", "!", "~", "%s%n", "{}", "=",
		"-", "--", "-rf", "--help", "-T", "...", ".hidden", "..two", "' -> '", "ünï-漢", "\xff\xfe", "latin\xe9", "\xc3", "\x01\x7f", "\x1b[31m",
		"a", "a.b", "a!", "a-", "a0", "dir.x", "dir!", "@LongLink", "fl-", strings.Repeat("l", 255), strings.Repeat("漢", 85), strings.Repeat("n\n", 127),
	} {
		n.file(name, i%7)
	}
	for _, folder := range []string{"dir", "dir/-x", "dir/.git", "dir/ sp", "dir\n", "d'i\"r", "d\xffr", "-d", "deep"} {
		n.folder(folder)
		n.file(folder+"/plain", 10)
		n.file(folder+"/-rf", 3)
		n.file(folder+"/new\nline", 4)
	}
	long := "deep"
	for range 14 {
		long += "/" + strings.Repeat("d", 240)
		n.folder(long)
	}
	n.file(long+"/bottom", 100)
	n.file(strings.Repeat("p", 99), 5)
	n.file(strings.Repeat("p", 98)+"/f", 5)
	n.file(strings.Repeat("p", 100)+"x/"+strings.Repeat("q", 100), 5)
	n.folder("empty")
	n.folder("empty folders/in/one another")
}

func (n *nasty) modes() {
	for _, mode := range []uint32{0o000, 0o400, 0o200, 0o111, 0o600, 0o644, 0o755, 0o777, 0o4755, 0o2755, 0o1644, 0o6711} {
		name := fmt.Sprintf("modes/f%04o", mode)
		n.file(name, 20)
		n.do(name, unix.Chmod(n.path(name), mode))
	}
	for _, mode := range []uint32{0o500, 0o555, 0o700, 0o1777, 0o2775, 0o777} {
		name := fmt.Sprintf("modes/d%04o", mode)
		n.file(name+"/inside", 20)
		n.file(name+"/sub/inside", 20)
		n.do(name, unix.Chmod(n.path(name)+"/sub", mode))
		n.do(name, unix.Chmod(n.path(name), mode))
	}
}

func (n *nasty) links() {
	n.folder("links/dir")
	n.file("links/file", 50)
	for name, target := range map[string]string{
		"file": "file", "dir": "dir", "dangling": "nowhere", "absolute": "/no/such/place", "up": "../../../..", "self": "self", "dot": ".",
		"space": "a b ", "new\nline": "x\ny", "arrow": "' -> '", "slashes": "a//b///", "bytes": "\xff\xfe", "dash": "-rf", "line": "\n//81a4 0",
		"long": strings.Repeat("t/", 2000), "hundred": strings.Repeat("h", 100), "hundred one": strings.Repeat("h", 101), "quote": "it's",
	} {
		n.do(name, os.Symlink(target, n.path("links/to "+name)))
	}
	n.file("links/hard/a", 3000)
	for _, name := range []string{"links/hard/b", "links/hard-c", "zz-hard", "links/hard/new\nline", "links/" + strings.Repeat("h", 200)} {
		n.do(name, os.Link(n.path("links/hard/a"), n.path(name)))
	}
	n.do("hard symlink", os.Link(n.path("links/to dangling"), n.path("links/to dangling too")))
}

func (n *nasty) sizes() {
	for _, size := range []int{0, 1, 511, 512, 513, 10239, 10240, 65535, 65536, 65537, 1 << 20, 3<<20 + 1} {
		n.file(fmt.Sprintf("sizes/%d", size), size)
	}
	n.do("zeros", os.WriteFile(n.path("sizes/zeros"), make([]byte, 300_000), 0o644))
	n.sparse("sparse/begins", 9<<20, 0, 4096, 5<<20, 100)
	n.sparse("sparse/all", 50<<20)
	n.sparse("sparse/ends", 3<<20+17, 3<<20, 17)
	n.sparse("sparse/largest", n.largest, n.largest/2, 70_000, n.largest-1, 1)
	var many []int64
	for i := range int64(60) {
		many = append(many, i*(200<<10), 4096)
	}
	n.sparse("sparse/many", 60*(200<<10), many...)
	n.do("sparse link", os.Link(n.path("sparse/many"), n.path("sparse/many too")))
	n.do("sparse mode", os.Chmod(n.path("sparse/begins"), 0o750))
}

// sparse makes a file with holes. places are pairs of the offset and the length of data.
func (n *nasty) sparse(name string, size int64, places ...int64) {
	n.folder(filepath.Dir(name))
	f, err := os.Create(n.path(name))
	n.do(name, err)
	if err != nil {
		return
	}
	for i := 0; i < len(places); i += 2 {
		_, err := f.WriteAt(n.bytes(int(places[i+1])), places[i])
		n.do(name, err)
	}
	n.do(name, f.Truncate(size))
	n.do(name, f.Close())
}

func (n *nasty) others() {
	n.folder("others")
	n.do("fifo", unix.Mkfifo(n.path("others/fi\nfo"), 0o644))
	n.do("fifo", unix.Mkfifo(n.path("others/fifo"), 0o644))
	// The path is short, because the length of socket addresses is limited.
	at, err := os.Open(n.path("others"))
	n.do("socket", err)
	if err == nil {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/socket", at.Fd())})
		n.do("socket", err)
		if err == nil {
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		at.Close()
	}
	if os.Geteuid() == 0 {
		n.do("device", unix.Mknod(n.path("others/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	}
}

// times gives every entry a different time. Folders come last.
func (n *nasty) times() {
	var all []string
	n.do("walk", filepath.WalkDir(n.dir, func(p string, _ fs.DirEntry, err error) error {
		all = append(all, p)
		return err
	}))
	slices.Reverse(all)
	for i, p := range all {
		at := unix.Timespec{Sec: 1_500_000_000 + int64(i)*1001, Nsec: int64(i) * 7_654_321 % 1e9}
		switch i % 17 {
		case 1:
			at = unix.Timespec{Sec: -1_000_000 - int64(i), Nsec: 250_000_000}
		case 2:
			at = unix.Timespec{Sec: 5_000_000_000 + int64(i)}
		case 3:
			at.Nsec = 0
		}
		n.do(p, unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

// BigTree makes dir with about as many different source files as files says, of about size
// bytes in total. It is for measurements.
func BigTree(dir string, files int, size int64) error {
	rnd := rand.New(rand.NewPCG(3, 4))
	words := strings.Fields("func return if err != nil context string the of package and import type struct range for int64 byte error fmt new")
	each := int(size / int64(max(files, 1)))
	for i := range files {
		name := fmt.Sprintf("%s/src/pkg%03d/internal/file_%05d.go", dir, i/100, i)
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return err
			}
		}
		var b bytes.Buffer
		for want := each/2 + rnd.IntN(each+1); b.Len() < want; {
			fmt.Fprintf(&b, "%s %x ", words[rnd.IntN(len(words))], rnd.Uint32())
		}
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// TreeDiffers are the permitted differences of a copied tree.
type TreeDiffers struct {
	// WholeSeconds says that fractions of seconds may be lost.
	WholeSeconds bool
	// LinkTimes says that symlinks may have another time.
	LinkTimes bool
	// Expanded says that holes may have become zeros.
	Expanded bool
}

// CompareTrees returns the differences between trees a and b, entry by entry:
// kinds, permissions, times, content, hard links, and holes. Sockets, FIFOs and
// devices of a must be missing in b.
func CompareTrees(a, b string, may TreeDiffers) error {
	left, err := readTree(a)
	if err != nil {
		return err
	}
	right, err := readTree(b)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(left)) {
		l, r := left[p], right[p]
		delete(right, p)
		switch {
		case l.mode&unix.S_IFMT != unix.S_IFREG && l.mode&unix.S_IFMT != unix.S_IFDIR && l.mode&unix.S_IFMT != unix.S_IFLNK:
			if r != nil {
				errs = append(errs, fmt.Errorf("%q: was carried over", p))
			}
		case r == nil:
			errs = append(errs, fmt.Errorf("%q: is missing", p))
		default:
			if diff := l.differs(r, may); diff != "" {
				errs = append(errs, fmt.Errorf("%q: %s", p, diff))
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(right)) {
		errs = append(errs, fmt.Errorf("%q: was not there", p))
	}
	return errors.Join(errs...)
}

type treeItem struct {
	mode   uint32
	size   int64
	mtime  unix.Timespec
	blocks int64
	sum    [sha256.Size]byte
	link   string
	same   string // for a hard link, the first name of the same file
}

func (l *treeItem) differs(r *treeItem, may TreeDiffers) string {
	var diffs []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			diffs = append(diffs, fmt.Sprintf(format, args...))
		}
	}
	link := l.mode&unix.S_IFMT == unix.S_IFLNK
	add(l.mode != r.mode, "mode %o became %o", l.mode, r.mode)
	add(l.size != r.size, "size %d became %d", l.size, r.size)
	add(l.link != r.link, "link to %q became one to %q", l.link, r.link)
	add(l.same != r.same, "the same file as %q became the same as %q", l.same, r.same)
	add(l.sum != r.sum, "content changed")
	sameTime := l.mtime == r.mtime || may.WholeSeconds && l.mtime.Sec == r.mtime.Sec || link && may.LinkTimes
	add(!sameTime, "time %v became %v", l.mtime, r.mtime)
	add(!may.Expanded && l.blocks*512 < l.size/2 && r.blocks > 2*l.blocks+16, "%d blocks became %d", l.blocks, r.blocks)
	return strings.Join(diffs, "; ")
}

func readTree(dir string) (map[string]*treeItem, error) {
	items := map[string]*treeItem{}
	first := map[[2]uint64]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(p, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		it := &treeItem{mode: st.Mode, blocks: st.Blocks, mtime: unix.Timespec(st.Mtim), same: rel}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			if it.link, err = os.Readlink(p); err != nil {
				return err
			}
			it.blocks = 0
		case unix.S_IFREG:
			it.size = st.Size
			id := [2]uint64{st.Dev, st.Ino}
			if was, ok := first[id]; ok {
				it.same, it.sum = was, items[was].sum
			} else {
				first[id] = rel
				if it.sum, err = sumData(p); err != nil {
					return err
				}
			}
		}
		items[rel] = it
		return nil
	})
	return items, err
}

// sumData returns a digest of the data in a file and its positions, without
// reading holes.
func sumData(p string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(p)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	buf, zero := make([]byte, 4096), make([]byte, 4096)
	for at := int64(0); ; {
		data, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, syscall.ENXIO) {
			return [sha256.Size]byte(h.Sum(nil)), nil
		}
		if err != nil {
			return sum, err
		}
		at = data / 4096 * 4096
		n, err := f.ReadAt(buf, at)
		if n > 0 && !bytes.Equal(buf[:n], zero[:n]) {
			fmt.Fprintln(h, at, n)
			h.Write(buf[:n])
		}
		at += int64(n)
		if err == io.EOF {
			return [sha256.Size]byte(h.Sum(nil)), nil
		}
		if err != nil {
			return sum, err
		}
	}
}
