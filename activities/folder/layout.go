package folder

import (
	"fmt"
	"path"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// LayoutOf returns the folders of a session below the host's root folder.
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

// ServerName is the name of the process of an incarnation. Each incarnation has a
// folder of its own, so that journals are never mixed.
func ServerName(incarnation int) string {
	if incarnation <= 1 {
		return "app-server"
	}
	return fmt.Sprintf("app-server.%d", incarnation)
}

// ServerDir returns the folder of a session's codex process.
func ServerDir(l protocol.Layout, incarnation int) string {
	return path.Join(l.Dir, "proc", ServerName(incarnation))
}

// EpochOf is the epoch that the host compares.
func EpochOf(c protocol.Claim, attempt int32) hostexec.Epoch {
	return hostexec.Epoch{Generation: c.Generation, Pump: c.Pump, Attempt: int64(attempt)}
}

// FenceOf returns the fence of an attempt of an activity at a session's folder.
func FenceOf(c protocol.Claim, dir string, attempt int32) hostexec.Fence {
	return hostexec.Fence{Dir: dir, Epoch: EpochOf(c, attempt)}
}

// CheckLayout refuses a layout that LayoutOf would not make. It is called before
// anything at the layout's paths is removed or read.
func CheckLayout(l protocol.Layout, session string) error {
	if err := kit.CheckID("session", session); err != nil {
		return err
	}
	want := LayoutOf(l.Root, session)
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
