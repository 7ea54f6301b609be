package snapshots

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/store"
)

// ArchiveSpec says what to keep.
type ArchiveSpec struct {
	// ID names the snapshot; see NewID. A caller that may repeat itself
	// chooses it beforehand: an archive of that ID that is complete is
	// returned as it is.
	ID      string
	Session string
	// CodexHome and WorkDir are folders on the host; either may be empty. One
	// that is not there is none.
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

// Archive streams a session's rollout files and work directory from the host
// into the store and returns once every part was read back and found right.
// Only a nil error allows anything to be deleted on the host. On error nothing
// of it counts: what may be left is listed as incomplete, and doing it again
// is safe.
func Archive(ctx context.Context, h hostexec.Host, st *store.Store, spec ArchiveSpec) (_ Manifest, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("archive session %s from %s: %w", spec.Session, h.Name(), err)
		}
	}()
	if !validSession.MatchString(spec.Session) {
		return Manifest{}, fmt.Errorf("%q is not the id of a session", spec.Session)
	}
	if spec.ID == "" {
		spec.ID = NewID(spec.Session, time.Now())
	}
	if session, err := sessionOf(spec.ID); err != nil || session != spec.Session {
		return Manifest{}, fmt.Errorf("%q is not an id of a snapshot of session %s", spec.ID, spec.Session)
	}
	if m, err := Read(ctx, st, spec.ID); err == nil {
		return m, nil
	} else if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrIncomplete) {
		return Manifest{}, err
	}
	a := archiver{host: h, store: st, spec: spec, manifest: Manifest{
		ID: spec.ID, Session: spec.Session, Turn: spec.Turn, CreatedAt: time.Now().UTC(),
		ThreadID: spec.ThreadID, CodexVersion: spec.CodexVersion,
	}}
	m, err := a.run(ctx)
	if err != nil {
		a.drop(ctx)
		return Manifest{}, err
	}
	return m, nil
}

type archiver struct {
	host     hostexec.Host
	store    *store.Store
	spec     ArchiveSpec
	manifest Manifest
	keys     []string // of parts that were begun
}

func (a *archiver) run(ctx context.Context) (Manifest, error) {
	trees, err := a.trees(ctx)
	if err != nil {
		return Manifest{}, err
	}
	for _, t := range trees {
		part, err := a.keep(ctx, t)
		if err == nil {
			err = a.verify(ctx, part)
		}
		if err != nil {
			return Manifest{}, fmt.Errorf("%s: %w", t.name, err)
		}
		a.add(part)
	}
	a.manifest.Complete = true
	data, err := json.MarshalIndent(a.manifest, "", "  ")
	if err != nil {
		return Manifest{}, err
	}
	err = a.store.Create(ctx, prefixOf(a.spec.Session, a.spec.ID)+manifestName, data)
	if errors.Is(err, store.ErrExists) {
		// Another attempt was there first, or our own answer was lost: what
		// the store says is so. Parts that it does not name are dropped.
		m, err := Read(ctx, a.store, a.spec.ID)
		if err == nil && len(m.Parts) > 0 && len(a.keys) > 0 && m.Parts[0].Key != a.keys[0] {
			a.drop(ctx)
		}
		return m, err
	}
	return a.manifest, err
}

// A tree is what goes into one part.
type tree struct {
	name  string
	dir   string
	paths []string          // below dir; all when none
	skip  func(string) bool // by clean path below dir: left out and listed
}

// presentScript prints which of the folders are there.
const presentScript = `for d; do if [ -d "$d" ]; then echo yes; elif [ -e "$d" ]; then echo "$d: not a folder" >&2; exit 1; else echo no; fi; done`

func (a *archiver) trees(ctx context.Context) ([]tree, error) {
	rollouts := []string{"sessions", "archived_sessions"}
	home, work := a.spec.CodexHome, a.spec.WorkDir
	var ask []string
	if home != "" {
		ask = append(ask, path.Join(home, rollouts[0]), path.Join(home, rollouts[1]))
	}
	if work != "" {
		ask = append(ask, work)
	}
	r, err := a.host.Run(ctx, hostexec.Command{Script: presentScript, Args: ask})
	if err != nil {
		return nil, err
	}
	answers := strings.Fields(string(r.Stdout))
	if len(answers) != len(ask) {
		return nil, fmt.Errorf("the host gave %d answers in place of %d", len(answers), len(ask))
	}
	var found []tree
	if home != "" {
		t := tree{name: partRollouts, dir: home, skip: credential}
		for i, name := range rollouts {
			if answers[i] == "yes" {
				t.paths = append(t.paths, name)
			}
		}
		if len(t.paths) > 0 { // a thread that never had a turn has none
			found = append(found, t)
		}
	}
	if work != "" && answers[len(answers)-1] == "yes" {
		found = append(found, tree{name: partWork, dir: work, skip: foreign(home, work)})
	}
	return found, nil
}

// credential names the files of a CODEX_HOME that hold one.
func credential(p string) bool {
	switch path.Base(p) {
	case "auth.json", "config.toml", ".credentials.json":
		return true
	}
	return false
}

// foreign says what in a work directory is not work: the session's own
// CODEX_HOME, and the credentials of a codex that somebody else uses there. A
// project's config.toml is work.
func foreign(home, work string) func(string) bool {
	own := ""
	if rest, inside := strings.CutPrefix(home, strings.TrimSuffix(work, "/")+"/"); inside && home != "" {
		own = rest
	}
	return func(p string) bool {
		if own != "" && (p == own || strings.HasPrefix(p, own+"/")) {
			return true
		}
		return path.Base(path.Dir(p)) == ".codex" && credential(p)
	}
}

// keep streams a tree into the store.
func (a *archiver) keep(ctx context.Context, t tree) (_ Part, err error) {
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // never fails
	part := Part{Name: t.name, Key: prefixOf(a.spec.Session, a.spec.ID) + t.name + "-" + hex.EncodeToString(suffix[:]) + ".tar"}
	w, err := a.store.NewWriter(ctx, part.Key)
	if err != nil {
		return Part{}, err
	}
	defer w.Abort()
	a.keys = append(a.keys, part.Key)

	digest := sha256.New()
	size := &counter{}
	f := filter{to: io.MultiWriter(w, digest, size), skip: t.skip, mask: a.spec.Mask}
	err = pipe(
		func(to io.Writer) error { return hostexec.GetTree(ctx, a.host, t.dir, to, t.paths...) },
		f.run,
	)
	if err != nil {
		return Part{}, err
	}
	if err := w.Close(); err != nil {
		return Part{}, err
	}
	part.Digest, part.Size, part.Stored = hex.EncodeToString(digest.Sum(nil)), size.n, w.Stored()
	part.Files, part.Bytes, part.Masked = f.files, f.bytes, f.masked
	for _, name := range f.leftOut {
		if len(a.manifest.LeftOut) < maxLeftOut {
			a.manifest.LeftOut = append(a.manifest.LeftOut, t.name+"/"+name)
		}
	}
	return part, nil
}

// verify reads a part back: it must be what was written, and free of secrets.
func (a *archiver) verify(ctx context.Context, part Part) error {
	r, err := a.store.NewReader(ctx, part.Key)
	if err != nil {
		return err
	}
	defer r.Close()
	check := newChecker(r, part)
	if a.spec.Mask == nil {
		_, err = io.Copy(io.Discard, check)
		return err
	}
	mask := a.spec.Mask()
	if _, err := io.Copy(maskWriter{io.Discard, mask}, check); err != nil {
		return err
	}
	if mask.Flush(); mask.Count() > 0 {
		return errors.New("a known secret is in the finished archive, which was dropped")
	}
	return nil
}

func (a *archiver) add(p Part) {
	m := &a.manifest
	m.Parts = append(m.Parts, p)
	m.Files += p.Files
	m.Bytes += p.Bytes
	m.StoredBytes += p.Stored
	m.AddedBytes += p.Stored
	m.Masked += p.Masked
}

// drop removes the parts of an attempt that came to nothing. What it cannot
// remove stays listed as incomplete.
func (a *archiver) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, key := range a.keys {
		if err := a.store.Delete(ctx, key); err != nil && a.spec.Logger != nil {
			a.spec.Logger.Warn("part of a failed snapshot stays in the store", "snapshot", a.spec.ID, "error", err)
		}
	}
}
