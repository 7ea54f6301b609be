package chunks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"sync"
)

// Limits for chunks, of 1 MiB on average. A file of up to WholeFile bytes is one chunk.
const (
	WholeFile = 1 << 20
	minChunk  = 256 << 10
	midChunk  = 1 << 20
	// FastCDC's normalized chunking: cuts are 4 times rarer before midChunk, and 4 times
	// more frequent after it.
	maskBefore = (uint64(1)<<22 - 1) << (64 - 22)
	maskAfter  = (uint64(1)<<18 - 1) << (64 - 18)
)

// A run of at least MinHole zeros is a hole. It contains an aligned stride of zeros, so
// only these are examined.
const (
	MinHole = 64 << 10
	stride  = MinHole / 2
)

var zeros [stride]byte

// gear is FastCDC's table. It must never change, or files would be cut in other places and
// stored again.
var gear = func() (g [256]uint64) {
	for i := range g {
		sum := sha256.Sum256([]byte{'f', 'l', 'g', 'e', 'a', 'r', byte(i)})
		g[i] = binary.BigEndian.Uint64(sum[:])
	}
	return g
}()

// Split cuts a file into chunks at places that depend on its content (FastCDC), so that a
// change moves few cuts. It calls fn either with a chunk, valid until fn returns, or with
// the size of a hole. It reads r to its end and ignores the size argument. Memory is
// bounded.
func Split(r io.Reader, _ int64, fn func(chunk []byte, hole int64) error) error {
	buf := splitBuffers.Get().(*[]byte)
	defer splitBuffers.Put(buf)
	s := splitter{r: r, fn: fn, buf: *buf}
	if err := s.fill(); err != nil {
		return err
	}
	if s.eof && len(s.rest) <= WholeFile {
		if len(s.rest) == 0 {
			return nil
		}
		return fn(s.rest, 0)
	}
	return s.run()
}

var splitBuffers = sync.Pool{New: func() any {
	buf := make([]byte, MaxChunk+2*MinHole)
	return &buf
}}

type splitter struct {
	r    io.Reader
	fn   func([]byte, int64) error
	buf  []byte
	rest []byte // read but not passed on
	eof  bool
	hole int64 // zeros that were read but not passed on
}

func (s *splitter) fill() error {
	n := copy(s.buf, s.rest)
	for n < len(s.buf) && !s.eof {
		m, err := s.r.Read(s.buf[n:])
		n += m
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		s.eof = err != nil
	}
	s.rest = s.buf[:n]
	return nil
}

func (s *splitter) run() error {
	for {
		if len(s.rest) < MaxChunk+MinHole && !s.eof {
			if err := s.fill(); err != nil {
				return err
			}
		}
		if len(s.rest) == 0 {
			return s.endHole()
		}
		if n := leadingZeros(s.rest); s.hole > 0 || n >= MinHole {
			s.hole += int64(n)
			s.rest = s.rest[n:]
			if len(s.rest) == 0 {
				continue // the hole may go on
			}
			if err := s.endHole(); err != nil {
				return err
			}
			continue // with a full buffer, so that the next cut sees enough data
		}
		n := min(cut(s.rest[:min(len(s.rest), MaxChunk)]), holeIn(s.rest))
		if err := s.fn(s.rest[:n], 0); err != nil {
			return err
		}
		s.rest = s.rest[n:]
	}
}

func (s *splitter) endHole() error {
	n := s.hole
	if n == 0 {
		return nil
	}
	s.hole = 0
	return s.fn(nil, n)
}

func cut(p []byte) int {
	if len(p) <= minChunk {
		return len(p)
	}
	var h uint64
	i := minChunk
	for end := min(len(p), midChunk); i < end; i++ {
		h = h<<1 + gear[p[i]]
		if h&maskBefore == 0 {
			return i + 1
		}
	}
	for end := len(p); i < end; i++ {
		h = h<<1 + gear[p[i]]
		if h&maskAfter == 0 {
			return i + 1
		}
	}
	return len(p)
}

// holeIn returns where the first hole of p begins, or len(p).
func holeIn(p []byte) int {
	for at := stride; at+stride <= len(p); at += stride {
		if !bytes.Equal(p[at:at+stride], zeros[:]) {
			continue
		}
		begin := at - trailingZeros(p[at-stride:at])
		n := leadingZeros(p[at:])
		if at-begin+n >= MinHole {
			return begin
		}
		at += n / stride * stride
	}
	return len(p)
}

func leadingZeros(p []byte) (n int) {
	for len(p)-n >= stride && bytes.Equal(p[n:n+stride], zeros[:]) {
		n += stride
	}
	for len(p)-n >= 8 {
		if v := binary.LittleEndian.Uint64(p[n:]); v != 0 {
			return n + bits.TrailingZeros64(v)/8
		}
		n += 8
	}
	for n < len(p) && p[n] == 0 {
		n++
	}
	return n
}

func trailingZeros(p []byte) (n int) {
	for n < len(p) && p[len(p)-1-n] == 0 {
		n++
	}
	return n
}
