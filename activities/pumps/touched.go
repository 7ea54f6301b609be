package pumps

import (
	"bufio"
	"context"
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
find . -prune -cmin -1 >/dev/null || exit 5
min=$((($(date +%s) - $2) / 60 + 2))
if stat -c %Z . >/dev/null 2>&1; then set -- -c '%Z %n'; else set -- -f '%c %N'; fi
find . -name .git -prune -o '(' -type f -o -type l ')' -cmin -$min -exec stat "$@" {} + 2>/dev/null
:`

// addTouched adds to end.Touched the names of the rules of which a file changed within the
// turn. The diff that codex reports has only what codex itself edited. A file that a command removed
// does not count. If the host does not list its files, end stays as it is: the turn has ended all the
// same.
func addTouched(ctx context.Context, s *site.Site, h hostexec.Host, in RunPumpInput, end *conversation.TurnEnd) {
	if end == nil || end.Status != "completed" || end.Foreign || !end.Effects || end.StartedAtMS <= 0 {
		return
	}
	left := slices.DeleteFunc(slices.Clone(in.Pump.Watched), func(w conversation.WatchedFiles) bool { return slices.Contains(end.Touched, w.Name) })
	if len(left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, touchedWait)
	defer cancel()
	names, err := ChangedWithin(ctx, h, in.Layout.WorkDir, end.StartedAtMS/1000, end.EndedAtMS/1000, left)
	if err != nil {
		s.Logger.Warn("the files that a turn changed are not all known: a rule for files may not apply", "session", in.Claim.Session, "turn", end.N, "error", err)
	}
	end.Touched = append(slices.Clone(end.Touched), names...)
}

var errManyChanged = fmt.Errorf("the names of the changed files have more than %d MiB", maxTouchedList>>20)

// ChangedWithin returns the names of the entries of watched that match a file below dir that changed
// from since to until, and not again later. These are Unix times by the host's clock. An until of 0
// means now. If there is an error, the result has the names found until then.
func ChangedWithin(ctx context.Context, h hostexec.Host, dir string, since, until int64, watched []conversation.WatchedFiles) (names []string, err error) {
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
		if n, nerr := strconv.ParseInt(at, 10, 64); nerr == nil && n >= since && (until == 0 || n <= until) {
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
