package notify

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// reread is how often a keeper looks at its file.
	reread = 10 * time.Second
	// repeat is how often the log says again that the file is broken.
	repeat = time.Hour
)

// A Keeper has the rules in force. It is safe for concurrent use.
type Keeper struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	current *Rules
	since   time.Time
	broken  string // why the newest content of the file is not in force
	looked  time.Time
	told    time.Time
}

// Open reads a file of rules. The error names every mistake.
func Open(path string, log *slog.Logger) (*Keeper, error) {
	r, err := read(path)
	if err != nil {
		return nil, err
	}
	k := &Keeper{path: path, log: log, now: time.Now, current: r}
	k.since, k.looked = k.now().UTC(), k.now()
	log.Info("notification rules in force", "file", path, "digest", r.Digest)
	return k, nil
}

func read(path string) (*Rules, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the notification rules: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the notification rules: %w", err)
	}
	r, err := Parse(data, filepath.Dir(path))
	var b *BrokenError
	if errors.As(err, &b) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, err
}

// Current returns the rules in force. It reads the file again if the last look is old.
func (k *Keeper) Current() *Rules {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reload()
	return k.current
}

// Standing describes the rules in force, and says whether the file is broken.
func (k *Keeper) Standing() protocol.NotifyStanding {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reload()
	s := k.current.Standing()
	s.File, s.Since, s.Broken = k.path, k.since, k.broken
	return s
}

func (k *Keeper) reload() {
	if d := k.now().Sub(k.looked); d >= 0 && d < reread {
		return
	}
	k.looked = k.now()
	r, err := read(k.path)
	switch {
	case err != nil:
		if text := err.Error(); text != k.broken || k.now().Sub(k.told) > repeat {
			k.log.Error("the notification rules cannot be used: the last good ones stay in force", "file", k.path, "err", err)
			k.broken, k.told = text, k.now()
		}
	case r.Digest != k.current.Digest:
		k.current, k.since, k.broken = r, k.now().UTC(), ""
		k.log.Info("notification rules in force", "file", k.path, "digest", r.Digest)
	default:
		k.broken = ""
	}
}
