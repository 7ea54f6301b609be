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
)

// What callers branch on.
var (
	// ErrIncomplete: the snapshot has no manifest, or a part of it is not as
	// the manifest says. It cannot be used.
	ErrIncomplete = errors.New("snapshot is incomplete")
	// ErrNewer: a newer version has written the snapshot. It is complete, and
	// this version knows neither what is in it nor what it needs: it cannot use
	// it, deletes nothing that it may need, and leaves it where it is.
	ErrNewer = errors.New("the snapshot was made by a newer version of Fairlead, which all workers must have to use or delete it, to prune and to check")
	// ErrNotFound: there is nothing of that snapshot in the store.
	ErrNotFound = errors.New("no such snapshot")
)

// A Manifest says what a snapshot holds. It holds no secret.
type Manifest struct {
	ID        string    `json:"id"`
	Session   string    `json:"session"`
	CreatedAt time.Time `json:"created_at"`
	Facts
	WorkWhy     string `json:"work_why,omitempty"` // why the work folder is kept in full, where git was asked for
	Trees       []Tree `json:"trees,omitempty"`
	Files       int64  `json:"files"`        // entries of all trees
	Bytes       int64  `json:"bytes"`        // of files, as they were on the host
	StoredBytes int64  `json:"stored_bytes"` // what it would take in the store if it were alone there, about
	AddedBytes  int64  `json:"added_bytes"`  // encrypted, new to the store
	ReadFiles   int64  `json:"read_files"`   // that were read from the host
	ReadBytes   int64  `json:"read_bytes"`   // of these
	Masked      int    `json:"masked"`       // secrets overwritten, here and in what its parent had read
	// LeftOut is what was not kept though nobody asked to leave it out, at
	// most maxListed of LeftOutCount; Unstable what changed each time it was
	// read, likewise.
	LeftOut       []LeftOut `json:"left_out,omitempty"`
	LeftOutCount  int64     `json:"left_out_count,omitempty"`
	Unreadable    int64     `json:"unreadable,omitempty"` // of these: work that could not be saved
	Unstable      []string  `json:"unstable,omitempty"`
	UnstableCount int64     `json:"unstable_count,omitempty"`
	Took          string    `json:"took,omitempty"`
	// Parent is the snapshot against which this one was taken. Nothing of it
	// is needed any more.
	Parent string `json:"parent,omitempty"`
	// Secrets are fingerprints of those that were looked for. One that was
	// made knowing fewer is no parent: it may have kept what is a secret now.
	Secrets  []string `json:"secrets,omitempty"`
	Format   int      `json:"format"`
	Complete bool     `json:"complete"`
}

// Facts are how a session was set up, for who goes on with it.
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
	Host           string            `json:"host,omitempty"` // its name
	Labels         map[string]string `json:"labels,omitempty"`
	Incarnation    int               `json:"incarnation,omitempty"` // of the process, and how far
	Offset         int64             `json:"offset,omitempty"`      // its journal had been read
	Generation     int64             `json:"generation,omitempty"`
	Work           string            `json:"work,omitempty"` // the work folder's policy: none, git or full
	Exclude        []string          `json:"exclude,omitempty"`
	// Policy is the digest of the session's own policy, or NoPolicy; empty where
	// nobody knew. Who knew it knew Confine too: what was asked of the sandbox
	// beyond its mode, in words.
	Policy  string            `json:"policy,omitempty"`
	Confine map[string]string `json:"confine,omitempty"`
	// Budget is what the session might use, as --budget says it; empty where
	// nobody knew.
	Budget string `json:"budget,omitempty"`
	Left   bool   `json:"left,omitempty"` // of what a session had left on a host that it went away from
}

// NoPolicy is in the place of a policy's digest where a session had none.
const NoPolicy = "none"

// GoesOn says whether a session may go on from it: it is complete, and not only
// what was found where the session is no more.
func (m Manifest) GoesOn() bool { return m.Complete && !m.Left }

// Newer says that a newer version has written it; little is known of it here,
// see ErrNewer. It is not Complete, since this version can do nothing with it.
func (m Manifest) Newer() bool { return !m.Complete && m.Format > format }

// A Tree is one of a snapshot's folders.
type Tree struct {
	Name  string `json:"name"` // rollouts, work
	Dir   string `json:"dir"`  // where it was on the host
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"` // of its files
	Data  int64  `json:"data"`  // of Bytes, those that are not in holes
	// Unreadable counts what of it the host would not let us read.
	Unreadable int64 `json:"unreadable,omitempty"`
	// Index names the chunks that name the segments of its list of entries.
	Index []Digest `json:"index"`
}

// LeftOut is something that is not in a snapshot.
type LeftOut struct {
	Path string `json:"path"` // below the tree's name
	Why  string `json:"why"`  // credential, ours, another tree, socket, fifo, device, unreadable
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

// Unread counts what of some trees the host would not let us read, and names
// the first of it, at most that many.
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

// The names of trees, which are the top folders of an export.
const (
	Rollouts = "rollouts"
	Work     = "work"
)

// maxListed bounds the lists in a manifest.
const maxListed = 100

// format is that of manifests and lists that this version writes.
const format = 1

const idMark = ".snap-"

// NewID makes the id of a new snapshot of a session. Ids sort by time.
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

// sessionOf takes the session out of an id; both must be well-formed.
func sessionOf(id string) (string, error) {
	i := strings.LastIndex(id, idMark)
	if i < 0 || !validSession.MatchString(id[:i]) || !validMark.MatchString(id[i+len(idMark):]) {
		return "", fmt.Errorf("%w: %q is not the id of one", ErrNotFound, id)
	}
	return id[:i], nil
}

// A snapshot is its manifest; what that names is in packs.
func manifestKey(session, id string) string { return prefixOf(session, id) + manifestName }

func prefixOf(session, id string) string { return snapshotsPrefix + session + "/" + id + "/" }

const (
	snapshotsPrefix = "snapshots/"
	manifestName    = "manifest.json"
)
