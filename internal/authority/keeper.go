package authority

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/access"
)

// reread is how often a keeper looks at its file. A revocation holds for running sessions
// within this time.
const reread = 10 * time.Second

// repeat is how often the log says again that a file is broken.
const repeat = time.Hour

// A Keeper has the access file that is in force. It is safe for concurrent use.
type Keeper struct {
	what  string // the kind of file
	path  string
	parse func([]byte) (*access.Access, error)
	log   *slog.Logger
	now   func() time.Time
	// before is when commands came to be judged: see AllowBefore.
	before time.Time
	// required is when all workers began to require authority: see RequiredSince.
	required time.Time

	mu      sync.Mutex
	current *access.Access
	since   time.Time
	broken  error // of the newest content of the file, if it is not in force
	brokeAt time.Time
	toldAt  time.Time // when the log said so
	tokens  Tokens

	passkeys Passkeys

	onLoad func(digest string, data []byte) error
	loaded []version // that onLoad has not taken, the oldest first
	giving bool      // to onLoad
	forget bool      // nobody wants its versions
}

// A version is what an access file had when it came into force.
type version struct {
	digest string
	data   []byte
}

// maxLoaded bounds the versions that wait.
const maxLoaded = 20

// Open reads an access file. The error names every mistake.
func Open(path string, log *slog.Logger) (*Keeper, error) {
	return openFile("access file", path, access.Parse, log)
}

// OpenRevoked reads a file of what is revoked, for a worker that takes commands of everybody: see
// [access.ParseRevoked] and Options.Revoked.
func OpenRevoked(path string, log *slog.Logger) (*Keeper, error) {
	k, err := openFile("file of revoked keys and people", path, access.ParseRevoked, log)
	if err == nil {
		k.forget, k.loaded = true, nil
	}
	return k, err
}

func openFile(what, path string, parse func([]byte) (*access.Access, error), log *slog.Logger) (*Keeper, error) {
	k := &Keeper{what: what, path: path, parse: parse, log: log, now: time.Now}
	a, data, err := k.read()
	if err != nil {
		return nil, err
	}
	k.current, k.since = a, time.Now().UTC()
	k.loaded = []version{{a.Digest, data}}
	k.tell(what+" in force", a)
	return k, nil
}

// tell logs that a file comes into force, and the warnings about it.
func (k *Keeper) tell(what string, a *access.Access, more ...any) {
	k.log.Info(what, append([]any{"file", k.path, "digest", a.Digest}, more...)...)
	for _, w := range a.Warnings {
		k.log.Warn("the "+k.what+" is valid, but part of it is probably a mistake", "file", k.path, "warning", w)
	}
}

// Fixed returns a keeper of an access file that does not change, whose clock is now.
func Fixed(a *access.Access, now func() time.Time) *Keeper {
	return &Keeper{current: a, now: now, log: slog.New(slog.DiscardHandler)}
}

// AllowBefore lets runs go on that began before a time and judge no commands, since only
// older workers ran them. Without it, the keeper's worker runs none of those: whoever writes
// the database of Temporal could make a run look like one. It is called before the keeper is
// used.
func (k *Keeper) AllowBefore(at time.Time) { k.before = at }

// RequiredSince says when all workers began to require authority. Workers judged no commands to
// runs that began earlier, so nothing is concluded from when these were signed. It is called
// before the keeper is used.
func (k *Keeper) RequiredSince(at time.Time) { k.required = at }

// OnLoad sets a function that gets each file that comes into force, and at once the one that is
// in force. If it fails, it gets the file again at a later reload. It runs by itself, one at a
// time: no judgement waits for it. OnLoad is called once.
func (k *Keeper) OnLoad(f func(digest string, data []byte) error) {
	k.mu.Lock()
	k.onLoad = f
	k.mu.Unlock()
	k.give()
}

// give begins to hand over the files that wait.
func (k *Keeper) give() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.onLoad == nil || k.giving || len(k.loaded) == 0 {
		return
	}
	k.giving = true
	go k.giveAll()
}

func (k *Keeper) giveAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.loaded) > 0 {
		v := k.loaded[0]
		k.mu.Unlock()
		err := k.onLoad(v.digest, v.data)
		k.mu.Lock()
		if err != nil {
			k.log.Warn("a version of the access file is not kept yet", "file", k.path, "digest", v.digest, "err", err)
			break
		}
		k.loaded = k.loaded[1:]
	}
	k.giving = false
}

// load remembers a file for onLoad. The caller holds mu.
func (k *Keeper) load(v version) {
	if k.forget {
		return
	}
	if len(k.loaded) >= maxLoaded {
		k.log.Error("a version of the access file is not kept: too many wait", "file", k.path, "digest", v.digest)
		return
	}
	k.loaded = append(k.loaded, v)
}

// Current returns the access file in force.
func (k *Keeper) Current() *access.Access {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// A Standing says which file is in force.
type Standing struct {
	Path   string    `json:"path"`
	Digest string    `json:"digest"`
	Since  time.Time `json:"since"` // when it was read
	// Broken says why newer content of the file is not in force.
	Broken string `json:"broken,omitempty"`
	// BrokenSince is when the file was first found broken.
	BrokenSince time.Time `json:"broken_since,omitzero"`
}

// Problem says why newer content of the file is not in force, and what is, or returns "".
func (s Standing) Problem() string {
	if s.Broken == "" {
		return ""
	}
	since := ""
	if !s.BrokenSince.IsZero() {
		since = " since " + s.BrokenSince.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("its access file has been broken%s, and the last good one stays in force (digest %s, read at %s): %s", since, s.Digest, s.Since.UTC().Format(time.RFC3339), s.Broken)
}

// Standing returns which file is in force, and why newer content is not.
func (k *Keeper) Standing() Standing {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Standing{Path: k.path, Digest: k.current.Digest, Since: k.since}
	if k.broken != nil {
		s.Broken, s.BrokenSince = k.broken.Error(), k.brokeAt
	}
	return s
}

// Watch reads the file again and again, until ctx ends.
func (k *Keeper) Watch(ctx context.Context) {
	t := time.NewTicker(reread)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			k.Reload()
		}
	}
}

// Reload reads the file. A file that cannot be read, or has mistakes, leaves the last good
// one in force.
func (k *Keeper) Reload() {
	defer k.give()
	a, data, err := k.read()
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.broken
	if k.broken = err; err != nil {
		now := k.now().UTC()
		if was == nil {
			k.brokeAt = now
		}
		if was == nil || was.Error() != err.Error() || now.Sub(k.toldAt) >= repeat {
			k.toldAt = now
			k.log.Error("the "+k.what+" cannot be used: the last good one stays in force", "file", k.path, "in_force", k.current.Digest, "in_force_since", k.since, "broken_since", k.brokeAt, "err", err)
		}
		return
	}
	switch {
	case a.Digest != k.current.Digest:
		k.tell(k.what+" read", a, "before", k.current.Digest)
		k.current, k.since = a, k.now().UTC()
		k.load(version{a.Digest, data})
	case was != nil:
		k.log.Info("the "+k.what+" is no longer broken: its content is what is in force", "file", k.path, "digest", a.Digest, "broken_since", k.brokeAt)
	}
	k.brokeAt, k.toldAt = time.Time{}, time.Time{}
}

func (k *Keeper) read() (*access.Access, []byte, error) {
	path := k.path
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the %s: %w", k.what, err)
	}
	defer f.Close()
	if err := trusted(f); err != nil {
		return nil, nil, fmt.Errorf("read the %s %s: %w", k.what, path, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, access.MaxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the %s: %w", k.what, err)
	}
	a, err := k.parse(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read the %s %s: %w", k.what, path, err)
	}
	return a, data, nil
}

// trusted refuses a file that others could have written.
func trusted(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("its mode is %#o, so that others can write it: chmod go-w", info.Mode().Perm())
	}
	return nil
}
