package hosts

import (
	"context"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A check makes up two sessions below a root folder of its own: one of which commands are
// tried, and one that is prepared after codex has read the profile of the first.
const (
	firstSession = "first"
	laterSession = "later"
)

// madeUpScript makes the folders of session $2 below the root folder $1, as a preparation does,
// with the text $4 in each file. It prints the place of its room, and
// the root folder without links.
const madeUpScript = `umask 077
` + folder.RoomScript + `
mkdir -p -- "$1/sessions/$2" && fl_room "$1" "$2" "$3" || exit 1
seen=$1/rooms/$room/room dir=$1/sessions/$2
mkdir -p -- "$dir/proc" "$seen/codex-home" "$seen/work" "$seen/tmp" || exit 1
[ -z "$4" ] || for f in "$dir/proc/out" "$seen/codex-home/auth.json" "$seen/work/file"; do
	printf '%s\n' "$4" >"$f" || exit 1
done
echo "$room"
cd -P -- "$1" && pwd -P`

// makeUp makes the folders of a made-up session. real is the root folder without links.
func makeUp(ctx context.Context, h hostexec.Host, root, session, text string) (_ protocol.Layout, real string, err error) {
	l := folder.LayoutOf(root, session)
	res, err := h.Run(ctx, hostexec.Command{Script: madeUpScript, Args: []string{root, session, strings.Join(folder.RoomsFor(session), " "), text}})
	if err != nil {
		return l, "", fmt.Errorf("make up a session: %w", err)
	}
	room, real, _ := strings.Cut(string(res.Stdout), "\n")
	l = l.In(room)
	return l, strings.TrimSuffix(real, "\n"), folder.CheckLayout(l, session)
}

// filesOf returns what the commands of other sessions must not read of a made-up session.
func filesOf(l protocol.Layout) []string {
	return []string{
		path.Join(l.CodexHome, "auth.json"), path.Join(l.WorkDir, "file"), path.Join(l.Dir, "proc", "out"), path.Join(l.Dir, "room", "work", "file"), l.Seen(), l.Dir,
	}
}
