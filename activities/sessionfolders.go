package activities

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

// sessionFolders describes the folder that has the folders of all sessions on a host.
type sessionFolders struct {
	dir   string // the folder that has them
	found []sessionFolder
	odd   int  // folders with names that no session can have
	more  bool // there are too many to list all
	// ageless says that the host cannot tell how old a file is.
	ageless bool
}

// A sessionFolder is the folder of a session that has more in it than the files of a
// lock.
type sessionFolder struct {
	session    string
	generation int64 // 0 if the folder does not record it
	old        bool  // its mark was last written long enough ago: see lookAtFolders
}

//go:embed sessionfolders.sh
var sessionFoldersScript string

// maxFolders is how many folders of one host are looked at.
const maxFolders = 5000

// lookAtFolders lists the folders of sessions below a host's root, in one round trip. It
// changes none of them, and takes no lock. A mark is old if it was last written longer
// ago than older, in whole minutes.
func lookAtFolders(ctx context.Context, h hostexec.Host, root string, older time.Duration) (sessionFolders, error) {
	out := sessionFolders{dir: root + "/sessions"}
	res, err := h.Run(ctx, hostexec.Command{Script: sessionFoldersScript,
		Args: []string{out.dir, strconv.Itoa(int(older / time.Minute)), strconv.Itoa(maxFolders)}})
	if err != nil {
		return out, fmt.Errorf("list %s on %s: %w", out.dir, h.Name(), err)
	}
	old := map[string]bool{}
	ended := false
	for line := range strings.Lines(string(res.Stdout)) {
		if mark, ok := strings.CutSuffix(line, "/"+markFile+"\n"); ok {
			old[strings.TrimPrefix(mark, "./")] = true
			continue
		}
		switch words := strings.Fields(line); {
		case len(words) == 3 && words[0] == "folder":
			n, err := strconv.ParseInt(words[2], 10, 64)
			if err != nil {
				return out, fmt.Errorf("list %s on %s: the host said %q", out.dir, h.Name(), line)
			}
			if !nameRule.MatchString(words[1]) {
				out.odd++
				continue
			}
			out.found = append(out.found, sessionFolder{session: words[1], generation: n})
		case len(words) != 1: // part of the name of a file that is not ours
		case words[0] == "odd":
			out.odd++
		case words[0] == "more":
			out.more = true
		case words[0] == "ageless":
			out.ageless = true
		case words[0] == "end":
			ended = true
		}
	}
	if !ended {
		return out, fmt.Errorf("list %s on %s: the host did not come to the end", out.dir, h.Name())
	}
	for i := range out.found {
		out.found[i].old = old[out.found[i].session]
	}
	return out, nil
}
