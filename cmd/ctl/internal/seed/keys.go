package seed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

func rotateKeysCommand(a *core.App) *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use: "rotate-keys", Short: "encrypt the whole store for the recipients that the config names now", Args: cobra.NoArgs,
		Long: `Seeds first, then all else that is in the store, each blob in its place: at every
moment the old one is there or the new one, whole. Sessions go on. Killed at any point
it is run again; what is done is found done. To change the store's key:

  1. add the new identity to the file store.identity of every worker, beside the old
     one, name the new recipients in store.recipients, and restart the workers
  2. ctl seed rotate-keys
  3. when it says that nothing needs the old identity, take it out of the files

--check only looks. Exit 1 if something is not for exactly these recipients, or is
not to be opened by their identities alone; exit 6 if the identity of a seed is
missing (nothing is changed then), or workers encrypt for different recipients.`,
		Example: "  ctl seed rotate-keys\n  ctl seed rotate-keys --check -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			return rotateKeys(c.Context(), a, check)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "only say whom the store is encrypted for")
	return c
}

func rotateKeys(ctx context.Context, a *core.App, check bool) error {
	doing, id := "rotate keys", protocol.RotateKeysID
	if check {
		doing, id = "check keys", protocol.CheckKeysID
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	conf, err := a.Config()
	if err != nil {
		return err
	}
	workers, statuses, err := conn.Workers(ctx, a, t)
	if err != nil {
		return err
	}
	if err := sameRecipients(doing, workers, statuses); err != nil {
		return err
	}
	run, err := t.Start(ctx, doing, client.StartWorkflowOptions{
		ID: id, TaskQueue: protocol.TaskQueueOf(conf.Zone), StaticSummary: doing,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, protocol.TypeRotate, protocol.RotateKeysInput{Check: check})
	if err != nil {
		return err
	}
	told, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn.TellProgress(told, t, id, func(now protocol.RotateKeysProgress) string {
			if now.Total == 0 {
				return ""
			}
			return fmt.Sprintf("%s: %d of %d blobs, %d encrypted anew, %d failed", now.Step, now.Done, now.Total, now.Renewed, now.Failed)
		})
	}()
	var out protocol.RotateKeysResult
	err = t.Result(ctx, doing, run, 0, &out)
	stop()
	<-done
	if err = t.TaskFailure(doing, err); err != nil {
		return err
	}
	if err := a.Print().Show(out, func(p *core.Printer) { printRotation(p, out) }); err != nil {
		return err
	}
	if !out.Unneeded {
		return core.NewError(core.ExitFailed, "keys_left", "%s: %d of %d blobs are not for exactly these recipients, %d of them failed", doing, out.Left, out.Blobs, out.Failed).
			Hinted("%s", leftHint(out))
	}
	return nil
}

func leftHint(out protocol.RotateKeysResult) string {
	switch {
	case out.Failed > 0:
		return "the failures say why; an identity that is missing goes back into store.identity for a while, a damaged blob is imported again or deleted"
	case out.Check:
		return "`ctl seed rotate-keys` encrypts them anew"
	}
	return "workers of the old config may have written them: restart those, then run it again"
}

// sameRecipients refuses a rotation while workers encrypt for different recipients: one
// would encrypt for the old ones again.
func sameRecipients(doing string, workers []conn.WorkerView, statuses []api.Status) error {
	for _, st := range statuses[min(1, len(statuses)):] {
		if !slices.Equal(slices.Sorted(slices.Values(st.Recipients)), slices.Sorted(slices.Values(statuses[0].Recipients))) {
			return core.Refused("%s: the workers %s and %s encrypt for different recipients", doing, statuses[0].Identity, st.Identity).
				Hinted("give every worker the same store.recipients and restart it")
		}
	}
	return nil
}

func printRotation(p *core.Printer, out protocol.RotateKeysResult) {
	if !out.Check {
		p.Printf("%d blobs encrypted anew, %d were so already, %d were deleted meanwhile\n", out.Renewed, out.Kept, out.Gone)
	}
	p.Fields(core.Plain("recipients"), core.Plain(strings.Join(out.Recipients, ", ")),
		core.Plain("blobs"), core.Plain(fmt.Sprintf("%d, %d of them of seeds", out.Blobs, out.Seeds)))
	for _, f := range out.Failures {
		p.Printf("%s %s\n", p.Paint(core.Red, "failed"), core.Clean(f.Error))
	}
	if n := out.Failed - len(out.Failures); n > 0 {
		p.Printf("… and %d more\n", n)
	}
	switch {
	case !out.Unneeded:
		for _, key := range out.LeftKeys {
			p.Printf("%s   %s\n", p.Paint(core.Yellow, "left"), key)
		}
		if n := out.Left - len(out.LeftKeys); n > 0 {
			p.Printf("… and %d more\n", n)
		}
	case len(out.Former) == 0:
		p.Printf("every blob is for these recipients, and opened by their identities alone\n")
	default:
		p.Printf("every blob is opened by the identities of these recipients alone\n")
		for _, former := range out.Former {
			p.Printf("%s the identity of %s: take it out of store.identity of every worker\n", p.Paint(core.Green, "no longer needed"), former)
		}
	}
}
