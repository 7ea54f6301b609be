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
	WorkNone = "none"
	WorkGit  = "git"  // see Git
	WorkFull = "full" // keep all but excluded files
)

// TakeSpec describes a snapshot to take.
type TakeSpec struct {
	// ID names the snapshot (see NewID). If a complete snapshot of that ID exists, it is
	// returned unchanged, so choose the ID before a call that may be repeated.
	ID      string
	Session string
	// Parent is the session's newest good snapshot. It is ignored if it is damaged or gone.
	Parent string
	Facts  Facts
	Trees  []TreeSpec
	// Mask returns a new Masker for one stream; nil if no secrets are known.
	Mask func() chunks.Masker
	// Sure is called when all content is in the store, for example to check for new
	// secrets. If it fails, Take returns its error and there is no snapshot. It may be nil.
	Sure func() error
	// Secrets are fingerprints of the secrets that Mask knows, under a key that readers of
	// manifests do not have.
	Secrets []string
	// MaxBytes bounds the content, and MaxAdded the encrypted bytes that are added to the
	// store. 0 means no bound. Beyond a bound the error is a *QuotaError.
	MaxBytes, MaxAdded int64
	// At is when the snapshot was requested; zero means now.
	At       time.Time
	Logger   *slog.Logger   // may be nil
	Progress func(Progress) // may be nil; called often, from one goroutine at a time
}

// TreeSpec selects files in a folder on the host. If the folder does not exist, the
// snapshot lacks the tree. Credentials of codex, and folders of other trees, are always
// left out.
type TreeSpec struct {
	Name    string
	Dir     string
	Policy  string                 // for Work; empty means WorkFull
	Exclude []string               // in gitignore syntax
	Skip    func(path string) bool // paths to leave out and list, with all below them
	Only    []string               // to keep; empty means all
	Hollow  []string               // folders to ignore while empty, because codex creates and removes them
}

// RolloutsOf returns the tree of the rollouts in a CODEX_HOME.
func RolloutsOf(codexHome string) TreeSpec {
	return TreeSpec{Name: Rollouts, Dir: codexHome, Only: []string{"sessions", "archived_sessions"}}
}

// WorkOf returns the tree of a work folder.
func WorkOf(dir, policy string, exclude []string) TreeSpec {
	return TreeSpec{Name: Work, Dir: dir, Policy: policy, Exclude: exclude}
}

// Progress is the progress of a Take or a Restore.
type Progress struct {
	Entries   int64
	ReadFiles int64
	ReadBytes int64
}

// ErrQuota matches every QuotaError.
var ErrQuota = errors.New("the snapshot is larger than allowed")

// A QuotaError names the limit that a snapshot exceeds, and the largest folders.
type QuotaError struct {
	What    string
	Bytes   int64
	Max     int64
	Biggest []FolderSize
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

// check also sets defaults.
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
			return fmt.Errorf("tree %d: the name %q is invalid or used twice", i, t.Name)
		}
		names[t.Name] = true
		if !path.IsAbs(t.Dir) || path.Clean(t.Dir) != t.Dir || t.Dir == "/" {
			return fmt.Errorf("the folder of tree %s is no clean absolute path below /: %q", t.Name, t.Dir)
		}
	}
	return nil
}
