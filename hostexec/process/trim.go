package process

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// ErrRunning means that the process runs, but must have ended for the operation.
var ErrRunning = errors.New("process is running")

const (
	// trimBlock is the unit of trims: zeroing part of a block frees no space.
	trimBlock = 4096
	errKept   = 256 << 10
)

// TrimJournal frees the space of out.log below an offset, and of err.log except for its
// last 256 KiB, and returns how many bytes it freed. Offsets and sizes do not change. The
// process may go on writing, and attachments above the offset are not affected. Reading
// below it then fails with ErrJournalLost.
//
// If the host cannot punch holes (busybox's fallocate, some file systems), the error wraps
// ErrUnsupported and nothing has changed. Then begin a new incarnation of the process at an
// idle moment, and call Remove for the old one.
func TrimJournal(ctx context.Context, h hostexec.Host, dir string, below int64, fence hostexec.Fence) (freed int64, err error) {
	if freed, err = trim(ctx, h, dir, below, fence); err != nil {
		return 0, fmt.Errorf("trim journal in %s on %s: %w", dir, h.Name(), err)
	}
	return freed, nil
}

func trim(ctx context.Context, h hostexec.Host, dir string, below int64, fence hostexec.Fence) (freed int64, err error) {
	if err := checkDir(dir); err != nil {
		return 0, err
	}
	if below < 0 {
		return 0, fmt.Errorf("offset %d is negative", below)
	}
	res, err := h.Run(ctx, hostexec.Command{
		Script: trimScript,
		Args:   []string{dir, strconv.FormatInt(below/trimBlock*trimBlock, 10), strconv.Itoa(errKept)},
		Fence:  &fence,
	})
	if err != nil {
		return 0, processError(err)
	}
	if n, _ := fmt.Sscanf(string(res.Stdout), "fairlead-trimmed %d", &freed); n != 1 {
		return 0, fmt.Errorf("%w: %w: %q", hostexec.ErrOutcomeUnknown, script.ErrGarbled, script.LastBytes(res.Stdout, 200))
	}
	return freed, nil
}

// Remove removes the folder of a process that has ended. If the process runs, the error
// wraps ErrRunning. A missing folder is no error. Call Reap before Remove: without the
// folder, Reap finds fewer processes.
func Remove(ctx context.Context, h hostexec.Host, dir string, fence hostexec.Fence) error {
	err := checkDir(dir)
	if err == nil {
		_, err = h.Run(ctx, hostexec.Command{Script: removeProcess, Args: []string{dir}, Fence: &fence})
		err = processError(err)
	}
	if err != nil {
		return fmt.Errorf("remove process in %s on %s: %w", dir, h.Name(), err)
	}
	return nil
}
