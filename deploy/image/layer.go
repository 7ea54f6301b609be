package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"fairlead.dev/fairlead/deploy/internal/bundle"
)

// A layer is a compressed archive on the disk. It is written once, and its digests are
// computed meanwhile: codex's layers have 400 MB each.
type layer struct {
	file           string
	digest, diffID v1.Hash
	size           int64
}

// makeLayer writes a layer into a folder.
func makeLayer(dir string, files []bundle.File, at time.Time) (_ *layer, err error) {
	f, err := os.CreateTemp(dir, "layer-*.tar.gz")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	packed, plain := sha256.New(), sha256.New()
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, packed), gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(bundle.Write(io.MultiWriter(z, plain), files, at), z.Close()); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &layer{file: f.Name(), digest: sum(packed), diffID: sum(plain), size: info.Size()}, nil
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

func (l *layer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.diffID, nil }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.OCILayer, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.file) }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return openGzip(l.file) }

type gzipFile struct {
	*gzip.Reader
	file *os.File
}

func openGzip(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return gzipFile{z, f}, nil
}

func (g gzipFile) Close() error { return errors.Join(g.Reader.Close(), g.file.Close()) }
