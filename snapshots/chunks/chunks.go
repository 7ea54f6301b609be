package chunks

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"golang.org/x/sync/semaphore"

	"fairlead.dev/fairlead/internal/store"
)

// A Digest is the SHA-256 of a chunk's bytes and the chunk's name.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a chunk.
func DigestOf(data []byte) Digest { return sha256.Sum256(data) }

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns 64 hex digits.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText parses 64 hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("a digest has %d hex digits, not %d", hex.EncodedLen(len(d)), len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

var (
	// ErrMissing means that no pack in the store holds the chunk.
	ErrMissing = errors.New("chunk is missing from the store")
	// ErrRotten means that the chunk's pack is damaged or has other bytes.
	ErrRotten = errors.New("chunk is rotten in the store")
	// ErrCondemned means that a prune deleted chunks that a batch relied on. Delete the
	// manifest, if it was written, and repeat the capture.
	ErrCondemned = errors.New("a prune removed, or is removing, chunks that this snapshot needs (take the snapshot again)")
	// ErrSecret means that data to be stored still had a known secret in it. A pack with
	// such data was deleted.
	ErrSecret = errors.New("the data to store still contains a known secret and was not stored")
)

// MaxChunk is the size of the largest chunk, in bytes.
const MaxChunk = 4 << 20

// Prefixes of keys. A session may have one of these names, because the keys of its
// snapshots have one more part.
const (
	PackPrefix   = "snapshots/packs/"
	indexPrefix  = "snapshots/index/"
	markerPrefix = "snapshots/condemned/"
	clockKey     = "snapshots/clock"
)

// Options configure a chunk store. The zero value is usable.
type Options struct {
	// Logger may be nil.
	Logger *slog.Logger

	PackBytes  int // size at which a pack ends; default 12 MiB
	BlockBytes int // size at which a block, the unit of compression, ends; default 1 MiB
}

// A Store keeps each chunk once, in packs, which are blobs of 12 to 16 MiB. The index
// consists of a blob for each pack and, after a prune, one blob for many packs. It is read
// when it is first needed. Workers share a store. A worker sees the packs of others when it
// begins or commits a batch.
//
// It is safe for concurrent use.
type Store struct {
	// Blobs has the packs, the index and the manifests.
	Blobs Blobs

	opts Options
	log  *slog.Logger

	// Ahead counts the batches that SharedMore bounds.
	Ahead *semaphore.Weighted

	refreshing chan struct{} // held while the index is updated

	mu    sync.Mutex // guards index
	index chunkIndex
}

// Blobs is what a chunk store needs of a store.
type Blobs interface {
	Create(ctx context.Context, key string, data []byte) error
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	Stat(ctx context.Context, key string) (store.Info, error)
	List(ctx context.Context, prefix string) ([]store.Info, error)
	Delete(ctx context.Context, key string) error
	NewReader(ctx context.Context, key string) (io.ReadCloser, error)
	OpenAt(ctx context.Context, key string) (BlobAt, error)
	OpenWriter(ctx context.Context, key string) (BlobWriter, error)
}

// A BlobAt is a blob for random access.
type BlobAt interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// A BlobWriter writes a blob, which appears in the store on Close.
type BlobWriter interface {
	io.WriteCloser
	Abort()
	Stored() int64
}

// StoreBlobs are the blobs of a store.
type StoreBlobs struct{ *store.Store }

func (s StoreBlobs) OpenAt(ctx context.Context, key string) (BlobAt, error) {
	r, err := s.NewReaderAt(ctx, key)
	if err != nil {
		return nil, err // not a typed nil
	}
	return r, nil
}

func (s StoreBlobs) OpenWriter(ctx context.Context, key string) (BlobWriter, error) {
	w, err := s.NewPlainWriter(ctx, key)
	if err != nil {
		return nil, err // not a typed nil
	}
	return w, nil
}

// Open returns the chunk store of st and reads nothing. Use one Store in a process.
func Open(st *store.Store, opts Options) *Store {
	return OpenBlobs(StoreBlobs{st}, opts)
}

// OpenBlobs is Open for any implementation of Blobs.
func OpenBlobs(st Blobs, opts Options) *Store {
	if opts.PackBytes == 0 {
		opts.PackBytes = 12 << 20
	}
	if opts.BlockBytes == 0 {
		opts.BlockBytes = 1 << 20
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Store{Blobs: st, opts: opts, log: log, refreshing: make(chan struct{}, 1), Ahead: semaphore.NewWeighted(SharedMore), index: newChunkIndex()}
}

// A packID is random and reveals nothing about the content.
type packID [16]byte

func newPackID() (id packID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (id packID) String() string { return hex.EncodeToString(id[:]) }
func (id packID) key() string    { return PackPrefix + id.String() }
func (id packID) marker() string { return markerPrefix + id.String() }

func idOf(key, prefix string) (id packID, ok bool) {
	name := key[min(len(prefix), len(key)):]
	if len(name) != hex.EncodedLen(len(id)) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(name))
	return id, err == nil
}

// A Masker overwrites secrets in a stream. Next and Flush together return as many bytes as
// they got. Count returns the number of secrets found.
type Masker interface {
	Next(p []byte) []byte
	Flush() []byte
	Count() int
}

// SharedMore bounds the additional batches in memory of all walks of a store.
const SharedMore = 2 * 16
