package workspaces

import (
	"context"
	"fmt"
	"path"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// ClosingHooks runs the hooks for the end of a session. A parked session has run after_run
// already.
func ClosingHooks(ctx context.Context, s *site.Site, j Job, w *Workspace, hide site.Secrets) ([]conversation.Note, error) {
	f, err := folder.LookFolder(ctx, j.Host, j.Layout.Dir)
	if err != nil || !f.Prepared {
		return nil, err
	}
	var hooks []string
	if !f.Mark.Parked {
		hooks = append(hooks, HookAfterRun)
	}
	if j.Layout.OwnWork && !w.Keep {
		hooks = append(hooks, HookBeforeRemove)
	}
	return LastHooks(ctx, s, j, w, hide, hooks...), nil
}

// KeepWork moves the work folder out of the folder that will be removed.
func KeepWork(ctx context.Context, h hostexec.Host, l protocol.Layout, c protocol.Claim, fence hostexec.Fence) (string, error) {
	to := path.Join(l.Root, "kept", fmt.Sprintf("%s.%d", c.Session, c.Generation))
	_, err := h.Run(ctx, hostexec.Command{Script: `umask 077
[ -d "$1" ] && [ ! -h "$1" ] || { [ -d "$2" ]; exit; }
mkdir -p -- "${2%/*}" && mv -- "$1" "$2"`, Args: []string{l.WorkDir, to}, Fence: &fence})
	if err != nil {
		return "", fmt.Errorf("keep the work folder as %s: %w", to, err)
	}
	return to, nil
}
