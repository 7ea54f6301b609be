package snapshots

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/snapshots/chunks"
)

var (
	// ErrIncomplete means that the snapshot has no manifest, or differs from it.
	ErrIncomplete = errors.New("snapshot is incomplete")
	// ErrNewer means that a newer version wrote the snapshot. This version cannot use it,
	// and deletes neither the snapshot nor what it may need.
	ErrNewer = errors.New("the snapshot was made by a newer version of Fairlead: all workers need that version to use or delete it, to prune and to check")
	// ErrNotFound means that the store does not have the snapshot.
	ErrNotFound = errors.New("no such snapshot")
)

// A Manifest describes a snapshot. It holds no secret.
type Manifest struct {
	ID        string    `json:"id"`
	Session   string    `json:"session"`
	CreatedAt time.Time `json:"created_at"`
	Facts
	WorkWhy     string `json:"work_why,omitempty"` // why the policy is full although git was requested
	Trees       []Tree `json:"trees,omitempty"`
	Files       int64  `json:"files"`        // entries of all trees
	Bytes       int64  `json:"bytes"`        // of files on the host
	StoredBytes int64  `json:"stored_bytes"` // size if the store had no other snapshot, roughly
	AddedBytes  int64  `json:"added_bytes"`  // bytes new in the store, encrypted
	ReadFiles   int64  `json:"read_files"`   // read from the host
	ReadBytes   int64  `json:"read_bytes"`
	Masked      int    `json:"masked"` // secrets overwritten, also in content from the parent
	// LeftOut lists paths that were not kept although no option excluded them, and Unstable
	// files that changed each time they were read: at most maxListed each.
	LeftOut       []LeftOut `json:"left_out,omitempty"`
	LeftOutCount  int64     `json:"left_out_count,omitempty"`
	Unreadable    int64     `json:"unreadable,omitempty"` // part of LeftOutCount
	Unstable      []string  `json:"unstable,omitempty"`
	UnstableCount int64     `json:"unstable_count,omitempty"`
	Took          string    `json:"took,omitempty"`
	// Parent is the snapshot against which this one was taken. It may be deleted.
	Parent string `json:"parent,omitempty"`
	// By is the principal who uploaded the tree, if that is known.
	By string `json:"by,omitempty"`
	// Secrets are fingerprints of the secrets that were searched for. A new snapshot that
	// knows further ones cannot have this one as its parent.
	Secrets  []string `json:"secrets,omitempty"`
	Format   int      `json:"format"`
	Complete bool     `json:"complete"`
}

// Facts are the settings and the state of a session.
type Facts struct {
	ThreadID       string            `json:"thread_id,omitempty"`
	Turn           int               `json:"turn"`
	Running        bool              `json:"running,omitempty"` // the turn had not ended
	CWD            string            `json:"cwd,omitempty"`
	Sandbox        string            `json:"sandbox,omitempty"`
	Permissions    string            `json:"permissions,omitempty"`
	ApprovalPolicy string            `json:"approval_policy,omitempty"`
	Model          string            `json:"model,omitempty"`
	Effort         string            `json:"effort,omitempty"`
	CodexVersion   string            `json:"codex_version,omitempty"`
	Host           string            `json:"host,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Incarnation    int               `json:"incarnation,omitempty"` // number of codex's process
	Offset         int64             `json:"offset,omitempty"`      // in the journal of that process
	Generation     int64             `json:"generation,omitempty"`
	Work           string            `json:"work,omitempty"` // WorkNone, WorkGit or WorkFull
	Exclude        []string          `json:"exclude,omitempty"`
	// Policy is the digest of the session's own policy, or NoPolicy; if empty, Policy and
	// Confine are unknown. Confine says in words what the session asks of the sandbox
	// beyond its mode.
	Policy  string            `json:"policy,omitempty"`
	Confine map[string]string `json:"confine,omitempty"`
	// Budget has the format of --budget; empty if unknown.
	Budget string `json:"budget,omitempty"`
	Left   bool   `json:"left,omitempty"` // taken of files that a session left on a host when it moved
}

// NoPolicy means that the session had no policy.
const NoPolicy = "none"

// GoesOn reports whether a session may continue from the snapshot.
func (m Manifest) GoesOn() bool { return m.Complete && !m.Left }

// Newer reports whether a newer version wrote the snapshot. Then Complete is false and most
// fields are empty.
func (m Manifest) Newer() bool { return !m.Complete && m.Format > format }

// A Tree is one of a snapshot's folders.
type Tree struct {
	Name       string `json:"name"`
	Dir        string `json:"dir"` // on the host
	Files      int64  `json:"files"`
	Bytes      int64  `json:"bytes"`
	Data       int64  `json:"data"` // part of Bytes that is not in holes
	Unreadable int64  `json:"unreadable,omitempty"`
	// Index names the chunks that list the tree's segments.
	Index []chunks.Digest `json:"index"`
}

// LeftOut names something that is not in a snapshot.
type LeftOut struct {
	Path string `json:"path"` // below the tree's name
	Why  string `json:"why"`
}

// Tree returns the tree of that name.
func (m Manifest) Tree(name string) (Tree, bool) {
	for _, t := range m.Trees {
		if t.Name == name {
			return t, true
		}
	}
	return Tree{}, false
}

// Unread returns the number of entries of the named trees that the host would not let us
// read, and at most that many of their paths.
func (m Manifest) Unread(most int, trees ...string) (n int64, names []string) {
	for _, name := range trees {
		t, _ := m.Tree(name)
		n += t.Unreadable
	}
	for _, l := range m.LeftOut {
		tree, _, _ := strings.Cut(l.Path, "/")
		if l.Why == whyUnreadable && slices.Contains(trees, tree) && len(names) < most {
			names = append(names, l.Path)
		}
	}
	return n, names
}

// Names of trees, also in an export.
const (
	Rollouts = "rollouts"
	Work     = "work"
)

const maxListed = 100

// format is the newest format that this version knows.
const format = 1

const idMark = ".snap-"

// NewID returns the id of a new snapshot. Ids of a session sort by time.
func NewID(session string, at time.Time) string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return session + idMark + at.UTC().Format("20060102t150405") + "-" + hex.EncodeToString(b[:])
}

var (
	validSession = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	validTree    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	validMark    = regexp.MustCompile(`^[0-9]{8}t[0-9]{6}-[0-9a-f]{6}$`)
)

func sessionOf(id string) (string, error) {
	i := strings.LastIndex(id, idMark)
	if i < 0 || !validSession.MatchString(id[:i]) || !validMark.MatchString(id[i+len(idMark):]) {
		return "", fmt.Errorf("%w: %q is not the id of one", ErrNotFound, id)
	}
	return id[:i], nil
}

func manifestKey(session, id string) string { return prefixOf(session, id) + manifestName }

func prefixOf(session, id string) string { return snapshotsPrefix + session + "/" + id + "/" }

const (
	snapshotsPrefix = "snapshots/"
	manifestName    = "manifest.json"
)
