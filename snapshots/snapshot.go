package snapshots

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// What callers branch on.
var (
	// ErrIncomplete: the snapshot has no manifest, or a part of it is not as
	// the manifest says. It cannot be used.
	ErrIncomplete = errors.New("snapshot is incomplete")
	// ErrNotFound: there is nothing of that snapshot in the store.
	ErrNotFound = errors.New("no such snapshot")
)

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
	// LeftOut lists credentials and what tar cannot hold, at most maxLeftOut.
	LeftOut  []string `json:"left_out,omitempty"`
	Complete bool     `json:"complete"`
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

// The names of parts, which are the top folders of an export.
const (
	partRollouts = "rollouts"
	partWork     = "work"
)

const maxLeftOut = 100

const idMark = ".snap-"

// NewID makes the id of a new snapshot of a session. Ids sort by time.
func NewID(session string, at time.Time) string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return session + idMark + at.UTC().Format("20060102t150405") + "-" + hex.EncodeToString(b[:])
}

var (
	validSession = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	validMark    = regexp.MustCompile(`^[0-9]{8}t[0-9]{6}-[0-9a-f]{6}$`)
)

// sessionOf takes the session out of an id; both must be well-formed.
func sessionOf(id string) (string, error) {
	i := strings.LastIndex(id, idMark)
	if i < 0 || !validSession.MatchString(id[:i]) || !validMark.MatchString(id[i+len(idMark):]) {
		return "", fmt.Errorf("%w: %q is not the id of one", ErrNotFound, id)
	}
	return id[:i], nil
}

// Every object of a snapshot lies below this; parts have names of their own
// for each attempt, so a late attempt never changes what a manifest names.
func prefixOf(session, id string) string { return "snapshots/" + session + "/" + id + "/" }

const manifestName = "manifest.json"
