package snapshots

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/store"
)

// ErrIncomplete: the snapshot has no manifest, or a part of it is not as the
// manifest says. It cannot be used.
var ErrIncomplete = errors.New("snapshot is incomplete")

// ErrNotFound: there is nothing of that snapshot in the store.
var ErrNotFound = errors.New("no such snapshot")

// ArchiveSpec says what to keep.
type ArchiveSpec struct {
	// ID names the snapshot; see NewID. A caller that may repeat itself
	// chooses it beforehand: an archive of that ID that is complete is
	// returned as it is.
	ID      string
	Session string
	// CodexHome and WorkDir are folders on the host; WorkDir may be empty.
	CodexHome, WorkDir string

	ThreadID     string
	CodexVersion string
	Turn         int
	// Mask makes what overwrites known secrets, once for each file; nil
	// where there are none. A seeds.Redactor's MaskStream is one.
	Mask func() Masker
	// Logger may be nil.
	Logger *slog.Logger
}

// A Masker overwrites secrets in a stream and keeps its length: what Next and
// Flush return together is as long as what was given. Count is how many it found.
type Masker interface {
	Next(p []byte) []byte
	Flush() []byte
	Count() int
}

// A Manifest says what a snapshot holds. It holds no secret.
type Manifest struct {
	ID           string    `json:"id"`
	Session      string    `json:"session"`
	Turn         int       `json:"turn"`
	CreatedAt    time.Time `json:"created_at"`
	ThreadID     string    `json:"thread_id,omitempty"`
	CodexVersion string    `json:"codex_version,omitempty"`
	Parts        []Part    `json:"parts,omitempty"`
	Files        int64     `json:"files"`
	Bytes        int64     `json:"bytes"`        // of files, as they were on the host
	StoredBytes  int64     `json:"stored_bytes"` // encrypted, in the store
	AddedBytes   int64     `json:"added_bytes"`  // of StoredBytes, new to the store
	Masked       int       `json:"masked"`       // secrets overwritten
	LeftOut      []string  `json:"left_out,omitempty"`
	Complete     bool      `json:"complete"`
}

// A Part is one tar archive of a snapshot.
type Part struct {
	Name   string `json:"name"`   // rollouts, work
	Key    string `json:"key"`    // in the store
	Digest string `json:"digest"` // SHA-256 of the tar archive, hex
	Size   int64  `json:"size"`   // of the tar archive
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	Stored int64  `json:"stored"`
	Masked int    `json:"masked"`
}

// NewID makes the id of a new snapshot of a session.
func NewID(session string, at time.Time) string { panic("pending") }

// Archive streams a session's rollout files and work directory from the host
// into the store and returns once every part was read back and found right.
// On error nothing of it counts: what is left is listed as incomplete.
func Archive(ctx context.Context, h hostexec.Host, st *store.Store, spec ArchiveSpec) (Manifest, error) {
	panic("pending")
}

// Read returns the manifest of a complete snapshot; ErrIncomplete, ErrNotFound.
func Read(ctx context.Context, st *store.Store, id string) (Manifest, error) { panic("pending") }

// List returns the snapshots of a session (of all when empty), oldest first,
// the incomplete ones too, with Complete false and little else.
func List(ctx context.Context, st *store.Store, session string) ([]Manifest, error) {
	panic("pending")
}

// Export writes a snapshot as one plain tar archive with the folders rollouts/
// and work/. Digests are checked on the way: it is good only with a nil error.
func Export(ctx context.Context, st *store.Store, id string, w io.Writer) error { panic("pending") }

// Delete removes a snapshot from the store, its manifest first.
func Delete(ctx context.Context, st *store.Store, id string) error { panic("pending") }
