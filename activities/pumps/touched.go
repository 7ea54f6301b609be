package pumps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
)

const (
	// maxTouchedList bounds the names of the changed files that are looked at, in bytes.
	maxTouchedList = 64 << 20
	// touchedWait bounds the search for them.
	touchedWait = 2 * time.Minute
)

// changedScript lists the files below a folder, without .git, that changed within the minutes since a
// time: the time of the change, and the name. No command can set back that time, unlike the time of
// modification.
const changedScript = `cd -P -- "$1" || exit 4
min=$((($(date +%s) - $2) / 60 + 2))
if stat -c %Z . >/dev/null 2>&1; then set -- -c '%Z %n'; else set -- -f '%c %N'; fi
find . -name .git -prune -o '(' -type f -o -type l ')' -cmin -$min -exec stat "$@" {} + 2>/dev/null
:`

// addTouched adds to the end of a turn which watched files its commands changed. codex's diff of a
// turn has only what codex itself edited. A file that a command removed does not count. A host that
// cannot list files leaves the end as it is.
func addTouched(ctx context.Context, s *site.Site, h hostexec.Host, in RunPumpInput, end *conversation.TurnEnd) error {
	if end == nil || end.Status != "completed" || end.Foreign || !end.Effects || end.StartedAtMS <= 0 {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(in.Pump.Watched), func(w conversation.WatchedFiles) bool { return slices.Contains(end.Touched, w.Name) })
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, touchedWait)
	defer cancel()
	names, err := ChangedSince(ctx, h, in.Layout.WorkDir, end.StartedAtMS/1000, left)
	if exit := (*hostexec.ExitError)(nil); errors.As(err, &exit) || errors.Is(err, errManyChanged) || ctx.Err() != nil && err != nil {
		s.Logger.Warn("which files a turn changed is not known in full: a rule for files may not apply", "session", in.Claim.Session, "turn", end.N, "error", err)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("look which files turn %d changed: %w", end.N, err)
	}
	end.Touched = append(slices.Clone(end.Touched), names...)
	return nil
}

var errManyChanged = fmt.Errorf("the names of the changed files have more than %d MiB", maxTouchedList>>20)

// ChangedSince returns the names of the watched files of which one below dir changed at a time or
// later, in seconds by the host's clock. It returns those that it found with an error, too.
func ChangedSince(ctx context.Context, h hostexec.Host, dir string, since int64, watched []conversation.WatchedFiles) (names []string, err error) {
	st, err := h.Start(ctx, hostexec.Command{Script: changedScript, Args: []string{dir, strconv.FormatInt(since, 10)}})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.CloseWrite(); err != nil {
		return nil, err
	}
	list := &io.LimitedReader{R: st, N: maxTouchedList}
	for lines := bufio.NewReader(list); ; {
		line, rerr := lines.ReadString('\n')
		at, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n, nerr := strconv.ParseInt(at, 10, 64); nerr == nil && n >= since {
			for _, w := range watched {
				if !slices.Contains(names, w.Name) && w.Matches(strings.TrimPrefix(name, "./")) {
					names = append(names, w.Name)
				}
			}
		}
		switch {
		case len(names) == len(watched):
			return names, nil
		case rerr == io.EOF && list.N == 0:
			return names, errManyChanged
		case rerr == io.EOF:
			return names, st.Wait()
		case rerr != nil:
			return names, rerr
		}
	}
}
