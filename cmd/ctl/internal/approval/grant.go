package approval

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func grantCommand(a *core.App) *cobra.Command {
	var f decideFlags
	var part activities.Part
	var all, forSession bool
	c := &cobra.Command{
		Use: "grant ID", Short: "give codex some of the permissions that it asks for", Args: cobra.ExactArgs(1),
		Long: `Gives a part of the permissions that an approval asks for: the network, and paths on the
host that lie within those that are asked for. Codex has them for this turn, or with
--for-session until its process ends; then it asks again. To give everything, also after
a restart, ` + "`ctl approval accept ID --for-session`" + `.` + decideLong,
		Example: `  ctl approval grant release-42.6 --write /srv/out/today --network
  ctl approval grant release-42.6 --all --for-session`,
		RunE: func(c *cobra.Command, args []string) error {
			some := part.Network || len(part.Read)+len(part.Write) > 0
			switch {
			case all && some:
				return core.Usage("give either --all or single permissions, not both")
			case !all && !some:
				return core.Usage("say what is given: --read PATH, --write PATH, --network, or --all").
					Hinted("`ctl approval decline %s` gives nothing", args[0])
			}
			d := f.decide(args[0], "grant")
			if forSession {
				d.Scope = "session"
			}
			return decide(c.Context(), a, d, func(ctx context.Context, t *conn.Conn, seen *protocol.Approval, d *protocol.Decide) error {
				return fillGrant(ctx, a, t, seen, d, part, all)
			})
		},
	}
	c.Flags().StringArrayVar(&part.Read, "read", nil, "let codex read `PATH` on the host, and what lies below it; repeatable")
	c.Flags().StringArrayVar(&part.Write, "write", nil, "let codex write to `PATH` on the host, and to what lies below it; repeatable")
	c.Flags().BoolVar(&part.Network, "network", false, "let codex use the network")
	c.Flags().BoolVar(&all, "all", false, "all that it asks for")
	c.Flags().BoolVar(&forSession, "for-session", false, "until codex's process ends, not only for this turn")
	f.add(c)
	return c
}

// fillGrant sets a decision's grant, which must be a part of the request.
func fillGrant(ctx context.Context, a *core.App, t *conn.Conn, seen *protocol.Approval, d *protocol.Decide, part activities.Part, all bool) error {
	doing := "grant approval " + d.Approval
	if seen == nil {
		return core.Unreachable("%s: the request cannot be read now, and a grant must be a part of it", doing).Hinted("`ctl status` shows the workers")
	}
	ap, err := whole(ctx, a, t, *seen)
	if err != nil {
		return err
	}
	if ap.Kind != "permissions" {
		return core.Usage("%s: a %s asks for no permissions", doing, ap.Kind).Hinted("%s are offered", strings.Join(ap.Offered, ", "))
	}
	if all {
		d.Grant = ap.Permissions
		return nil
	}
	if d.Grant, err = part.Of(ap.Permissions); err != nil {
		return core.Usage("%s: %v", doing, err).Hinted("it asks to %s", strings.Join(activities.PermissionWords(ap.Permissions), ", "))
	}
	return nil
}
