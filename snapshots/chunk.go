package snapshots

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
	packPrefix   = "snapshots/packs/"
	indexPrefix  = "snapshots/index/"
	markerPrefix = "snapshots/condemned/"
	clockKey     = "snapshots/clock"
)

// ChunkOptions configure a chunk store. The zero value is usable.
type ChunkOptions struct {
	// Logger may be nil.
	Logger *slog.Logger

	packBytes  int // the size at which a pack ends; default 12 MiB
	blockBytes int // how much is compressed together; default 1 MiB
}

// Chunks keeps content in the store, each chunk once, in packs: blobs of 12 to 16 MiB with
// random names. The index says which pack holds a chunk. It consists of a small blob for
// each pack and, after a prune, one blob for many. It is read lazily and kept in memory at
// 24 bytes a chunk. Workers share a store: each sees what the others added when it begins
// or commits a batch.
//
// It is safe for concurrent use.
type Chunks struct {
	blobs blobs
	opts  ChunkOptions
	log   *slog.Logger

	refreshing chan struct{}       // held while the index is brought up to date
	ahead      *semaphore.Weighted // additional batches of walks

	mu    sync.Mutex // guards index
	index chunkIndex
}

// blobs is what a chunk store needs of a store.
type blobs interface {
	Create(ctx context.Context, key string, data []byte) error
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	Stat(ctx context.Context, key string) (store.Info, error)
	List(ctx context.Context, prefix string) ([]store.Info, error)
	Delete(ctx context.Context, key string) error
	NewReader(ctx context.Context, key string) (io.ReadCloser, error)
	newReaderAt(ctx context.Context, key string) (blobAt, error)
	newWriter(ctx context.Context, key string) (blobWriter, error)
}

// A blobAt is a blob for random access.
type blobAt interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

type blobWriter interface {
	io.WriteCloser
	Abort()
	Stored() int64
}

type storeBlobs struct{ *store.Store }

func (s storeBlobs) newReaderAt(ctx context.Context, key string) (blobAt, error) {
	r, err := s.NewReaderAt(ctx, key)
	if err != nil {
		return nil, err // not a typed nil
	}
	return r, nil
}

func (s storeBlobs) newWriter(ctx context.Context, key string) (blobWriter, error) {
	w, err := s.NewPlainWriter(ctx, key)
	if err != nil {
		return nil, err // not a typed nil
	}
	return w, nil
}

// OpenChunks returns the chunk store of st. Use one for a whole process. It reads nothing
// yet.
func OpenChunks(st *store.Store, opts ChunkOptions) *Chunks {
	return openChunks(storeBlobs{st}, opts)
}

func openChunks(st blobs, opts ChunkOptions) *Chunks {
	if opts.packBytes == 0 {
		opts.packBytes = 12 << 20
	}
	if opts.blockBytes == 0 {
		opts.blockBytes = 1 << 20
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Chunks{blobs: st, opts: opts, log: log, refreshing: make(chan struct{}, 1), ahead: semaphore.NewWeighted(sharedMore), index: newChunkIndex()}
}

// A packID is random, so that a pack's name reveals nothing about its content.
type packID [16]byte

func newPackID() (id packID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (id packID) String() string { return hex.EncodeToString(id[:]) }
func (id packID) key() string    { return packPrefix + id.String() }
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
