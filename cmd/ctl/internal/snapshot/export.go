package snapshot

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
)

// A snapshotFile is an export's JSON.
type snapshotFile struct {
	ID   string `json:"id"`
	File string `json:"file"`
	api.Exported
}

func exportCommand(a *core.App) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "export SNAP FILE|-", Short: "a snapshot as a plain tar archive", Args: cobra.ExactArgs(2),
		Long: `Writes a snapshot as a plain tar archive: manifest.json, rollouts/ (the conversation) and
work/ (the work folder). Of a session with --snapshot git, work/ has what is new or changed
there, and git/ the commits that upstream does not have (a pack) with what they belong on
(state.json); 'ctl snapshot restore' puts it all together. The archive is not encrypted, and
for your user alone (0600). It is there under its name only once it is whole and every digest in
it was right, and never over a file that is there unless --force. What goes to standard output (-)
is good only if ctl exits 0.`,
		Example: "  ctl snapshot export release-42.snap-20260102t030405-0a1b2c release-42.tar\n  ctl snapshot export release-42.snap-20260102t030405-0a1b2c - | tar -x work/",
		RunE: func(c *cobra.Command, args []string) error {
			return exportSnapshot(c.Context(), a, args[0], args[1], force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite a file that is there")
	return c
}

func exportSnapshot(ctx context.Context, a *core.App, id, file string, force bool) error {
	doing := "export snapshot " + id
	if err := checkSnapshot(id); err != nil {
		return err
	}
	if file == "-" && (core.IsTerminal(a.Out) || a.Flags.Output == "json") {
		return core.Usage("%s: - writes a tar archive to standard output: name a file, or pipe it to a program", doing)
	}
	place, err := "", error(nil)
	if file != "-" {
		if place, err = core.PlainFile(doing, file); err != nil {
			return err
		}
		if err := core.MayReplace(doing, file, force); err != nil {
			return err
		}
	}
	_, worker, err := conn.StoreWorker(ctx, a)
	if err != nil {
		return err
	}
	if file == "-" {
		_, err := worker.ExportSnapshot(ctx, id, a.Out)
		return conn.ExportFailure(doing, err)
	}
	var got api.Exported
	var failure error
	err = core.WriteWhole(place, func(w io.Writer) error {
		if got, failure = worker.ExportSnapshot(ctx, id, w); failure == nil {
			failure = core.MayReplace(doing, file, force) // may have been created meanwhile
		}
		return failure
	})
	var said *core.Error
	switch {
	case errors.As(failure, &said):
		return failure
	case failure != nil:
		return conn.ExportFailure(doing, failure)
	case err != nil:
		return core.Failed("%s: %v", doing, err)
	}
	return a.Print().Show(snapshotFile{id, file, got}, func(p *core.Printer) {
		p.Printf("%s: %s, every digest is right\n", file, core.Size(got.Bytes))
	})
}
