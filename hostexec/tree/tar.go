package tree

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

const (
	tarFile     = '0'
	tarLink     = '1'
	tarSymlink  = '2'
	tarFolder   = '5'
	tarSparse   = 'S'
	tarLongName = 'L'
	tarLongLink = 'K'
)

const tarBlock = 512

// A tarReader reads the output of GNU and busybox tar. Unlike archive/tar, it reports
// holes.
type tarReader struct {
	in   *bufio.Reader
	torn error // the error if the archive ends within a file

	file *File
	pad  int64 // padding after the file's data
}

type tarHeader struct {
	name, link string
	kind       byte
	file       *File
}

// next skips the rest of the current entry. At the end it returns io.EOF.
func (t *tarReader) next() (tarHeader, error) {
	var long tarHeader
	for texts := 0; ; texts++ {
		// All names that we ask for begin with "./", and so does the name of GNU tar's
		// entries for long names.
		switch begin, err := t.in.Peek(2); {
		case err == io.EOF:
			return tarHeader{}, io.EOF
		case err != nil:
			return tarHeader{}, err
		case begin[0] == 0:
			return tarHeader{}, t.skipZeros()
		case string(begin) != "./":
			return tarHeader{}, io.EOF
		}
		var b [tarBlock]byte
		if err := t.full(b[:]); err != nil {
			return tarHeader{}, err
		}
		size, ok := tarNumber(b[124:136])
		if !ok || size < 0 || !tarChecksum(&b) {
			return tarHeader{}, fmt.Errorf("%w: a damaged header in the archive", script.ErrGarbled)
		}
		if kind := b[156]; kind == tarLongName || kind == tarLongLink {
			if texts == 2 {
				return tarHeader{}, fmt.Errorf("%w: an entry with several names in the archive", script.ErrGarbled)
			}
			text, err := t.longText(size)
			if err != nil {
				return tarHeader{}, err
			}
			if kind == tarLongName {
				long.name = text
			} else {
				long.link = text
			}
			continue
		}
		return t.entry(&b, size, long)
	}
}

func (t *tarReader) entry(b *[tarBlock]byte, size int64, long tarHeader) (tarHeader, error) {
	h := tarHeader{name: tarText(b[:100]), link: tarText(b[157:257]), kind: b[156]}
	if long.name != "" {
		h.name = long.name
	}
	if long.link != "" {
		h.link = long.link
	}
	f := &File{Size: size, in: t.in, left: size, torn: t.torn}
	switch h.kind {
	case 0, '7':
		h.kind = tarFile
	case tarFile:
	case tarSparse:
		h.kind = tarFile
		if err := t.sparseMap(f, b); err != nil {
			return h, err
		}
	case tarLink, tarSymlink, tarFolder:
		f.Size, f.left = 0, 0
	default:
		f.Size = 0
	}
	h.file, t.file, t.pad = f, f, -size&(tarBlock-1)
	return h, nil
}

// maxExtents bounds the parts of a file between holes, which are held in memory. A block of
// the map has 21.
const maxExtents = 2 << 20

func (t *tarReader) sparseMap(f *File, b *[tarBlock]byte) error {
	bad := fmt.Errorf("%w: a damaged map of holes in the archive", script.ErrGarbled)
	size, ok := tarNumber(b[483:495])
	if !ok || size < f.Size {
		return bad
	}
	f.Size, f.holes = size, []extent{}
	entries, more := b[386:482], b[482] != 0
	end, data := int64(0), int64(0)
	for blocks := 0; ; blocks++ {
		if blocks > maxExtents/21 {
			return &hostexec.ContentError{What: "the map of a file's holes", Limit: maxExtents, Unit: "parts (copy the file without holes, or leave it out)"}
		}
		for len(entries) >= 24 && entries[0] != 0 {
			offset, ok1 := tarNumber(entries[:12])
			n, ok2 := tarNumber(entries[12:24])
			if !ok1 || !ok2 || offset < end || n < 0 || n > size-offset {
				return bad
			}
			if end, data = offset+n, data+n; n > 0 {
				f.holes = append(f.holes, extent{offset, n})
			}
			entries = entries[24:]
		}
		if !more {
			break
		}
		var next [tarBlock]byte
		if err := t.full(next[:]); err != nil {
			return err
		}
		entries, more = next[:504], next[504] != 0
	}
	if data != f.left {
		return bad
	}
	return nil
}

func (t *tarReader) skip() error {
	if t.file == nil {
		return nil
	}
	left := t.file.left + t.pad
	t.file.left, t.file.at = 0, t.file.Size
	t.file, t.pad = nil, 0
	for left > 0 {
		n, err := t.in.Discard(int(min(left, 1<<30)))
		left -= int64(n)
		if err == io.EOF {
			return t.torn
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxZeros exceeds the zeros at the end of an archive, in bytes.
const maxZeros = 1 << 20

func (t *tarReader) skipZeros() error {
	for zeros := 0; ; {
		if zeros > maxZeros {
			return &hostexec.FloodError{What: "the end of an archive", Limit: maxZeros}
		}
		b, err := t.in.Peek(1)
		if err != nil {
			return err
		}
		if b[0] != 0 {
			return io.EOF
		}
		b, _ = t.in.Peek(t.in.Buffered())
		n := len(b) - len(bytes.TrimLeft(b, "\x00"))
		t.in.Discard(n)
		zeros += n
	}
}

func (t *tarReader) longText(size int64) (string, error) {
	if size > maxTreeRecord {
		return "", &hostexec.FloodError{What: "a name in an archive", Limit: maxTreeRecord}
	}
	text := make([]byte, size+(-size&(tarBlock-1)))
	if err := t.full(text); err != nil {
		return "", err
	}
	return tarText(text[:size]), nil
}

func (t *tarReader) full(p []byte) error {
	_, err := io.ReadFull(t.in, p)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return t.torn
	}
	return err
}

func tarText(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

// tarNumber parses octal digits, or GNU's encoding of a big number.
func tarNumber(b []byte) (int64, bool) {
	if b[0] == 0x80 && len(b) == 12 {
		n := binary.BigEndian.Uint64(b[4:])
		return int64(n), n>>63 == 0 && b[1]|b[2]|b[3] == 0
	}
	n, ok := parseDigits(bytes.Trim(b, " \x00"), 8)
	return int64(n), ok
}

func tarChecksum(b *[tarBlock]byte) bool {
	want, ok := tarNumber(b[148:156])
	sum := int64(8 * ' ')
	for i, c := range b {
		if i < 148 || i >= 156 {
			sum += int64(c)
		}
	}
	return ok && sum == want
}

// A markReader reads up to a mark and then returns io.EOF.
type markReader struct {
	in    *bufio.Reader
	mark  []byte
	ended bool
	clear int // buffered bytes without a mark
}

func (m *markReader) Read(p []byte) (int, error) {
	if m.ended {
		return 0, io.EOF
	}
	for m.clear == 0 {
		b, err := m.in.Peek(max(len(m.mark), m.in.Buffered()))
		i := bytes.Index(b, m.mark)
		switch {
		case i == 0:
			m.ended = true
			return 0, io.EOF
		case i > 0:
			m.clear = i
		case len(b) >= len(m.mark):
			m.clear = len(b) - len(m.mark) + 1
		case err == io.EOF:
			return 0, io.ErrUnexpectedEOF
		default:
			return 0, err
		}
	}
	n, err := m.in.Read(p[:min(len(p), m.clear)])
	m.clear -= n
	return n, err
}
