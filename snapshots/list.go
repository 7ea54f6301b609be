package snapshots

import (
	"errors"
	"fmt"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// A getter returns the verified chunk of a digest.
type getter func(chunks.Digest) ([]byte, error)

// A listWriter stores digests in chunks. The digests decide where a chunk ends, so the same
// digests give the same chunk.
type listWriter struct {
	put func([]byte) (chunks.Digest, error)

	buf   []byte
	index []chunks.Digest
}

const (
	listCut = 255 // one digest in 256 ends a list
	listMax = 1024
)

func (l *listWriter) add(d chunks.Digest) error {
	l.buf = append(l.buf, d[:]...)
	if d[0]&listCut == 0 || len(l.buf) >= listMax*len(d) {
		return l.end()
	}
	return nil
}

func (l *listWriter) end() error {
	if len(l.buf) == 0 {
		return nil
	}
	d, err := l.put(l.buf)
	l.index, l.buf = append(l.index, d), l.buf[:0]
	return err
}

func (t Tree) eachSegment(get getter, fn func(chunks.Digest) error) error {
	for _, d := range t.Index {
		list, err := get(d)
		if err != nil {
			return err
		}
		if len(list)%len(d) != 0 {
			return fmt.Errorf("chunk %s: %w", d, errEncoding)
		}
		for ; len(list) > 0; list = list[len(d):] {
			if err := fn(chunks.Digest(list[:len(d)])); err != nil {
				return err
			}
		}
	}
	return nil
}

var errStop = errors.New("enough")

func (t Tree) each(get getter, fn func(Entry) error) error {
	return t.eachSegment(get, func(d chunks.Digest) error {
		data, err := get(d)
		if err != nil {
			return err
		}
		if err := decodeSegment(data, fn); errors.Is(err, errEncoding) {
			return fmt.Errorf("segment %s: %w", d, err)
		} else if err != nil {
			return err
		}
		return nil
	})
}

// refsInline is the largest number of pieces in an entry. More are in lists of refsPerList,
// so that appending to a large file changes only the last list.
const (
	refsInline  = 64
	refsPerList = 1024
)

type refWriter struct {
	put func([]byte) (chunks.Digest, error)

	refs  []Ref
	lists []Ref
	holes int64
}

func (w *refWriter) add(r Ref) error {
	w.holes += r.Hole
	w.refs = append(w.refs, r)
	if len(w.refs) < refsPerList {
		return nil
	}
	return w.list()
}

func (w *refWriter) list() error {
	d, err := w.put(appendRefs([]byte{encoding}, w.refs))
	w.lists, w.refs = append(w.lists, Ref{Digest: d}), w.refs[:0]
	return err
}

func (w *refWriter) done(e *Entry) error {
	e.flags &^= listed
	e.Content, e.Holes = nil, w.holes
	if len(w.lists) == 0 && len(w.refs) <= refsInline {
		if len(w.refs) > 0 {
			e.Content = append([]Ref(nil), w.refs...)
		}
		w.refs = w.refs[:0]
		return nil
	}
	if len(w.refs) > 0 {
		if err := w.list(); err != nil {
			return err
		}
	}
	e.Content, e.flags = w.lists, e.flags|listed
	w.lists = nil
	return nil
}

func (e Entry) eachRef(lists getter, fn func(Ref) error) error {
	if e.flags&listed == 0 {
		for _, r := range e.Content {
			if err := fn(r); err != nil {
				return err
			}
		}
		return nil
	}
	for _, l := range e.Content {
		data, err := lists(l.Digest)
		if err != nil {
			return err
		}
		r := &decoder{data: data}
		if r.byte() != encoding {
			r.fail()
		}
		refs := r.refs()
		if r.err != nil {
			return fmt.Errorf("list %s: %w", l.Digest, r.err)
		}
		for _, ref := range refs {
			if err := fn(ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// content calls fn with the bytes of a file, in order, or with the size of a hole. It fails
// if the total is not the entry's size.
func (e Entry) content(lists, get getter, fn func(chunk []byte, hole int64) error) error {
	left := e.Size
	err := e.eachRef(lists, func(r Ref) error {
		n := r.Hole
		var data []byte
		if n == 0 {
			var err error
			if data, err = get(r.Digest); err != nil {
				return err
			}
			n = int64(len(data))
		}
		if left -= n; left < 0 {
			return nil // reported below
		}
		return fn(data, r.Hole)
	})
	if err == nil && left != 0 {
		err = fmt.Errorf("%w: the total length of the file's chunks differs from its size", ErrIncomplete)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", e.Path, err)
	}
	return nil
}
