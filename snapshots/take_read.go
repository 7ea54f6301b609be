package snapshots

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"fairlead.dev/fairlead/hostexec/tree"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// maxReads bounds the reads of a file that changes meanwhile. The last content is kept and
// marked as unstable.
const maxReads = 3

// readHeld reads the content of held entries. Then the host reports the state of every file
// again. Files whose state differs from the listing are read again.
func (t *treeTaking) readHeld() error {
	defer t.stopReading()
	for {
		want := map[string]*held{}
		for i := range t.held {
			if h := &t.held[i]; h.read && !h.gone {
				want[h.name] = h
				h.got, h.seen = false, false
				h.tries++
			}
		}
		if len(want) == 0 {
			return nil
		}
		if err := t.read(want); err != nil {
			return err
		}
		for _, h := range want {
			if !h.seen { // the file vanished, which is no error
				h.read, h.gone = false, true
			}
		}
		t.relink()
	}
}

func (t *treeTaking) file(f *tree.File, want map[string]*held) error {
	h := want[f.Path]
	switch {
	case h == nil || f.Missing:
		return nil
	case f.HardLink != "":
		if first := want[f.HardLink]; first != nil && first.got {
			h.Content, h.Masks, h.Holes, h.flags, h.gotSize, h.got = first.Content, first.Masks, first.Holes, first.flags, first.gotSize, true
		}
		return nil
	}
	// A host may send more than it listed, but not more than the snapshot may have.
	if total, most := t.manifest.Bytes-h.Size+f.Size, t.taking.spec.MaxBytes; most > 0 && f.Size > h.Size && (total > most || total < 0) {
		return t.quota("the content of its folders", total, most)
	}
	err := t.content(f, h)
	if errors.Is(err, tree.ErrTorn) {
		return nil // truncated meanwhile
	}
	if err != nil {
		return fmt.Errorf("%q: %w", h.name, err)
	}
	h.got, h.gotSize = true, f.Size
	t.progress.ReadFiles++
	t.progress.ReadBytes += f.Size
	t.manifest.ReadFiles++
	t.manifest.ReadBytes += f.Size
	t.told()
	return nil
}

func (t *treeTaking) settle(h *held, e tree.Entry) {
	h.seen = true
	same := e.Size == h.Size && e.MTime.Equal(h.MTime) && e.CTime.Equal(h.CTime) && e.Inode == h.Inode
	switch {
	case e.Kind != tree.RegularFile:
		h.read, h.gone = false, true
		t.unstable(t.spec.Name, h.Path)
	case same && h.got && h.gotSize == h.Size:
		h.read = false
	case same && !h.got:
		h.read, h.gone = false, true
		t.leaveOut(h.name, whyUnreadable)
	case h.tries < maxReads:
		t.resize(h, e.Size)
		h.MTime, h.CTime, h.Inode, h.Mode = e.MTime.UTC(), e.CTime.UTC(), e.Inode, e.Mode
	case h.got:
		t.resize(h, h.gotSize)
		h.MTime, h.flags, h.read = e.MTime.UTC(), h.flags|unstable, false
	default:
		h.read, h.gone = false, true
		t.leaveOut(h.name, whyUnreadable)
	}
}

func (t *treeTaking) resize(h *held, size int64) {
	t.count(h.name, size-h.Size)
	h.Size = size
}

// relink makes another name the first one if the first name of a file vanished.
func (t *treeTaking) relink() {
	first := map[fileID]*held{}
	for i := range t.held {
		h := &t.held[i]
		switch {
		case !h.links:
		case h.gone && t.names[h.id] == h.Path:
			delete(t.names, h.id)
		case h.gone || h.Kind != HardLink:
		case t.names[h.id] == "":
			h.Entry, h.read = *h.file, true
			t.names[h.id], first[h.id] = h.Path, h
		case first[h.id] != nil:
			h.Link = first[h.id].Path
		}
	}
}

func (t *treeTaking) content(f *tree.File, h *held) error {
	h.Masks = 0
	refs := refWriter{put: t.batch.PutList}
	s := sections{f: f}
	for {
		if err := t.section(&s, &refs, h); err != nil {
			return err
		}
		if s.end {
			break
		}
		if err := refs.add(Ref{Hole: s.hole}); err != nil {
			return err
		}
	}
	h.flags = 0
	if t.mayChangeUnseen(h.CTime) {
		h.flags |= anew
	}
	return refs.done(&h.Entry)
}

// section stores the content before the next large hole.
func (t *treeTaking) section(s *sections, refs *refWriter, h *held) error {
	if cap(t.whole) == 0 {
		t.whole = make([]byte, chunks.WholeFile+1)
	}
	buf := t.whole[:chunks.WholeFile+1]
	n, err := io.ReadFull(s, buf)
	put := func(chunk []byte, hole int64) error {
		if hole > 0 {
			return refs.add(Ref{Hole: hole})
		}
		d, err := t.batch.Put(chunk)
		if err != nil {
			return err
		}
		return refs.add(Ref{Digest: d})
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		p, found := t.mask(buf[:n])
		h.Masks += found
		return put(p, 0)
	case err != nil:
		return err
	}
	var in io.Reader = io.MultiReader(bytes.NewReader(buf), s)
	if t.masker == nil {
		return chunks.Split(in, -1, put)
	}
	m := &maskReader{in: in, mask: t.masker, check: t.taking.spec.Mask()}
	before := t.masker.Count()
	if err := chunks.Split(m, -1, put); err != nil {
		return err
	}
	h.Masks += t.masker.Count() - before
	if m.check.Count() > 0 {
		return chunks.ErrSecret // the masker missed a secret
	}
	return nil
}

// sections reads a file in sections, which end before holes of at least MinHole.
type sections struct {
	f     *tree.File
	hole  int64 // ended the last section
	zeros int64 // remaining of a small hole
	end   bool
}

func (s *sections) Read(p []byte) (int, error) {
	if s.zeros == 0 {
		if n := s.f.SkipHole(); n >= chunks.MinHole {
			s.hole = n
			return 0, io.EOF
		} else {
			s.zeros = n
		}
	}
	if s.zeros > 0 {
		n := min(s.zeros, int64(len(p)))
		clear(p[:n])
		s.zeros -= n
		return int(n), nil
	}
	n, err := s.f.Read(p)
	s.end = errors.Is(err, io.EOF)
	return n, err
}

// A maskReader overwrites secrets, and searches its output again. Only this search, not
// that of chunks that are read back, finds a missed secret that spans two chunks.
type maskReader struct {
	in    io.Reader
	mask  chunks.Masker
	check chunks.Masker
	buf   [64 << 10]byte
	out   []byte
	end   bool
}

func (m *maskReader) Read(p []byte) (int, error) {
	for len(m.out) == 0 {
		if m.end {
			return 0, io.EOF
		}
		n, err := m.in.Read(m.buf[:])
		m.out = m.mask.Next(m.buf[:n])
		m.check.Next(m.out)
		switch {
		case errors.Is(err, io.EOF):
			m.end = true
			m.out = append(bytes.Clone(m.out), m.mask.Flush()...)
			m.check.Flush()
		case err != nil:
			return 0, err
		}
	}
	n := copy(p, m.out)
	m.out = m.out[n:]
	return n, nil
}

// mayChangeUnseen reports whether a file may have changed again without a new timestamp.
// Linux's clock of file times advances in steps of some milliseconds. Some file systems
// keep times in units of one or two seconds.
func (t *taking) mayChangeUnseen(changed time.Time) bool {
	step := 50 * time.Millisecond
	if changed.Nanosecond() == 0 {
		step = 2 * time.Second
	}
	return !changed.Add(step).Before(t.clock)
}
