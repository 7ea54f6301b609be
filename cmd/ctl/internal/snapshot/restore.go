package snapshot

import (
	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/session"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
)

func restoreCommand(a *core.App) *cobra.Command {
	var f start.Flags
	c := &cobra.Command{
		Use: "restore SNAP", Short: "go on from a snapshot, as a new session", Args: cobra.ExactArgs(1),
		Long: `Starts a new session that begins where the snapshot was taken: with its conversation, as a
fork of the thread, and its work folder. The session it is of is not touched. What is not
said by flags is as it was there: sandbox, policy, approval policy, model, effort, credentials and how
they are given, --on-interrupt, --on-auth, --snapshot, --snapshot-exclude and the bounds of
--budget, of which the new session has used nothing; all else begins with its default. --sandbox read-only takes over no --write, and danger-full-access nothing of it. A later session of the same id is not asked for what the snapshot does not
say: then --seed, and --policy where it had one, and for some --sandbox, --approval-policy and --budget, are yours to say. Any host with a free slot will do, unless --host or --label says which.
Prints the new session's id; the session waits for a message.`,
		Example: "  ctl snapshot restore release-42.snap-20260102t030405-0a1b2c --host web-2\n  ctl snapshot restore release-42.snap-20260102t030405-0a1b2c --id release-43",
		RunE: func(c *cobra.Command, args []string) error {
			opt, id, err := session.GoesOn(a, &f, c.Flags().Changed)
			if err != nil {
				return err
			}
			m, t, _, err := snapshot(c.Context(), a, args[0])
			if err != nil {
				return err
			}
			return session.RestoreSnapshot(c.Context(), a, t, m, id, opt, f.Budget, c.Flags().Changed)
		},
	}
	f.Add(c, "")
	session.GoesOnFlags(c)
	return c
}
