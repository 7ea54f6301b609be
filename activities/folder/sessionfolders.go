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
)

// SessionFolders describes the folder that has the folders of all sessions on a host.
type SessionFolders struct {
	Dir   string // the folder that has them
	Found []sessionFolder
	Odd   int  // folders with names that no session can have
	More  bool // there are too many to list all
	// Ageless says that the host cannot tell how old a file is.
	Ageless bool
}

// A sessionFolder is the folder of a session that has more in it than the files of a
// lock.
type sessionFolder struct {
	Session    string
	Generation int64 // 0 if the folder does not record it
	Old        bool  // its mark was last written long enough ago: see LookAtFolders
}

//go:embed sessionfolders.sh
var sessionFoldersScript string

// MaxFolders is how many folders of one host are looked at.
const MaxFolders = 5000

// LookAtFolders lists the folders of sessions below a host's root, in one round trip. It
// changes none of them, and takes no lock. A mark is old if it was last written longer
// ago than older, in whole minutes.
func LookAtFolders(ctx context.Context, h hostexec.Host, root string, older time.Duration) (SessionFolders, error) {
	out := SessionFolders{Dir: root + "/sessions"}
	res, err := h.Run(ctx, hostexec.Command{Script: sessionFoldersScript,
		Args: []string{out.Dir, strconv.Itoa(int(older / time.Minute)), strconv.Itoa(MaxFolders)}})
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
				return out, fmt.Errorf("list %s on %s: the host said %q", out.Dir, h.Name(), line)
			}
			if !kit.NameRule.MatchString(words[1]) {
				out.Odd++
				continue
			}
			out.Found = append(out.Found, sessionFolder{Session: words[1], Generation: n})
		case len(words) != 1: // part of the name of a file that is not ours
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
		return out, fmt.Errorf("list %s on %s: the host did not come to the end", out.Dir, h.Name())
	}
	for i := range out.Found {
		out.Found[i].Old = old[out.Found[i].Session]
	}
	return out, nil
}
