package snapshots

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"time"
)

// Policies for a work folder.
const (
	WorkNone = "none" // nothing of it
	WorkGit  = "git"  // what git does not have upstream, and the state of the tree
	WorkFull = "full" // all but what is excluded
)

// TakeSpec says what to keep.
type TakeSpec struct {
	// ID names the snapshot; see NewID. A caller that may repeat itself
	// chooses it beforehand: a snapshot of that ID that is complete is
	// returned as it is.
	ID      string
	Session string
	// Parent is the newest good snapshot of the session; what did not change
	// since is not read again. One that is damaged or gone is none.
	Parent string
	Facts  Facts
	Trees  []TreeSpec
	// Mask makes what overwrites known secrets, once for each stream; nil
	// where there are none. A seeds.Redactor's MaskStream is one.
	Mask func() Masker
	// Sure is asked when all is in the store and there is no manifest yet; its
	// error is Take's, and then there is no snapshot. Whoever takes one while
	// new secrets may come up looks there whether one has. It may be nil.
	Sure func() error
	// Secrets are fingerprints of those that Mask knows, under a key that
	// whoever reads manifests does not have.
	Secrets []string
	// MaxBytes bounds the content of the snapshot, MaxAdded what it may add to
	// the store, encrypted; 0 is no bound. More is a *QuotaError.
	MaxBytes, MaxAdded int64
	// At is when the snapshot was wished for; the zero value is now.
	At       time.Time
	Logger   *slog.Logger   // may be nil
	Progress func(Progress) // may be nil; called often, from one goroutine at a time
}

// TreeSpec names a folder on the host and what of it is kept. One that is not
// there is none. What is always left out: credentials of codex, and a folder
// that another tree of the same snapshot is made of.
type TreeSpec struct {
	Name    string // Rollouts or Work
	Dir     string
	Policy  string                 // for work: WorkNone, WorkGit or WorkFull, which is also what the empty string means
	Exclude []string               // in gitignore's syntax
	Skip    func(path string) bool // left out and listed, with all that is below it
	Only    []string               // the folders in Dir to keep; all when empty
	Hollow  []string               // names in Dir that are nothing while they are empty folders: codex makes these, and removes them
}

// RolloutsOf is the tree of the rollout files in a CODEX_HOME.
func RolloutsOf(codexHome string) TreeSpec {
	return TreeSpec{Name: Rollouts, Dir: codexHome, Only: []string{"sessions", "archived_sessions"}}
}

// WorkOf is the tree of a work folder.
func WorkOf(dir, policy string, exclude []string) TreeSpec {
	return TreeSpec{Name: Work, Dir: dir, Policy: policy, Exclude: exclude}
}

// Progress is how far a capture is.
type Progress struct {
	Entries   int64 // listed
	ReadFiles int64 // from the host
	ReadBytes int64
}

// A Masker overwrites secrets in a stream and keeps its length: what Next and
// Flush return together is as long as what was given. Count is how many it found.
type Masker interface {
	Next(p []byte) []byte
	Flush() []byte
	Count() int
}

// ErrQuota is what every QuotaError is.
var ErrQuota = errors.New("the snapshot is larger than allowed")

// A QuotaError says what a snapshot is too large for, and of what it consists.
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

// check refuses what no capture can be made of, and fills in what may be left open.
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
