package activities

import (
	"context"
	"fmt"
	"path"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// closingHooks runs the hooks for the end of a session. If the session is parked,
// after_run ran when it parked and does not run again.
func closingHooks(ctx context.Context, s *site, j job, w *Workspace, hide secrets) ([]conversation.Note, error) {
	f, err := lookFolder(ctx, j.host, j.layout.Dir)
	if err != nil || !f.prepared {
		return nil, err
	}
	var hooks []string
	if !f.mark.Parked {
		hooks = append(hooks, HookAfterRun)
	}
	if j.layout.OwnWork && !w.Keep {
		hooks = append(hooks, HookBeforeRemove)
	}
	return lastHooks(ctx, s, j, w, hide, hooks...), nil
}

// keepWork moves a session's own work folder out of the folder that will be removed.
func keepWork(ctx context.Context, h hostexec.Host, l protocol.Layout, c protocol.Claim, fence hostexec.Fence) (string, error) {
	to := path.Join(l.Root, "kept", fmt.Sprintf("%s.%d", c.Session, c.Generation))
	_, err := h.Run(ctx, hostexec.Command{Script: `umask 077
[ -d "$1" ] && [ ! -h "$1" ] || { [ -d "$2" ]; exit; }
mkdir -p -- "${2%/*}" && mv -- "$1" "$2"`, Args: []string{l.WorkDir, to}, Fence: &fence})
	if err != nil {
		return "", fmt.Errorf("keep the work folder as %s: %w", to, err)
	}
	return to, nil
}
