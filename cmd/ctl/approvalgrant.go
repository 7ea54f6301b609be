package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

func approvalGrantCommand(a *app) *cobra.Command {
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
				return usage("--all and a part: give one of them")
			case !all && !some:
				return usage("say what is given: --read PATH, --write PATH, --network, or --all").
					hinted("`ctl approval decline %s` gives nothing", args[0])
			}
			d := f.decide(args[0], "grant")
			if forSession {
				d.Scope = "session"
			}
			return a.decide(c.Context(), d, func(ctx context.Context, t *temporal, seen *workflows.Approval, d *workflows.Decide) error {
				return a.fillGrant(ctx, t, seen, d, part, all)
			})
		},
	}
	c.Flags().StringArrayVar(&part.Read, "read", nil, "let codex read `PATH` on the host, and what lies below it; repeatable")
	c.Flags().StringArrayVar(&part.Write, "write", nil, "let codex write to `PATH` on the host, and to what lies below it; repeatable")
	c.Flags().BoolVar(&part.Network, "network", false, "let codex use the network")
	c.Flags().BoolVar(&all, "all", false, "all that it asks for")
	c.Flags().BoolVar(&forSession, "for-session", false, "not for this turn alone")
	f.add(c)
	return c
}

// fillGrant sets the grant of a decision, in codex's JSON, after checking that it is a part
// of the request.
func (a *app) fillGrant(ctx context.Context, t *temporal, seen *workflows.Approval, d *workflows.Decide, part activities.Part, all bool) error {
	doing := "grant approval " + d.Approval
	if seen == nil {
		return unreachable("%s: what is asked for cannot be told just now, and a grant is a part of it", doing).hinted("`ctl status` shows the workers")
	}
	ap, err := a.whole(ctx, t, *seen)
	if err != nil {
		return err
	}
	if ap.Kind != "permissions" {
		return usage("%s: a %s asks for no permissions", doing, ap.Kind).hinted("%s are offered", strings.Join(ap.Offered, ", "))
	}
	if all {
		d.Grant = ap.Permissions
		return nil
	}
	if d.Grant, err = part.Of(ap.Permissions); err != nil {
		return usage("%s: %v", doing, err).hinted("it asks to %s", strings.Join(activities.PermissionWords(ap.Permissions), ", "))
	}
	return nil
}
