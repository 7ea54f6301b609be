package snapshots

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// Export writes a snapshot as a tar archive, with manifest.json and a folder for each tree.
// The same snapshot gives the same bytes. GNU and busybox tar can read it. Times are in
// whole seconds, and holes become zeros. The archive is valid only if the error is nil.
func Export(ctx context.Context, c *chunks.Store, id string, w io.Writer) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("export snapshot %s: %w", id, err)
		}
	}()
	m, err := manifestOf(ctx, c, id)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	x := exporting{out: tar.NewWriter(w), zeros: make([]byte, chunks.MinHole)}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Size: int64(len(data)), Mode: 0o600, ModTime: m.CreatedAt, Format: tar.FormatGNU}
	if err := x.out.WriteHeader(h); err != nil {
		return err
	}
	if _, err := x.out.Write(data); err != nil {
		return err
	}
	for _, t := range m.Trees {
		x.tree = t.Name
		if err := walk(ctx, c, t, &x); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if err := x.endTree(); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return x.out.Close()
}

type exporting struct {
	out   *tar.Writer
	tree  string
	zeros []byte
	// folders are written after their content, the innermost first, because not every tar
	// sets a folder's mode and time at the end. Beyond maxFolders, they are written where
	// they occur.
	folders []*tar.Header
}

func (x *exporting) entry(e Entry) error {
	h := &tar.Header{Name: x.tree + "/" + e.Path, Mode: int64(e.Mode), ModTime: e.MTime.Truncate(1e9), Format: tar.FormatGNU}
	switch e.Kind {
	case File:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	case Symlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	case HardLink:
		h.Typeflag, h.Linkname = tar.TypeLink, x.tree+"/"+e.Link
	case Dir:
		h.Typeflag = tar.TypeDir
		h.Name = strings.TrimSuffix(h.Name, "/.") + "/"
		if len(x.folders) < maxFolders {
			x.folders = append(x.folders, h)
			return nil
		}
	}
	return x.write(h)
}

func (x *exporting) write(h *tar.Header) error {
	if err := x.out.WriteHeader(h); err != nil {
		return fmt.Errorf("%q: %w", h.Name, err)
	}
	return nil
}

func (x *exporting) piece(data []byte) error {
	_, err := x.out.Write(data)
	return err
}

func (x *exporting) hole(n int64) error {
	for n > 0 {
		p := x.zeros[:min(n, int64(len(x.zeros)))]
		if _, err := x.out.Write(p); err != nil {
			return err
		}
		n -= int64(len(p))
	}
	return nil
}

func (x *exporting) end() error { return nil }

func (x *exporting) endTree() error {
	slices.SortStableFunc(x.folders, func(a, b *tar.Header) int {
		return strings.Count(b.Name, "/") - strings.Count(a.Name, "/")
	})
	for _, h := range x.folders {
		if err := x.write(h); err != nil {
			return err
		}
	}
	x.folders = x.folders[:0]
	return nil
}
