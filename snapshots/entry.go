package snapshots

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// An Entry is one name in a tree.
type Entry struct {
	Path  string // clean and relative to the tree's folder; any bytes but NUL
	Kind  Kind
	Mode  uint32 // permissions with setuid, setgid and sticky
	MTime time.Time
	Size  int64
	Link  string // target of a symlink, or the other path of a hard link
	Holes int64  // the part of Size that is in holes
	Masks int    // number of secrets that were overwritten

	// Compared by the next snapshot to find changed files.
	CTime time.Time
	Inode uint64
	flags byte

	// Content lists a file's pieces in order or, with the flag listed, the chunks with this
	// list.
	Content []Ref
}

// A Ref is a chunk of a file or, where Hole is not 0, a hole of that length.
type Ref struct {
	Digest chunks.Digest
	Hole   int64
}

// Kind is the type of an entry.
type Kind byte

// The kinds of entries.
const (
	File     Kind = 'f'
	Dir      Kind = 'd'
	Symlink  Kind = 'l'
	HardLink Kind = 'h'
)

const (
	listed   = 1 << iota
	anew     // must be read again by the next snapshot
	unstable // changed each time it was read
)

// Unstable reports whether the file changed each time it was read. Then its content may mix
// several states.
func (e Entry) Unstable() bool { return e.flags&unstable != 0 }

func (e Entry) unchanged(now Entry) bool {
	return e.Kind == File && now.Kind == File && e.flags&(anew|unstable) == 0 && e.Size == now.Size &&
		e.MTime.Equal(now.MTime) && e.CTime.Equal(now.CTime) && e.Inode == now.Inode && e.Path == now.Path
}

// A hash of the path decides where a segment of entries, which is a chunk, ends. So
// unchanged entries give the same segments. Smaller segments need more digests, and larger
// ones store more unchanged entries again.
const (
	segmentMask  = 31
	segmentMax   = 512
	segmentBytes = 256 << 10
)

// encoding is the first byte of every segment and list, for future formats.
const encoding = 1

type segmenter struct {
	put func([]byte) error

	buf  []byte
	n    int
	last Entry
}

func (s *segmenter) add(e Entry) error {
	if s.n == 0 {
		s.buf, s.last = append(s.buf[:0], encoding), Entry{}
	}
	s.buf = appendEntry(s.buf, e, s.last)
	s.last = e
	s.n++
	if pathHash(e.Path)&segmentMask == 0 || s.n >= segmentMax || len(s.buf) >= segmentBytes {
		return s.end()
	}
	return nil
}

func (s *segmenter) end() error {
	if s.n == 0 {
		return nil
	}
	s.n = 0
	return s.put(s.buf)
}

// pathHash is FNV-1a with a final mix for the lower bits.
func pathHash(p string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(p) {
		h = (h ^ uint64(p[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

func appendEntry(b []byte, e, last Entry) []byte {
	same := 0
	for same < len(e.Path) && same < len(last.Path) && e.Path[same] == last.Path[same] {
		same++
	}
	b = binary.AppendUvarint(b, uint64(same))
	b = appendText(b, e.Path[same:])
	b = append(b, byte(e.Kind), e.flags)
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = appendTime(b, e.MTime, last.MTime)
	switch e.Kind {
	case Symlink, HardLink:
		return appendText(b, e.Link)
	case Dir:
		return b
	}
	b = binary.AppendUvarint(b, uint64(e.Size))
	b = binary.AppendUvarint(b, uint64(e.Holes))
	b = appendTime(b, e.CTime, e.MTime)
	b = binary.AppendUvarint(b, e.Inode)
	b = binary.AppendUvarint(b, uint64(e.Masks))
	return appendRefs(b, e.Content)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTime(b []byte, t, base time.Time) []byte {
	b = binary.AppendVarint(b, seconds(t)-seconds(base))
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

// seconds returns 0 for the zero time, because 0 is short in the encoding.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// appendRefs encodes the number of pieces, and for each piece the length of a hole, or 0
// and a digest.
func appendRefs(b []byte, refs []Ref) []byte {
	b = binary.AppendUvarint(b, uint64(len(refs)))
	for _, r := range refs {
		b = binary.AppendUvarint(b, uint64(r.Hole))
		if r.Hole == 0 {
			b = append(b, r.Digest[:]...)
		}
	}
	return b
}

var errEncoding = errors.New("this is not a list of entries as this version writes them")

func decodeSegment(data []byte, fn func(Entry) error) error {
	r := &decoder{data: data}
	if r.byte() != encoding {
		return errEncoding
	}
	last := Entry{}
	for len(r.data) > 0 && r.err == nil {
		e := r.entry(last)
		if r.err != nil {
			break
		}
		if err := fn(e); err != nil {
			return err
		}
		last = e
	}
	return r.err
}

// A decoder returns zero values after an error.
type decoder struct {
	data []byte
	err  error
}

func (r *decoder) fail() {
	if r.err == nil {
		r.err = fmt.Errorf("%w: it ends early or has a number out of range", errEncoding)
	}
	r.data = nil
}

func (r *decoder) byte() byte {
	if len(r.data) == 0 {
		r.fail()
		return 0
	}
	c := r.data[0]
	r.data = r.data[1:]
	return c
}

func (r *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *decoder) varint() int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return v
}

// length reads a number of bytes or refs. Each takes at least one byte, so more than the
// rest of the data is an error.
func (r *decoder) length() int {
	v := r.uvarint()
	if v > uint64(len(r.data)) {
		r.fail()
		return 0
	}
	return int(v)
}

func (r *decoder) text() string {
	n := r.length()
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func (r *decoder) size() int64 {
	v := int64(r.uvarint())
	if v < 0 {
		r.fail()
		return 0
	}
	return v
}

func (r *decoder) time(base time.Time) time.Time {
	sec := r.varint() + seconds(base)
	ns := r.uvarint()
	if ns >= 1e9 {
		r.fail()
		return time.Time{}
	}
	return time.Unix(sec, int64(ns)).UTC()
}

func (r *decoder) entry(last Entry) Entry {
	var e Entry
	same := r.uvarint()
	if same > uint64(len(last.Path)) {
		r.fail()
		return Entry{}
	}
	e.Path = last.Path[:same] + r.text()
	e.Kind, e.flags = Kind(r.byte()), r.byte()
	e.Mode = uint32(r.uvarint())
	e.MTime = r.time(last.MTime)
	switch e.Kind {
	case Symlink, HardLink:
		e.Link = r.text()
	case File:
		e.Size = r.size()
		e.Holes = r.size()
		e.CTime = r.time(e.MTime)
		e.Inode = r.uvarint()
		e.Masks = int(r.uvarint() & (1<<31 - 1))
		e.Content = r.refs()
	case Dir:
	default:
		r.fail()
	}
	return e
}

func (r *decoder) refs() []Ref {
	n := r.length()
	if n == 0 {
		return nil
	}
	refs := make([]Ref, 0, n)
	for range n {
		ref := Ref{Hole: r.size()}
		if ref.Hole == 0 {
			if len(r.data) < len(ref.Digest) {
				r.fail()
				return nil
			}
			r.data = r.data[copy(ref.Digest[:], r.data):]
		}
		refs = append(refs, ref)
	}
	return refs
}
