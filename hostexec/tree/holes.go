package tree

import (
	"bufio"
	_ "embed"
	"fmt"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

//go:embed tree_holes.sh
var treeHolesScript string

const (
	holeBlock = 4 << 10
	// holeLeast is the smallest hole that stays a hole.
	holeLeast = 64 << 10
	holePiece = 4 << 20
)

// A holeWriter writes files with holes over a channel of its own: busybox's tar does not
// support holes, and GNU tar needs all holes of a file before its data.
type holeWriter struct {
	s   hostexec.Stream
	out *bufio.Writer

	block int64  // of buf in the file, in blocks
	buf   []byte // not sent yet
	gap   int64  // zeros after buf, not yet in block or buf
}

func (w *Writer) beginHoles(e Entry) error {
	if w.holes == nil {
		s, err := w.host.Start(w.ctx, hostexec.Command{Script: treeHolesScript, Args: []string{w.temp}, Bulk: true})
		if err != nil {
			return err
		}
		w.holes = &holeWriter{s: s, out: bufio.NewWriterSize(s, 256<<10), buf: make([]byte, 0, holePiece)}
		w.holey = map[string]bool{}
	}
	w.holey[e.Path] = true
	w.holes.block, w.holes.gap, w.holes.buf = 0, 0, w.holes.buf[:0]
	return w.holes.say("f=%s\n", script.Quote("./"+e.Path))
}

func (h *holeWriter) say(format string, args ...any) error {
	_, err := fmt.Fprintf(h.out, format, args...)
	return h.explain(err)
}

// explain replaces the error of a write by the host's own error, if any.
func (h *holeWriter) explain(err error) error {
	if err == nil {
		return nil
	}
	if waitErr := h.s.Wait(); waitErr != nil {
		return waitErr
	}
	return err
}

func (h *holeWriter) write(p []byte) error {
	if err := h.fillGap(); err != nil {
		return err
	}
	for len(p) > 0 {
		n := min(len(p), cap(h.buf)-len(h.buf))
		h.buf = append(h.buf, p[:n]...)
		p = p[n:]
		if len(h.buf) == cap(h.buf) {
			if err := h.send(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *holeWriter) hole(n int64) error {
	h.gap += n
	return nil
}

// fillGap skips the whole blocks of a gap and writes the rest as zeros.
func (h *holeWriter) fillGap() error {
	if h.gap == 0 {
		return nil
	}
	pad := min(h.gap, -int64(len(h.buf))&(holeBlock-1))
	if h.gap -= pad; h.gap >= holeLeast || len(h.buf)+int(pad) == cap(h.buf) {
		h.buf = append(h.buf, zeros[:pad]...)
		if err := h.send(); err != nil {
			return err
		}
		h.block += h.gap / holeBlock
		pad, h.gap = h.gap%holeBlock, 0
	} else {
		pad += h.gap
		h.gap = 0
	}
	h.buf = append(h.buf, zeros[:pad]...)
	return nil
}

func (h *holeWriter) send() error {
	if pad := -len(h.buf) & (holeBlock - 1); pad > 0 {
		h.buf = append(h.buf, zeros[:pad]...)
	}
	first, n := h.block, int64(len(h.buf)/holeBlock)
	h.block += n
	if n == 0 || isZero(h.buf) {
		h.buf = h.buf[:0]
		return nil
	}
	// dd is faster with large blocks.
	size := int64(holeBlock)
	for size < 64<<10 && (first|n)&1 == 0 {
		size, first, n = size*2, first/2, n/2
	}
	if err := h.say("%d %d %d\n", size, first, n); err != nil {
		return err
	}
	_, err := h.out.Write(h.buf)
	h.buf = h.buf[:0]
	return h.explain(err)
}

func (h *holeWriter) endFile(e Entry) error {
	h.gap = 0 // the file's size covers the gap
	if err := h.send(); err != nil {
		return err
	}
	// Before 1970, the minus sign applies to seconds and fraction.
	return h.say("end %d %o %s %d\n", e.Size, e.Mode, paxTime(e.MTime), e.MTime.Unix())
}

func (h *holeWriter) link(e Entry) error {
	return h.say("l=%s f=%s\n", script.Quote("./"+e.Link), script.Quote("./"+e.Path))
}

func (w *Writer) endHoles() error {
	if w.holes == nil {
		return nil
	}
	h := w.holes
	w.holes = nil
	defer h.s.Close()
	err := h.out.Flush()
	h.s.CloseWrite()
	if waitErr := h.s.Wait(); waitErr != nil {
		return waitErr
	}
	return err
}

// close closes the channel. Incomplete files are dropped.
func (w *Writer) close() {
	if w.holes != nil {
		w.holes.s.Close()
	}
}
