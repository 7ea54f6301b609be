package store

import (
	"context"
	"io"
	"log/slog"
	"time"

	"filippo.io/age"
)

// Options say where a store is and who may read it.
type Options struct {
	// URL is file:///absolute/folder, s3://bucket?region=…&prefix=… or mem://.
	URL string
	// Recipients are who every blob is encrypted for. Required.
	Recipients []age.Recipient
	// Identities open blobs; none for a process that only writes. Where there
	// are some, one of them must be among the Recipients.
	Identities []age.Identity
	// ID, when set, is the id that the store must have: another one is
	// ErrOtherStore, and a store that is not there is not made.
	ID string
	// Logger may be nil.
	Logger *slog.Logger
}

// A Store keeps encrypted blobs. It is safe for concurrent use.
type Store struct{}

// Info describes a blob without opening it.
type Info struct {
	Key string
	// Size is what the blob takes in the store: encrypted, in bytes.
	Size    int64
	ModTime time.Time
}

// MaxGet bounds what Get brings into memory, in bytes of plaintext.
const MaxGet = 256 << 20

// Open opens the store at a URL, and makes one where there is none yet. Two
// processes that open a new one at once agree on its id.
func Open(ctx context.Context, opts Options) (*Store, error) { panic("pending") }

// Close gives back what the store holds open.
func (s *Store) Close() error { panic("pending") }

// ID is the store's id: 32 hex digits, made once.
func (s *Store) ID() string { panic("pending") }

// Put writes a blob, in place of an older one of that key.
func (s *Store) Put(ctx context.Context, key string, data []byte) error { panic("pending") }

// Create writes a blob only if the key is free, and is ErrExists otherwise.
func (s *Store) Create(ctx context.Context, key string, data []byte) error { panic("pending") }

// Get reads a whole blob.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) { panic("pending") }

// Exists tells whether there is a blob of that key.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) { panic("pending") }

// Stat describes a blob.
func (s *Store) Stat(ctx context.Context, key string) (Info, error) { panic("pending") }

// List describes every blob whose key begins with prefix, sorted by key.
func (s *Store) List(ctx context.Context, prefix string) ([]Info, error) { panic("pending") }

// Delete removes a blob. One that is not there is success.
func (s *Store) Delete(ctx context.Context, key string) error { panic("pending") }

// PutContent writes data under prefix with a name made of a keyed digest, and
// returns the whole key. The same bytes get the same key and are stored once;
// without the store's own key nobody can tell from the name what they are.
func (s *Store) PutContent(ctx context.Context, prefix string, data []byte) (string, error) {
	panic("pending")
}

// NewWriter begins a blob of any size, in place of an older one of that key.
// Nothing is visible before Close, and nothing ever if Abort comes first or
// ctx ends. Memory is bounded whatever the size.
func (s *Store) NewWriter(ctx context.Context, key string) (*Writer, error) { panic("pending") }

// A Writer is a blob being written. It is not safe for concurrent use.
type Writer struct{}

// Write adds to the blob.
func (w *Writer) Write(p []byte) (int, error) { panic("pending") }

// Close makes the blob visible; only its nil says that it is there.
func (w *Writer) Close() error { panic("pending") }

// Abort drops the blob. After Close it does nothing, so it can be deferred.
func (w *Writer) Abort() { panic("pending") }

// Stored is how many bytes the blob takes in the store, right after Close.
func (w *Writer) Stored() int64 { panic("pending") }

// NewReader opens a blob of any size. A blob that is torn is found out while
// it is read (ErrTorn): what was read is good only once Read returned io.EOF.
func (s *Store) NewReader(ctx context.Context, key string) (io.ReadCloser, error) {
	panic("pending")
}
