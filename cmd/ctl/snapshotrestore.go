package main

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

func snapshotRestoreCommand(a *app) *cobra.Command {
	var f startFlags
	c := &cobra.Command{
		Use: "restore SNAP", Short: "go on from a snapshot, as a new session", Args: cobra.ExactArgs(1),
		Long: `Starts a new session that begins where the snapshot was taken: with its conversation, as a
fork of the thread, and its work folder. The session it is of is not touched. What is not
said by flags is as it was there: sandbox, approval policy, model, effort, credentials. Any
host with a free slot will do, unless --host or --label says which. Prints the new session's
id; the session waits for a message.`,
		Example: "  ctl snapshot restore release-42.snap-20260102t030405-0a1b2c --host web-2\n  ctl snapshot restore release-42.snap-20260102t030405-0a1b2c --id release-43",
		RunE: func(c *cobra.Command, args []string) error {
			if f.dir != "" {
				return usage("--dir: a snapshot is restored into a folder of its own, never over one of yours")
			}
			opt, err := f.options()
			if err != nil {
				return err
			}
			id, err := f.sessionID()
			if err != nil {
				return err
			}
			return a.restoreSnapshot(c.Context(), args[0], id, opt, c.Flags().Changed)
		},
	}
	f.add(c, "")
	return c
}

func (a *app) restoreSnapshot(ctx context.Context, snap, id string, opt workflows.SessionOptions, given func(flag string) bool) error {
	doing := "restore snapshot " + snap
	m, t, _, err := a.snapshot(ctx, snap)
	if err != nil {
		return err
	}
	if !m.Complete {
		return refused("%s: it is incomplete, and never used", doing).hinted("`ctl snapshot list %s` shows the others", m.Session)
	}
	opt.From = m.ID
	asItWas(&opt, m, given)
	if opt.Seed == "" && opt.SeedPool == "" {
		opt.Seed = a.seedOf(ctx, t, m.Session)
	}
	if err := a.startSession(ctx, t, id, opt); err != nil {
		return err
	}
	return a.print().show(map[string]string{"id": id}, func(p *printer) { p.printf("%s\n", id) })
}

// asItWas takes over how the thread was set up, but for what flags say.
func asItWas(opt *workflows.SessionOptions, m snapshots.Manifest, given func(flag string) bool) {
}

// seedOf is the seed that a session has, or had: none where Temporal has
// forgotten the session.
func (a *app) seedOf(ctx context.Context, t *temporal, session string) string {
	var v workflows.SessionView
	if _, err := t.askEither(ctx, "show session "+session, workflows.SessionID(session), workflows.QueryState, &v); err == nil {
		return v.Seed
	}
	if kept, err := t.kept(ctx, session); err == nil {
		return kept.Seed
	}
	return ""
}
