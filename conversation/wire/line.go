package wire

import (
	"bytes"
	"encoding/json"
	"io"
)

// DefaultMaxLine bounds a line. codex has been seen to write 8 MB in one.
const DefaultMaxLine = 32 << 20

// A Line is one line of a stream.
type Line struct {
	// Offset is the line's first byte; End is just past its newline.
	Offset, End int64
	// Raw has no newline; nil if Oversize. The receiver owns it.
	Raw []byte
	// Oversize says that the line was too long and was skipped. Only what is needed to
	// answer it was read: Method, the ID as written, whether there is a result, and the
	// item's id in the params.
	Oversize bool
	Method   string
	ID       json.RawMessage
	Result   bool
	Item     string
}

// Blank reports whether the line is only white space.
func (l Line) Blank() bool { return !l.Oversize && len(bytes.TrimSpace(l.Raw)) == 0 }

// A Scanner cuts a stream into lines and holds at most one.
type Scanner struct {
	r     io.Reader
	split Splitter
	chunk []byte
	ready []Line
	err   error
}

// NewScanner reads lines of at most max bytes (0 means DefaultMaxLine) from r, whose first
// byte is at offset.
func NewScanner(r io.Reader, offset int64, max int) *Scanner {
	return &Scanner{r: r, split: NewSplitter(offset, max), chunk: make([]byte, 64<<10)}
}

// Next returns the next complete line, or at the end the reader's error, usually io.EOF.
func (s *Scanner) Next() (Line, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return Line{}, s.err
		}
		n, err := s.r.Read(s.chunk)
		s.split.Feed(s.chunk[:n], func(l Line) { s.ready = append(s.ready, l) })
		s.err = err
	}
	l := s.ready[0]
	s.ready = s.ready[1:]
	return l, nil
}

// Torn returns the bytes after the last newline.
func (s *Scanner) Torn() int64 { return s.split.Pos - s.split.Start }

// A Splitter cuts chunks into lines. It has no goroutine and does no I/O.
type Splitter struct {
	max   int
	Pos   int64 // offset of the next byte
	Start int64 // offset of the current line
	buf   []byte
	skip  bool // the current line is longer than max
	peek  peeker
}

// NewSplitter returns a Splitter for lines of at most max bytes, from offset on.
func NewSplitter(offset int64, max int) Splitter {
	if max <= 0 {
		max = DefaultMaxLine
	}
	return Splitter{max: max, Pos: offset, Start: offset}
}

// Feed passes every line that p completes to emit.
func (s *Splitter) Feed(p []byte, emit func(Line)) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		s.add(part)
		s.Pos += int64(len(part))
		if i < 0 {
			return
		}
		s.Pos++
		p = p[i+1:]
		emit(s.take())
	}
}

func (s *Splitter) add(part []byte) {
	if !s.skip && len(s.buf)+len(part) > s.max {
		s.skip = true
		s.peek = peeker{}
		s.peek.feed(s.buf)
		s.buf = nil
	}
	if s.skip {
		s.peek.feed(part)
		return
	}
	s.buf = append(s.buf, part...)
}

func (s *Splitter) take() Line {
	l := Line{Offset: s.Start, End: s.Pos}
	if s.skip {
		l.Oversize, l.Method, l.ID, l.Result, l.Item = true, s.peek.method, s.peek.id, s.peek.result, s.peek.item
	} else {
		l.Raw = s.buf
		if l.Raw == nil {
			l.Raw = []byte{}
		}
	}
	s.buf, s.skip, s.Start = nil, false, s.Pos
	return l
}
