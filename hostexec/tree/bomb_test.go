package tree

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/hostexec"
)

// A hostile host sends what out returns, and never ends its script by itself.
type hostile struct {
	hostexec.Host
	out io.Reader
}

func (hostile) Name() string { return "bad-1" }
func (h hostile) Start(context.Context, hostexec.Command) (hostexec.Stream, error) {
	return &hostileStream{Reader: h.out, closed: make(chan struct{})}, nil
}

type hostileStream struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func (*hostileStream) Write(p []byte) (int, error) { return len(p), nil }
func (*hostileStream) CloseWrite() error           { return nil }
func (*hostileStream) Stderr() []byte              { return nil }
func (s *hostileStream) Close() error              { s.once.Do(func() { close(s.closed) }); return nil }
func (s *hostileStream) Wait() error {
	<-s.closed
	return fmt.Errorf("%w: the test closed the channel", hostexec.ErrOutcomeUnknown)
}

// repeated yields the same text for ever.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		c := copy(p[n:], r.text[r.at:])
		n, r.at = n+c, (r.at+c)%len(r.text)
	}
	return len(p), nil
}

func forever(begin, text string) io.Reader {
	return io.MultiReader(strings.NewReader(begin), &repeated{text: text})
}

// numbered yields text with %d replaced by rising or falling numbers, for ever.
func numbered(begin, text string, from, step int) io.Reader {
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriterSize(w, 256<<10)
		for n := from; ; n += step {
			if _, err := fmt.Fprintf(out, text, n); err != nil {
				return
			}
		}
	}()
	return &closer{io.MultiReader(strings.NewReader(begin), r), r}
}

type closer struct {
	io.Reader
	pipe *io.PipeReader
}

// packed is 256 MiB of text behind begin, compressed to a thousandth.
func packed(t *testing.T, begin, text string) io.Reader {
	t.Helper()
	var b strings.Builder
	b.WriteString("packed gzip\n")
	z := gzip.NewWriter(&b)
	if _, err := io.Copy(z, io.LimitReader(forever(begin, strings.Repeat(text, 64<<10/len(text))), 256<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.NewReader(b.String())
}

func header(t *testing.T, name string, kind byte, size int64) string {
	t.Helper()
	var b strings.Builder
	out := bufio.NewWriter(&b)
	if err := (treeTar{out}).block(name, "", kind, 0o644, size, 0); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// holey is a header whose map of holes goes on, and block is the next part of the map.
func holey(t *testing.T, name string) (head, block string) {
	b := []byte(header(t, name, tarSparse, 0))
	number := func(at int, n uint64) {
		b[at] = 0x80
		binary.BigEndian.PutUint64(b[at+4:], n)
	}
	number(386, 0)
	number(398, 0)
	b[482] = 1
	number(483, 1<<60)
	copy(b[148:156], "        ")
	sum := int64(0)
	for _, c := range b {
		sum += int64(c)
	}
	putTarNumber(b[148:155], sum)
	next := make([]byte, tarBlock)
	for i := range 21 {
		next[i*24], next[i*24+12] = 0x80, 0x80
	}
	next[504] = 1
	return string(b), string(next)
}

// allocated returns how many bytes f allocated in all, which is never less than what it
// held at one time.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

const mayTake = 64 << 20

// ofContent are the cases that the content of a folder can cause on a sound host.
var ofContent = []string{"more pruned folders than anybody has", "a map of holes without an end"}

func mustBeFlood(t *testing.T, took uint64, err error) {
	t.Helper()
	var flood *hostexec.FloodError
	if _, name, _ := strings.Cut(t.Name(), "/"); slices.Contains(ofContent, strings.ReplaceAll(name, "_", " ")) {
		if !errors.Is(err, hostexec.ErrContent) || errors.Is(err, hostexec.ErrFlood) {
			t.Errorf("%.300v", err)
		}
	} else if !errors.As(err, &flood) || flood.Host != "bad-1" || errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Errorf("%.300v", err)
	}
	if took > mayTake {
		t.Errorf("it took %d MiB", took>>20)
	}
}

const (
	gnuHead  = "gnu 1700000000.000000000 //. d 755 4096 1700000000.0 1700000000.0 2 1 8 5 \n"
	statHead = "stat 1700000000.000000000 //m41ed 4096 1700000000 1700000000 2 2 8 fe01/2023-11-14 22:13:20.5 +0000/2023-11-14 22:13:20.5 +0000/.\n"
)

func TestAListingThatIsABombCostsLittle(t *testing.T) {
	for name, out := range map[string]io.Reader{
		"a first line without an end":               forever("packed ", "x"),
		"a compressed head without an end":          packed(t, "gnu ", "x"),
		"a compressed record without an end":        packed(t, gnuHead, "x"),
		"a compressed stat record of endless lines": packed(t, statHead+"//f0\x00//m", "line\n"),
		"more pruned folders than anybody has":      numbered("packed \n"+statHead, "./folder/%d//x\x00", 1<<20, 1),
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocated(func() {
				_, err = List(t.Context(), hostile{out: out}, "/work", ListOptions{}, func(Entry) error { return nil })
			})
			if c, ok := out.(*closer); ok {
				c.pipe.Close()
			}
			mustBeFlood(t, took, err)
		})
	}
}

// The order of stat holds back names that begin with one another. A host that lists names in
// falling order holds back all.
func TestAListingOfStatInTheWrongOrderCostsLittle(t *testing.T) {
	out := numbered("", "//m81a4 3 1700000000 1700000000 5 1 8 fe01/2023-11-14 22:13:20.5 +0000/2023-11-14 22:13:20.5 +0000/%09d\n", 999_999_999, -1)
	defer out.(*closer).pipe.Close()
	l := &treeLister{in: bufio.NewReader(out), mark: []byte("//m"), most: maxEntries, fn: func(Entry) error { return nil }}
	// A folder can have as many unreadable folders, so the host is not to blame.
	var content *hostexec.ContentError
	if err := l.readLines(nil); !errors.As(err, &content) || content.Limit != maxKept || errors.Is(err, hostexec.ErrFlood) {
		t.Errorf("%.300v", err)
	}
	if l.heldBytes > maxKept+1<<10 || len(l.held) > maxKept/keptOverhead {
		t.Errorf("it holds %d entries, of %d bytes", len(l.held), l.heldBytes)
	}
}

func TestAListingHasOnlySoManyEntries(t *testing.T) {
	out := numbered("", "%09d//. f 644 3 1700000000.0 1700000000.0 5 1 8 5 \x00", 1, 1)
	defer out.(*closer).pipe.Close()
	told := 0
	l := &treeLister{in: bufio.NewReader(out), most: 1000, fn: func(Entry) error { told++; return nil }}
	var flood *hostexec.FloodError
	if err := l.readRecords(); !errors.As(err, &flood) || flood.Limit != 1000 || flood.Unit != "entries" || told != 1000 {
		t.Errorf("%d entries, %.300v", told, err)
	}
}

func TestFilesThatAreABombCostLittle(t *testing.T) {
	map1, map2 := holey(t, "./file")
	small := header(t, "./file", tarFile, 3) + "abc" + strings.Repeat("\x00", 509)
	for name, out := range map[string]io.Reader{
		"a compressed head without an end":            packed(t, "", "x"),
		"a name of 256 MiB":                           packed(t, "gnu\n"+header(t, "./././@LongLink", tarLongName, 256<<20), "x"),
		"a map of holes without an end":               packed(t, "gnu\n"+map1, map2),
		"an archive whose end does not end":           packed(t, "gnu\n"+small, "\x00"),
		"an archive of files that nobody asked for":   forever("packed \ngnu\n", header(t, "./other", tarFile, 4096)+strings.Repeat("\x00", 4096)),
		"a huge file that nobody asked for":           packed(t, "gnu\n"+header(t, "./other", tarFile, 1<<40), "\x00"),
		"a batch whose archive is followed by refuse": packed(t, "other\n"+small, "x"),
		"no mark behind the archive":                  packed(t, "gnu\n"+small+strings.Repeat("\x00", 1024), "x"),
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocated(func() {
				err = Read(t.Context(), hostile{out: out}, "/work", slices.Values([]string{"file"}), func(f *File) error {
					_, err := io.Copy(io.Discard, f)
					return err
				}, nil)
			})
			mustBeFlood(t, took, err)
		})
	}
}

// Read reports the state of each file that it was asked for, and no more.
func TestAHostCannotReportFilesThatNobodyAskedFor(t *testing.T) {
	q := newNameQueue()
	q.take(slices.Values([]string{"a", "b"}), func(err error) { t.Fatal(err) })
	out := numbered("", "./%d//. f 644 3 1700000000.0 1700000000.0 5 1 8 5 \x00", 1, 1)
	defer out.(*closer).pipe.Close()
	told := 0
	r := &treeReader{in: bufio.NewReader(out), mark: "m", asked: q, again: func(Entry) error { told++; return nil }}
	var flood *hostexec.FloodError
	if err := r.listAgain("gnu\n"); !errors.As(err, &flood) || told != 2 {
		t.Errorf("%d were told of, %.300v", told, err)
	}
}

func TestAHostThatIsSentATreeCannotAnswerWithABomb(t *testing.T) {
	fill := func(*Writer) error { return nil }
	none := func(io.Writer) error { return nil }
	for name, do := range map[string]func(h hostexec.Host) error{
		"Write":      func(h hostexec.Host) error { return Write(t.Context(), h, "/work/new", WriteOptions{}, fill) },
		"PutInParts": func(h hostexec.Host) error { return PutInParts(t.Context(), h, "/work/new", "/work/parts", none) },
	} {
		var err error
		took := allocated(func() { err = do(hostile{out: forever("", "x")}) })
		t.Log(name)
		mustBeFlood(t, took, err)
	}
}

// A host may send whatever it likes: reading it ends, and takes little memory.
func FuzzWhatAHostListsOrSends(f *testing.F) {
	map1, map2 := holey(&testing.T{}, "./file")
	f.Add([]byte("packed \n" + gnuHead + "a//. f 644 3 1.0 1.0 5 1 8 5 \x00///0\x00///0\x00"))
	f.Add([]byte("packed \n" + statHead + "//f0\x00//m/sort 0 look 0\n"))
	f.Add([]byte("packed \ngnu\n" + map1 + map2))
	f.Add([]byte("packed gzip\n\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		stream := func() hostile {
			return hostile{out: io.MultiReader(strings.NewReader(string(out)), &repeated{text: "x"})}
		}
		took := allocated(func() {
			if _, err := List(t.Context(), stream(), "/work", ListOptions{}, func(Entry) error { return nil }); err == nil {
				t.Error("a listing that goes on for ever has ended")
			}
			err := Read(t.Context(), stream(), "/work", slices.Values([]string{"file"}), func(f *File) error {
				_, err := io.Copy(io.Discard, io.LimitReader(f, 1<<20))
				return err
			}, nil)
			if err == nil {
				t.Error("an archive that goes on for ever has ended")
			}
		})
		if took > 2*mayTake {
			t.Errorf("it took %d MiB", took>>20)
		}
	})
}
