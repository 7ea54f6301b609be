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

// A Digest names a chunk: the SHA-256 of its bytes.
type Digest [sha256.Size]byte

// DigestOf is the name of a chunk.
func DigestOf(data []byte) Digest { return sha256.Sum256(data) }

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes 64 hex digits.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("a digest has %d hex digits, not %d", hex.EncodedLen(len(d)), len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// What callers of the chunk store branch on.
var (
	// ErrMissing: no pack in the store holds the chunk.
	ErrMissing = errors.New("chunk is missing from the store")
	// ErrRotten: what the store holds under the chunk's name are other bytes.
	ErrRotten = errors.New("chunk is rotten in the store")
	// ErrCondemned: chunks that a batch relied on were pruned meanwhile. What
	// Commit's function wrote must be taken back, and the capture done again;
	// the new batch stores anew what is gone.
	ErrCondemned = errors.New("chunks that were relied on were pruned meanwhile (take the snapshot again)")
	// ErrSecret: a known secret is in what was read back from the store. The
	// pack that held it was dropped.
	ErrSecret = errors.New("a known secret is in the finished pack, which was dropped")
)

// MaxChunk is the largest chunk that is stored.
const MaxChunk = 4 << 20

// Where the chunk store keeps its blobs. A session may have one of these
// names: its keys have one part more.
const (
	packPrefix   = "snapshots/packs/"
	indexPrefix  = "snapshots/index/"
	markerPrefix = "snapshots/condemned/"
	clockKey     = "snapshots/clock"
)

// ChunkOptions are how chunks are kept; zero is good.
type ChunkOptions struct {
	// Logger may be nil.
	Logger *slog.Logger

	packBytes  int // a pack ends once it has so many; 12 MiB
	blockBytes int // what is compressed together; 1 MiB
}

// Chunks keeps content in the store, each chunk once, in packs: blobs of 12 to
// 16 MiB with random names. Which pack holds a chunk says the index, a small
// blob for each pack and, after a prune, one for many; it is read lazily and
// kept in memory with 24 bytes a chunk. Workers share a store: each sees what
// the others added when it begins a batch and when it commits one.
//
// It is safe for concurrent use.
type Chunks struct {
	blobs blobs
	opts  ChunkOptions
	log   *slog.Logger

	refreshing chan struct{}       // held by who brings the index up to date
	ahead      *semaphore.Weighted // batches of walks beyond what each has

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

// A blobAt is a blob of which parts are read.
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

// OpenChunks opens the chunks of a store; one for a whole process. Nothing is
// read yet.
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

// A packID is random, so that the name of a pack says nothing of its content.
type packID [16]byte

func newPackID() (id packID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (id packID) String() string { return hex.EncodeToString(id[:]) }
func (id packID) key() string    { return packPrefix + id.String() }
func (id packID) marker() string { return markerPrefix + id.String() }

// idOf takes the id out of a key of packs, index blobs or markers.
func idOf(key, prefix string) (id packID, ok bool) {
	name := key[min(len(prefix), len(key)):]
	if len(name) != hex.EncodedLen(len(id)) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(name))
	return id, err == nil
}
