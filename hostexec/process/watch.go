package process

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// A Watched is a watched process that does not run or whose journal changed its length.
type Watched struct {
	// Session and Process name the folder Session/proc/Process.
	Session, Process string
	// Offset is the position that LeaveWatch got.
	Offset int64
	State  State
	Code   int   // as in Status
	Size   int64 // of its journal; -1 if the journal is gone
}

// Over reports whether no more output will come: the process no longer runs, or its journal
// lacks bytes that were read.
func (w Watched) Over() bool { return w.State != Running || w.Size < w.Offset }

var (
	//go:embed watch_leave.sh
	watchLeaveText string
	//go:embed watch_look.sh
	watchLookText string

	watchLeaveScript = withLib(watchLeaveText)
	watchLookScript  = withLib(watchLookText)
)

// LeaveWatch records on the host that the caller has read the journal in dir up to offset
// and is not attached any more. LookWatched then checks the process until the next
// exclusive attachment. If no process was started, the error wraps ErrNotExist.
func LeaveWatch(ctx context.Context, h hostexec.Host, dir string, offset int64, fence hostexec.Fence) error {
	err := checkDir(dir)
	if err == nil && offset < 0 {
		err = fmt.Errorf("offset %d is negative", offset)
	}
	if err == nil {
		_, err = h.Run(ctx, hostexec.Command{Script: watchLeaveScript, Args: []string{dir, strconv.FormatInt(offset, 10)}, Fence: &fence})
		err = processError(err)
	}
	if err != nil {
		return fmt.Errorf("leave a watch for process in %s on %s: %w", dir, h.Name(), err)
	}
	return nil
}

// LookWatched looks at every watched process below sessionsDir in one round trip, and
// returns those that do not run or whose journal changed its length. It changes nothing,
// takes no lock, and starts no program for the others. ReadJournal and Attach find out
// whether it is still the same journal.
func LookWatched(ctx context.Context, h hostexec.Host, sessionsDir string) ([]Watched, error) {
	fail := func(err error) ([]Watched, error) {
		return nil, fmt.Errorf("look at processes below %s on %s: %w", sessionsDir, h.Name(), err)
	}
	if err := checkDir(sessionsDir); err != nil {
		return fail(err)
	}
	res, err := h.Run(ctx, hostexec.Command{Script: watchLookScript, Args: []string{sessionsDir}})
	if err != nil {
		return fail(processError(err))
	}
	var found []Watched
	for line := range bytes.Lines(res.Stdout) {
		w, err := parseWatched(string(line))
		if err != nil {
			return fail(err)
		}
		found = append(found, w)
	}
	return found, nil
}

func parseWatched(line string) (w Watched, err error) {
	var dir string
	n, _ := fmt.Sscanf(line, "fairlead-watch %s %d %s %d %d", &dir, &w.Offset, &w.State, &w.Code, &w.Size)
	var ok bool
	w.Session, w.Process, ok = strings.Cut(dir, "/proc/")
	if n != 5 || !ok || w.Offset < 0 || strings.ContainsRune(w.Session+w.Process, '/') {
		return w, fmt.Errorf("%w: %.200q", script.ErrGarbled, line)
	}
	switch w.State {
	case Absent, Running, Exited, Lost, Rebooted:
		return w, nil
	}
	return w, fmt.Errorf("%w: %.200q", script.ErrGarbled, line)
}

// journalScript uses dd, which seeks; busybox's tail would read all before the offset.
const journalScript = `[ -f "$1" ] || { echo "$1: no such file" >&2; exit 94; }
exec dd if="$1" bs=65536 skip="$2" count="$3" 2>/dev/null`

const journalBlock = 64 << 10

// MaxJournalPiece is the largest number of bytes that ReadJournal returns.
const MaxJournalPiece = 1 << 20

// ReadJournal reads at most MaxJournalPiece bytes of the journal in dir from offset on,
// without attaching. The offset must be 0 or directly behind a newline. If the journal was
// trimmed above it, or was truncated and has grown again (see AttachOptions.Lines), the
// error wraps ErrJournalLost.
func ReadJournal(ctx context.Context, h hostexec.Host, dir string, offset int64) ([]byte, error) {
	data, err := readJournal(ctx, h, dir, offset)
	if err != nil {
		return nil, fmt.Errorf("read journal of process in %s on %s at byte %d: %w", dir, h.Name(), offset, err)
	}
	return data, nil
}

func readJournal(ctx context.Context, h hostexec.Host, dir string, offset int64) ([]byte, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, errors.New("the offset is negative")
	}
	from := max(offset-1, 0) // include the newline before the offset
	res, err := h.Run(ctx, hostexec.Command{Script: journalScript, Args: []string{
		path.Join(dir, "out.log"), strconv.FormatInt(from/journalBlock, 10), strconv.Itoa(MaxJournalPiece/journalBlock + 1),
	}})
	var exit *hostexec.ExitError
	if errors.As(err, &exit) && exit.Code == script.ExitNotExist {
		return nil, hostexec.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	data := res.Stdout[min(from%journalBlock, int64(len(res.Stdout))):]
	if len(data) > 0 && from < offset {
		if err := checkLine(ctx, h, dir, data[0], offset); err != nil {
			return nil, err
		}
		data = data[1:]
	}
	data = data[:min(len(data), MaxJournalPiece)]
	if mayBeHole(data, offset) {
		if err := checkHole(ctx, h, dir, offset, false); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// checkLine returns ErrJournalLost if no line begins at offset. before is the byte before
// it.
func checkLine(ctx context.Context, h hostexec.Host, dir string, before byte, offset int64) error {
	if before == '\n' {
		return nil
	}
	trimmed := int64(0)
	if before == 0 {
		// A trim that ends exactly at the offset has zeroed the newline.
		var err error
		if trimmed, err = trimmedTo(ctx, h, dir, false); err != nil {
			return err
		}
	}
	if offset <= trimmed {
		return nil
	}
	return fmt.Errorf("%w: no line ends at byte %d: the journal was truncated and has grown again", ErrJournalLost, offset)
}
