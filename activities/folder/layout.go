package folder

import (
	"fmt"
	"path"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// LayoutOf returns a session's folders below root, without a room. If the session has one,
// these names of CODEX_HOME and the work folder are links; Folder.Layout has the room.
func LayoutOf(root, session string) protocol.Layout {
	dir := path.Join(root, "sessions", session)
	return protocol.Layout{
		Root:      root,
		Dir:       dir,
		CodexHome: path.Join(dir, "codex-home"),
		WorkDir:   path.Join(dir, "work"),
		OwnWork:   true,
	}
}

// ServerName names an incarnation's process. Each has its own folder, so that journals do
// not mix.
func ServerName(incarnation int) string {
	if incarnation <= 1 {
		return "app-server"
	}
	return fmt.Sprintf("app-server.%d", incarnation)
}

// ServerDir returns an incarnation's folder.
func ServerDir(l protocol.Layout, incarnation int) string {
	return path.Join(l.Dir, "proc", ServerName(incarnation))
}

// EpochOf returns the epoch for the host.
func EpochOf(c protocol.Claim, attempt int32) hostexec.Epoch {
	return hostexec.Epoch{Generation: c.Generation, Pump: c.Pump, Attempt: int64(attempt)}
}

// FenceOf returns an attempt's fence.
func FenceOf(c protocol.Claim, dir string, attempt int32) hostexec.Fence {
	return hostexec.Fence{Dir: dir, Epoch: EpochOf(c, attempt)}
}

// Inputs is the folder for files of messages. Commands may read it.
func Inputs(l protocol.Layout) string { return path.Join(l.Seen(), "inputs") }

// CheckLayout refuses a layout that neither this release nor an earlier one makes. It must
// come before anything is read or removed there.
func CheckLayout(l protocol.Layout, session string) error {
	if err := kit.CheckID("session", session); err != nil {
		return err
	}
	if l.Room != "" && !roomRule.MatchString(l.Room) {
		return kit.BadInput("session %s: %.40q is not the place of a room", session, l.Room)
	}
	want := LayoutOf(l.Root, session).In(l.Room)
	switch {
	case !path.IsAbs(l.Root) || path.Clean(l.Root) != l.Root || l.Root == "/":
		return kit.BadInput("session %s: root %q is not a clean absolute path", session, l.Root)
	case l.Dir != want.Dir || l.CodexHome != want.CodexHome:
		return kit.BadInput("session %s: folders %q and %q are not below %s", session, l.Dir, l.CodexHome, l.Root)
	case l.OwnWork && l.WorkDir != want.WorkDir:
		return kit.BadInput("session %s: work folder %q is not the session's own", session, l.WorkDir)
	case !path.IsAbs(l.WorkDir):
		return kit.BadInput("session %s: work folder %q is not absolute", session, l.WorkDir)
	}
	return nil
}
