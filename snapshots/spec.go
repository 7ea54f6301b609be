package snapshots

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"time"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// Policies for a work folder.
const (
	WorkNone = "none" // nothing of it
	WorkGit  = "git"  // what git does not have upstream, and the state of the tree
	WorkFull = "full" // all but what is excluded
)

// TakeSpec says what to take.
type TakeSpec struct {
	// ID names the snapshot; see NewID. A caller that may repeat the call chooses it
	// beforehand: if a complete snapshot of that ID exists, it is returned unchanged.
	ID      string
	Session string
	// Parent is the session's newest good snapshot. What has not changed since is not read
	// again. A parent that is damaged or gone is ignored.
	Parent string
	Facts  Facts
	Trees  []TreeSpec
	// Mask returns a new Masker, for one stream, that overwrites known secrets, such as a
	// seeds.Redactor's MaskStream; nil if there are none.
	Mask func() chunks.Masker
	// Sure is called when everything is in the store and before the manifest is written. If
	// it fails, Take returns its error and there is no snapshot. Use it to check whether
	// new secrets came up meanwhile. It may be nil.
	Sure func() error
	// Secrets are fingerprints of the secrets that Mask knows, under a key that readers of
	// manifests do not have.
	Secrets []string
	// MaxBytes bounds the content of the snapshot, MaxAdded what it adds to the store,
	// encrypted; 0 means no bound. Beyond that the error is a *QuotaError.
	MaxBytes, MaxAdded int64
	// At is when the snapshot was requested; the zero value means now.
	At       time.Time
	Logger   *slog.Logger   // may be nil
	Progress func(Progress) // may be nil; called often, from one goroutine at a time
}

// TreeSpec names a folder on the host and says what of it is kept. A folder that does not
// exist is no tree. Always left out are credentials of codex, and folders of other trees of
// the snapshot.
type TreeSpec struct {
	Name    string // Rollouts or Work
	Dir     string
	Policy  string                 // for Work: WorkNone, WorkGit or WorkFull; empty means WorkFull
	Exclude []string               // patterns in gitignore syntax
	Skip    func(path string) bool // left out and listed, with everything below
	Only    []string               // folders in Dir to keep; empty means all
	Hollow  []string               // names in Dir that are ignored while they are empty folders, because codex creates and removes them
}

// RolloutsOf returns the tree of the rollout files in a CODEX_HOME.
func RolloutsOf(codexHome string) TreeSpec {
	return TreeSpec{Name: Rollouts, Dir: codexHome, Only: []string{"sessions", "archived_sessions"}}
}

// WorkOf returns the tree of a work folder.
func WorkOf(dir, policy string, exclude []string) TreeSpec {
	return TreeSpec{Name: Work, Dir: dir, Policy: policy, Exclude: exclude}
}

// Progress is the progress of a capture.
type Progress struct {
	Entries   int64 // listed
	ReadFiles int64 // from the host
	ReadBytes int64
}

// ErrQuota matches every QuotaError.
var ErrQuota = errors.New("the snapshot is larger than allowed")

// A QuotaError says which limit a snapshot exceeds, and where most of its content is.
type QuotaError struct {
	What    string // content, or what it adds to the store
	Bytes   int64
	Max     int64
	Biggest []FolderSize // of the content, largest first
}

// FolderSize is the content below a folder.
type FolderSize struct {
	Path  string
	Bytes int64
}

func (e *QuotaError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s is %s, and %s is the limit", ErrQuota, e.What, sizeText(e.Bytes), sizeText(e.Max))
	for i, f := range e.Biggest {
		b.WriteString([]string{"; the most is in ", ", "}[min(i, 1)])
		fmt.Fprintf(&b, "%s (%s)", f.Path, sizeText(f.Bytes))
	}
	b.WriteString("; leave out what can be made again with --snapshot-exclude, or raise the limit")
	return b.String()
}

// Is makes errors.Is(err, ErrQuota) true.
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }

func sizeText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// check rejects invalid specs and sets defaults.
func (s *TakeSpec) check() error {
	if !validSession.MatchString(s.Session) {
		return fmt.Errorf("%q is not the id of a session", s.Session)
	}
	if s.At.IsZero() {
		s.At = time.Now()
	}
	if s.ID == "" {
		s.ID = NewID(s.Session, s.At)
	}
	if session, err := sessionOf(s.ID); err != nil || session != s.Session {
		return fmt.Errorf("%q is not an id of a snapshot of session %s", s.ID, s.Session)
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	names := map[string]bool{}
	for i, t := range s.Trees {
		if !validTree.MatchString(t.Name) || names[t.Name] {
			return fmt.Errorf("tree %d has no name of its own: %q", i, t.Name)
		}
		names[t.Name] = true
		if !path.IsAbs(t.Dir) || path.Clean(t.Dir) != t.Dir || t.Dir == "/" {
			return fmt.Errorf("the folder of tree %s is no clean absolute path below /: %q", t.Name, t.Dir)
		}
	}
	return nil
}
