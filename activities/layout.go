package activities

import (
	"fmt"
	"path"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// layoutOf returns the folders of a session below the host's root folder.
func layoutOf(root, session string) protocol.Layout {
	dir := path.Join(root, "sessions", session)
	return protocol.Layout{
		Root:      root,
		Dir:       dir,
		CodexHome: path.Join(dir, "codex-home"),
		WorkDir:   path.Join(dir, "work"),
		OwnWork:   true,
	}
}

// serverName is the name of the process of an incarnation. Each incarnation has a
// folder of its own, so that journals are never mixed.
func serverName(incarnation int) string {
	if incarnation <= 1 {
		return "app-server"
	}
	return fmt.Sprintf("app-server.%d", incarnation)
}

func serverDir(l protocol.Layout, incarnation int) string {
	return path.Join(l.Dir, "proc", serverName(incarnation))
}

// epochOf is the epoch that the host compares.
func epochOf(c protocol.Claim, attempt int32) hostexec.Epoch {
	return hostexec.Epoch{Generation: c.Generation, Pump: c.Pump, Attempt: int64(attempt)}
}

func fenceOf(c protocol.Claim, dir string, attempt int32) hostexec.Fence {
	return hostexec.Fence{Dir: dir, Epoch: epochOf(c, attempt)}
}

// checkLayout refuses a layout that layoutOf would not make. It is called before
// anything at the layout's paths is removed or read.
func checkLayout(l protocol.Layout, session string) error {
	if err := checkID("session", session); err != nil {
		return err
	}
	want := layoutOf(l.Root, session)
	switch {
	case !path.IsAbs(l.Root) || path.Clean(l.Root) != l.Root || l.Root == "/":
		return badInput("session %s: root %q is not a clean absolute path", session, l.Root)
	case l.Dir != want.Dir || l.CodexHome != want.CodexHome:
		return badInput("session %s: folders %q and %q are not below %s", session, l.Dir, l.CodexHome, l.Root)
	case l.OwnWork && l.WorkDir != want.WorkDir:
		return badInput("session %s: work folder %q is not the session's own", session, l.WorkDir)
	case !path.IsAbs(l.WorkDir):
		return badInput("session %s: work folder %q is not absolute", session, l.WorkDir)
	}
	return nil
}
