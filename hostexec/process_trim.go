package hostexec

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// ErrProcessRunning: the process has not ended, and must have for what was asked.
var ErrProcessRunning = errors.New("process is running")

const (
	// trimBlock is what a trim is rounded down to: part of a block can be
	// wiped, but no space is won by it.
	trimBlock = 4096
	// errKept is how much of err.log a trim leaves.
	errKept = 256 << 10
)

// TrimJournal gives back the space of out.log below an offset that nobody will
// attach to any more, and that of err.log but for its last 256 KiB, and returns
// how many bytes more are gone than were before. It may be called at any time:
// offsets and sizes stay as they are, the process may go on writing, and whoever
// is attached above it notices nothing. Attaching below it is ErrJournalLost
// from then on, and so is reading there.
//
// A host that cannot punch holes (busybox's fallocate, some file systems) is an
// error that wraps ErrUnsupported, and nothing has changed then: begin a new
// incarnation of the process at an idle moment, and remove the old one's folder
// (RemoveProcess).
func TrimJournal(ctx context.Context, h Host, dir string, below int64, fence Fence) (freed int64, err error) {
	if freed, err = trim(ctx, h, dir, below, fence); err != nil {
		return 0, fmt.Errorf("trim journal in %s on %s: %w", dir, h.Name(), err)
	}
	return freed, nil
}

func trim(ctx context.Context, h Host, dir string, below int64, fence Fence) (freed int64, err error) {
	if err := checkDir(dir); err != nil {
		return 0, err
	}
	if below < 0 {
		return 0, fmt.Errorf("offset %d is negative", below)
	}
	res, err := h.Run(ctx, Command{
		Script: trimScript,
		Args:   []string{dir, strconv.FormatInt(below/trimBlock*trimBlock, 10), strconv.Itoa(errKept)},
		Fence:  &fence,
	})
	if err != nil {
		return 0, processError(err)
	}
	if n, _ := fmt.Sscanf(string(res.Stdout), "fairlead-trimmed %d", &freed); n != 1 {
		return 0, fmt.Errorf("%w: %w: %q", ErrOutcomeUnknown, errGarbled, lastBytes(res.Stdout, 200))
	}
	return freed, nil
}

// RemoveProcess removes the folder of a process that has ended, journal and
// all, so that those of former incarnations do not pile up. One that runs is an
// error that wraps ErrProcessRunning, and is left as it is; a folder that is
// not there is success. What the process left behind is found by less
// afterwards: see Reap, and reap first.
func RemoveProcess(ctx context.Context, h Host, dir string, fence Fence) error {
	err := checkDir(dir)
	if err == nil {
		_, err = h.Run(ctx, Command{Script: removeProcess, Args: []string{dir}, Fence: &fence})
		err = processError(err)
	}
	if err != nil {
		return fmt.Errorf("remove process in %s on %s: %w", dir, h.Name(), err)
	}
	return nil
}
