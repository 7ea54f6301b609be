package folder

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// SessionFolders lists the sessions' folders on a host.
type SessionFolders struct {
	Dir   string
	Found []sessionFolder
	Odd   int  // names that no session can have
	More  bool // more than MaxFolders
	// Ageless says that the host cannot tell a file's age.
	Ageless bool
}

// A sessionFolder has more than the files of a lock.
type sessionFolder struct {
	Session    string
	Generation int64 // 0 if not recorded
	Old        bool  // see LookAtFolders
}

//go:embed sessionfolders.sh
var sessionFoldersScript string

// MaxFolders limits the folders of one look.
const MaxFolders = 5000

// LookAtFolders lists the sessions' folders in one round trip. It changes nothing and takes
// no lock. A mark is old if it was written longer than older ago, in whole minutes.
func LookAtFolders(ctx context.Context, h hostexec.Host, root string, older time.Duration) (SessionFolders, error) {
	out := SessionFolders{Dir: root + "/sessions"}
	res, err := h.Run(ctx, hostexec.Command{Script: sessionFoldersScript,
		Args: []string{out.Dir, strconv.Itoa(int(older / time.Minute)), strconv.Itoa(MaxFolders), protocol.Layout{Root: root}.Rooms()}})
	if err != nil {
		return out, fmt.Errorf("list %s on %s: %w", out.Dir, h.Name(), err)
	}
	old := map[string]bool{}
	ended := false
	for line := range strings.Lines(string(res.Stdout)) {
		if mark, ok := strings.CutSuffix(line, "/"+MarkFile+"\n"); ok {
			old[strings.TrimPrefix(mark, "./")] = true
			continue
		}
		switch words := strings.Fields(line); {
		case len(words) == 3 && words[0] == "folder":
			n, err := strconv.ParseInt(words[2], 10, 64)
			if err != nil {
				return out, fmt.Errorf("list %s on %s: unexpected output %.200q", out.Dir, h.Name(), line)
			}
			if !kit.NameRule.MatchString(words[1]) {
				out.Odd++
				continue
			}
			out.Found = append(out.Found, sessionFolder{Session: words[1], Generation: n})
		case len(words) != 1: // part of a name that is not ours
		case words[0] == "odd":
			out.Odd++
		case words[0] == "more":
			out.More = true
		case words[0] == "ageless":
			out.Ageless = true
		case words[0] == "end":
			ended = true
		}
	}
	if !ended {
		return out, fmt.Errorf("list %s on %s: the listing is incomplete (the script stopped early)", out.Dir, h.Name())
	}
	for i := range out.Found {
		out.Found[i].Old = old[out.Found[i].Session]
	}
	return out, nil
}
