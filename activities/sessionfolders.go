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

// sessionFolders is what lies in the folder of all sessions of a host.
type sessionFolders struct {
	dir   string // where they lie
	found []sessionFolder
	odd   int  // folders with names that no session can have
	more  bool // there are too many to be listed
	// ageless says that the host cannot tell how old a file is.
	ageless bool
}

// A sessionFolder is the folder of a session, with more in it than a lock makes.
type sessionFolder struct {
	session    string
	generation int64 // 0 if the folder does not record it
	old        bool  // its mark was not written for a while
}

//go:embed sessionfolders.sh
var sessionFoldersScript string

// maxFolders is how many folders of one host are looked at.
const maxFolders = 5000

// lookAtFolders lists the folders of sessions below a host's root, in one round trip. It
// touches none, not even their locks. A mark is old if it was not written for the time
// older, which is counted in minutes.
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
		case len(words) != 1: // part of the name of something that is none of ours
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
