package hostexec

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// ErrLocked means that another script held the session's lock for half a minute; nothing
// began.
var ErrLocked = errors.New("session is locked by another script")

// Exit statuses of the fence; our scripts use them in no other sense. The fence also prints
// a line that begins with fenceWord on standard error.
const (
	fenceWord    = "fairlead-fence:"
	fenceLacks   = 96
	fenceRefused = 97
	fenceBusy    = 98
)

// maxEpoch is the largest number that all shells compare correctly: mksh counts in 32 bits.
const maxEpoch = 1<<31 - 1

// Check returns an error if a host's shell could not store or compare f.
func (f Fence) Check() error {
	switch {
	case !path.IsAbs(f.Dir) || path.Clean(f.Dir) != f.Dir || f.Dir == "/" || strings.ContainsRune(f.Dir, 0):
		return fmt.Errorf("fence: %q is not a clean absolute path", f.Dir)
	case f.Epoch.Generation < 0 || f.Epoch.Pump < 0 || f.Epoch.Attempt < 0:
		return fmt.Errorf("fence: epoch %s is negative", f.Epoch)
	case f.Epoch.Generation > maxEpoch || f.Epoch.Pump > maxEpoch || f.Epoch.Attempt > maxEpoch:
		return fmt.Errorf("fence: epoch %s is beyond what every shell can compare", f.Epoch)
	}
	return nil
}

func (e Epoch) String() string { return fmt.Sprintf("%d.%d.%d", e.Generation, e.Pump, e.Attempt) }

// Less reports whether o fences off e.
func (e Epoch) Less(o Epoch) bool {
	if e.Generation != o.Generation {
		return e.Generation < o.Generation
	}
	if e.Pump != o.Pump {
		return e.Pump < o.Pump
	}
	return e.Attempt < o.Attempt
}

func fencePrologue(f Fence) string {
	return script.FenceBegin(f.Dir, f.Epoch.Generation, f.Epoch.Pump, f.Epoch.Attempt)
}

func fenceError(status int, stderr []byte) error {
	if status != fenceRefused && status != fenceBusy && status != fenceLacks {
		return nil
	}
	for line := range strings.Lines(string(stderr)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), fenceWord+" ")
		if !ok {
			continue
		}
		if rest == "busy" {
			return ErrLocked
		}
		if what, ok := strings.CutPrefix(rest, "lacks "); ok {
			return fmt.Errorf("%w: %s", ErrUnsupported, what)
		}
		e := &FencedError{}
		n, _ := fmt.Sscanf(rest, "refused %d %d %d %d %d %d", &e.Ours.Generation, &e.Ours.Pump, &e.Ours.Attempt,
			&e.Host.Generation, &e.Host.Pump, &e.Host.Attempt)
		if n == 6 {
			return e
		}
	}
	return nil
}
