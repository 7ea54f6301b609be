package snapshots

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"

	"fairlead.dev/fairlead/internal/store"
)

// A filter rewrites the tar stream of a host: without what must not be kept,
// and with secrets overwritten in contents and names.
type filter struct {
	to   io.Writer
	skip func(string) bool
	mask func() Masker

	files, bytes int64
	masked       int
	leftOut      []string
}

func (f *filter) run(from io.Reader) error {
	in, out := tar.NewReader(from), tar.NewWriter(f.to)
	gone := map[string]bool{} // left out; hard links to it go too
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("tar stream of the host: %w", err)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if name == "." {
			continue // the folder itself
		}
		keep := !f.skip(name)
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		case tar.TypeLink:
			keep = keep && !gone[path.Clean(h.Linkname)]
		default:
			keep = false // devices, FIFOs
		}
		if !keep {
			gone[name] = true
			if !gone[path.Dir(name)] && len(f.leftOut) < maxLeftOut { // a folder stands for all in it
				f.leftOut = append(f.leftOut, f.hide(name))
			}
			continue
		}
		if err := f.entry(out, in, h, name); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, from) // tar pads its end
	return err
}

func (f *filter) entry(out *tar.Writer, content io.Reader, h *tar.Header, name string) error {
	if h.Typeflag == tar.TypeDir {
		name += "/"
	}
	clean := &tar.Header{
		Typeflag: h.Typeflag, Name: f.hide(name), Linkname: f.hide(h.Linkname), Size: h.Size, Mode: h.Mode,
		Uid: h.Uid, Gid: h.Gid, Uname: h.Uname, Gname: h.Gname, ModTime: h.ModTime, Format: tar.FormatPAX,
	}
	if h.Typeflag == tar.TypeLink {
		clean.Linkname = f.hide(path.Clean(h.Linkname))
	}
	if err := out.WriteHeader(clean); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	f.files++
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	f.bytes += h.Size
	if f.mask == nil {
		_, err := io.Copy(out, content)
		return err
	}
	m := f.mask()
	if _, err := io.Copy(maskWriter{out, m}, content); err != nil {
		return err
	}
	_, err := out.Write(m.Flush())
	f.masked += m.Count()
	return err
}

// hide overwrites secrets in a name.
func (f *filter) hide(name string) string {
	if f.mask == nil || name == "" {
		return name
	}
	m := f.mask()
	hidden := string(m.Next([]byte(name)))
	hidden += string(m.Flush())
	f.masked += m.Count()
	return hidden
}

// maskWriter passes on what a masker makes of what is written.
type maskWriter struct {
	to   io.Writer
	mask Masker
}

func (w maskWriter) Write(p []byte) (int, error) {
	if _, err := w.to.Write(w.mask.Next(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A checker reads a part and gives ErrIncomplete in place of io.EOF if it was
// not what its manifest says.
type checker struct {
	r    io.Reader
	part Part
	sum  hash.Hash
	n    int64
}

func newChecker(r io.Reader, part Part) *checker {
	return &checker{r: r, part: part, sum: sha256.New()}
}

func (c *checker) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	c.n += int64(n)
	if errors.Is(err, store.ErrTorn) {
		return n, fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	if errors.Is(err, io.EOF) && (c.n != c.part.Size || hex.EncodeToString(c.sum.Sum(nil)) != c.part.Digest) {
		return n, fmt.Errorf("%w: %s has other bytes than it was written with", ErrIncomplete, c.part.Key)
	}
	return n, err
}

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// pipe runs two functions, what the first writes is what the second reads, and
// returns when both have. The error is that of the one that failed first.
func pipe(write func(io.Writer) error, read func(io.Reader) error) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := write(w)
		w.CloseWithError(err)
		done <- err
	}()
	readErr := read(r)
	r.CloseWithError(readErr) // the writer fails with it; nil gives io.ErrClosedPipe
	writeErr := <-done
	switch {
	case writeErr == nil || readErr != nil && errors.Is(writeErr, readErr):
		return readErr
	case readErr == nil || errors.Is(readErr, writeErr):
		return writeErr
	}
	return errors.Join(readErr, writeErr)
}
