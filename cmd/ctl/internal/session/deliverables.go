package session

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// A deliverableFile is the JSON of a written deliverable.
type deliverableFile struct {
	protocol.Deliverable
	File string `json:"file"`
}

func deliverablesCommand(a *core.App) *cobra.Command {
	var get, to string
	var version int
	var force bool
	c := &cobra.Command{
		Use: "deliverables ID", Short: "what codex has handed over", Args: cobra.ExactArgs(1),
		Long: `Lists the files that codex has handed over in a session that was started with --tools deliver,
oldest first; they stay when the session is parked or closed. Of those with one name the
newest counts, and the others are its earlier versions.

With --get one of them is written to a file, which is there only once it is whole and its
digest is right, and never over one that is there unless --force. What goes to standard
output (-) is good only if ctl exits 0.`,
		Example: "  ctl session deliverables release-42\n  ctl session deliverables release-42 --get report.md --to report.md\n  ctl session deliverables release-42 --get site.tar --to - | tar -t",
		RunE: func(c *cobra.Command, args []string) error {
			switch given := c.Flags().Changed; {
			case !given("get") && (given("to") || given("version") || force):
				return core.Usage("--to, --version and --force go with --get NAME")
			case given("get") && to == "":
				return core.Usage("--get %s: say with --to where it goes: a file, or - for standard output", get)
			case !given("get"):
				return deliverables(c.Context(), a, args[0])
			}
			return getDeliverable(c.Context(), a, args[0], get, version, to, force)
		},
	}
	c.Flags().StringVar(&get, "get", "", "write the deliverable of this `NAME`")
	c.Flags().StringVar(&to, "to", "", "the `FILE` it is written to; - is standard output")
	c.Flags().IntVar(&version, "version", 0, "not the newest of that name, but its `N`th version")
	c.Flags().BoolVar(&force, "force", false, "write over a file that is there")
	return c
}

func delivered(ctx context.Context, a *core.App, doing, id string) ([]protocol.Deliverable, *api.Client, error) {
	if err := core.CheckName("session id", id); err != nil {
		return nil, nil, err
	}
	_, worker, err := conn.StoreWorker(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	list, err := worker.Deliverables(ctx, id)
	return list, worker, conn.APIFailure(doing, err)
}

func deliverables(ctx context.Context, a *core.App, id string) error {
	list, _, err := delivered(ctx, a, "list what session "+id+" delivered", id)
	if err != nil {
		return err
	}
	return core.ShowAll(a.Print(), list, func(p *core.Printer) {
		var rows [][]core.Cell
		for _, d := range list {
			name := core.Painted(core.Bold, d.Name)
			if !d.Newest {
				name = core.Plain(d.Name)
			}
			rows = append(rows, []core.Cell{name, core.Plain(d.Version), core.Plain(core.Size(d.Bytes)), core.Plain(d.Turn), core.Plain(d.At), core.Plain(d.Digest[:min(len(d.Digest), 12)]), verdictCell(d.Verdict), core.Plain(core.OneLine(d.Description, show.WidestWait))})
		}
		p.Table([]string{"NAME", "VERSION", "SIZE", "TURN", "AT", "SHA-256", "VERDICT", ""}, rows)
	})
}

// verdictCell is empty if nobody has judged the file.
func verdictCell(v *protocol.FileVerdict) core.Cell {
	if v == nil {
		return core.Plain("")
	}
	return core.Painted(verdictColour(v.Outcome), verdictText(*v))
}

func verdictColour(o protocol.Outcome) core.Style {
	switch o {
	case protocol.Accept:
		return core.Green
	case protocol.Revise:
		return core.Yellow
	}
	return core.Red
}

// verdictText says in a line what was said of a file, and by whom.
func verdictText(v protocol.FileVerdict) string {
	if v.Expired {
		return "expired"
	}
	word := map[protocol.Outcome]string{protocol.Accept: "accepted", protocol.Revise: "to be revised"}[v.Outcome]
	return core.OneLine(cmp.Or(word, "declined")+" by "+v.By, 60)
}

// showVerdicts prints a line for each verdict on a delivered file.
func showVerdicts(p *core.Printer, all []protocol.FileVerdict) {
	for _, v := range all {
		p.Printf("verdict %s on %s (SHA-256 %s): %s", v.Approval, core.Clean(v.Name), core.Clean(v.SHA256), p.Paint(verdictColour(v.Outcome), core.Clean(verdictText(v))))
		if text := cmp.Or(v.Comments, v.Reason); text != "" {
			p.Printf(": %s", core.Clean(core.OneLine(text, 200)))
		}
		p.Printf("\n")
	}
}

func getDeliverable(ctx context.Context, a *core.App, id, name string, version int, to string, force bool) error {
	doing := "get " + name + " of session " + id
	switch {
	case to == "-" && a.Flags.Output == "json":
		return core.Usage("%s: --to - and -o json: give one of them", doing)
	case to == "-" && core.IsTerminal(a.Out):
		return core.Usage("%s: standard output is a terminal", doing).Hinted("name a file, or pipe the output to a program")
	}
	place, err := to, error(nil)
	if to != "-" {
		if place, err = core.PlainFile(doing, to); err != nil {
			return err
		}
		if err := core.MayReplace(doing, to, force); err != nil {
			return err
		}
	}
	list, worker, err := delivered(ctx, a, doing, id)
	if err != nil {
		return err
	}
	d, ok := newestOf(list, name, version)
	if !ok {
		return core.NotFound("%s: it delivered no such file", doing).Hinted("`ctl session deliverables %s` lists them", id)
	}
	if to == "-" {
		return conn.ExportFailure(doing, worker.Deliverable(ctx, d, a.Out))
	}
	var failure error
	err = core.WriteWhole(place, func(w io.Writer) error {
		if failure = worker.Deliverable(ctx, d, w); failure == nil {
			failure = core.MayReplace(doing, to, force) // may have been created meanwhile
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
	return a.Print().Show(deliverableFile{d, to}, func(p *core.Printer) {
		p.Printf("%s: %s, its digest is right\n", to, core.Size(d.Bytes))
	})
}

// newestOf finds a deliverable's version, 0 for the newest.
func newestOf(list []protocol.Deliverable, name string, version int) (protocol.Deliverable, bool) {
	for _, d := range list {
		if d.Name == name && (d.Version == version || version == 0 && d.Newest) {
			return d, true
		}
	}
	return protocol.Deliverable{}, false
}
