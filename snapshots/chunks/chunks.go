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

// A Digest is the SHA-256 of a chunk's bytes and names it.
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

// Errors of the chunk store that callers test for.
var (
	// ErrMissing means that no pack in the store holds the chunk.
	ErrMissing = errors.New("chunk is missing from the store")
	// ErrRotten means that the store holds other bytes under the chunk's name.
	ErrRotten = errors.New("chunk is rotten in the store")
	// ErrCondemned means that chunks that a batch relied on were pruned meanwhile. Undo
	// what Commit's function wrote, and repeat the capture; the new batch stores the lost
	// chunks anew.
	ErrCondemned = errors.New("chunks that were relied on were pruned meanwhile (take the snapshot again)")
	// ErrSecret means that data read back from the store contained a known secret. The pack
	// was deleted.
	ErrSecret = errors.New("a known secret is in the finished pack, which was dropped")
)

// MaxChunk is the size of the largest chunk, in bytes.
const MaxChunk = 4 << 20

// Prefixes of the chunk store's keys. A session may have one of these names, because its
// keys have one more part.
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

	PackBytes  int // the size at which a pack ends; default 12 MiB
	BlockBytes int // how much is compressed together; default 1 MiB
}

// A Store keeps content in the store, each chunk once, in packs: blobs of 12 to 16 MiB
// with random names. The index says which pack holds a chunk. It consists of a small blob for
// each pack and, after a prune, one blob for many. It is read lazily and kept in memory at
// 24 bytes a chunk. Workers share a store: each sees what the others added when it begins
// or commits a batch.
//
// It is safe for concurrent use.
type Store struct {
	// Blobs is where the chunks are. Manifests are kept there, too.
	Blobs Blobs

	opts Options
	log  *slog.Logger

	// Ahead are the additional batches of all walks, SharedMore of them.
	Ahead *semaphore.Weighted

	refreshing chan struct{} // held while the index is brought up to date

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

// A BlobWriter writes a blob, which appears when it is closed.
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

// Open returns the chunk store of st. Use one for a whole process. It reads nothing
// yet.
func Open(st *store.Store, opts Options) *Store {
	return OpenBlobs(StoreBlobs{st}, opts)
}

// OpenBlobs is Open for blobs of any kind.
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

// A packID is random, so that a pack's name reveals nothing about its content.
type packID [16]byte

func newPackID() (id packID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (id packID) String() string { return hex.EncodeToString(id[:]) }
func (id packID) key() string    { return PackPrefix + id.String() }
func (id packID) marker() string { return markerPrefix + id.String() }

// idOf extracts the id from a key of a pack, index blob or marker.
func idOf(key, prefix string) (id packID, ok bool) {
	name := key[min(len(prefix), len(key)):]
	if len(name) != hex.EncodedLen(len(id)) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(name))
	return id, err == nil
}

// A Masker overwrites secrets in a stream without changing its length: Next and Flush
// together return as many bytes as they got. Count returns how many secrets it found.
type Masker interface {
	Next(p []byte) []byte
	Flush() []byte
	Count() int
}

// SharedMore is how many additional batches all walks of a store may have together.
const SharedMore = 2 * 16
