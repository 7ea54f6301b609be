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
	WorkNone = "none" // keep nothing
	WorkGit  = "git"  // keep what upstream does not have, and the state of the work tree
	WorkFull = "full" // keep all but excluded files
)

// TakeSpec describes a snapshot to take.
type TakeSpec struct {
	// ID names the snapshot; see NewID. A caller that may repeat the call chooses it
	// beforehand: if a complete snapshot of that ID exists, it is returned unchanged.
	ID      string
	Session string
	// Parent is the session's newest good snapshot. Files that have not changed since then
	// are not read again. A parent that is damaged or gone is ignored.
	Parent string
	Facts  Facts
	Trees  []TreeSpec
	// Mask returns a new Masker for one stream, which overwrites known secrets. The
	// MaskStream of a seeds.Redactor is such a function. Mask is nil if no secrets are
	// known.
	Mask func() chunks.Masker
	// Sure is called after all content is in the store and before the manifest is written.
	// If it fails, Take returns its error and there is no snapshot. A caller can use it to
	// check whether it has learned of new secrets meanwhile. It may be nil.
	Sure func() error
	// Secrets are fingerprints of the secrets that Mask knows, under a key that readers of
	// manifests do not have.
	Secrets []string
	// MaxBytes bounds the content of the snapshot. MaxAdded bounds the encrypted bytes that
	// it adds to the store. 0 means no bound. Beyond a bound the error is a *QuotaError.
	MaxBytes, MaxAdded int64
	// At is the time at which the snapshot was requested; the zero value means now.
	At       time.Time
	Logger   *slog.Logger   // may be nil
	Progress func(Progress) // may be nil; called often, from one goroutine at a time
}

// TreeSpec names a folder on the host and selects the files in it to keep. If the folder
// does not exist, the snapshot does not have the tree. Credentials of codex, and folders of
// other trees of the snapshot, are always left out.
type TreeSpec struct {
	Name    string // Rollouts or Work
	Dir     string
	Policy  string                 // for Work: WorkNone, WorkGit or WorkFull; empty means WorkFull
	Exclude []string               // patterns in gitignore syntax
	Skip    func(path string) bool // paths to leave out and list, with everything below them
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

// A QuotaError says which limit a snapshot exceeds, and which folders hold most of its
// content.
type QuotaError struct {
	What    string // the limit: content, or what is added to the store
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
