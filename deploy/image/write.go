package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"fairlead.dev/fairlead/deploy/internal/bundle"
)

// write writes the layout of all images, its archive and the bills, and returns the digest of
// the index.
func (b *builder) write(dist string) (v1.Hash, error) {
	name := filepath.Join(dist, "fairlead_"+b.version+"_image")
	digest, err := b.writeLayout(name)
	if err == nil {
		err = b.writeArchive(name)
	}
	for _, i := range b.images {
		err = errors.Join(err, writeFile(name+"_"+i.platform.Arch+".cdx.json", func(w io.Writer) error { _, err := w.Write(i.bill); return err }))
	}
	if err != nil {
		return v1.Hash{}, fmt.Errorf("write the image %s: %w", name, err)
	}
	return digest, nil
}

func (b *builder) writeLayout(dir string) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range b.images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: i.image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: i.platform.OS, Architecture: i.platform.Arch},
		}})
	}
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": b.version})); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// writeArchive writes the layout as an archive beside it.
func (b *builder) writeArchive(dir string) error {
	all, err := bundle.Tree("layout", dir)
	if err != nil {
		return err
	}
	var files []bundle.File // without the folder itself
	for _, f := range all {
		if rel, inside := strings.CutPrefix(f.Name, "layout/"); inside {
			if f.Mode.IsRegular() {
				f.Mode = 0o644 // the library makes its index executable
			}
			f.Name = rel
			files = append(files, f)
		}
	}
	return writeFile(dir+".tar", func(w io.Writer) error { return bundle.Write(w, files, b.at) })
}

func writeFile(name string, content func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}
