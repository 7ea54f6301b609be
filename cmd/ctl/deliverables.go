package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/api"
)

// A deliverableFile is the JSON of a deliverable that was written to a file.
type deliverableFile struct {
	activities.Deliverable
	File string `json:"file"`
}

func sessionDeliverablesCommand(a *app) *cobra.Command {
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
				return usage("--to, --version and --force go with --get NAME")
			case given("get") && to == "":
				return usage("--get %s: say with --to where it goes: a file, or - for standard output", get)
			case !given("get"):
				return a.deliverables(c.Context(), args[0])
			}
			return a.getDeliverable(c.Context(), args[0], get, version, to, force)
		},
	}
	c.Flags().StringVar(&get, "get", "", "write the one of this `NAME`")
	c.Flags().StringVar(&to, "to", "", "the `FILE` it is written to; - is standard output")
	c.Flags().IntVar(&version, "version", 0, "not the newest of that name, but its `N`th version")
	c.Flags().BoolVar(&force, "force", false, "write over a file that is there")
	return c
}

func (a *app) delivered(ctx context.Context, doing, id string) ([]activities.Deliverable, *api.Client, error) {
	if err := checkName("session id", id); err != nil {
		return nil, nil, err
	}
	_, worker, err := a.storeWorker(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err := worker.Deliverables(ctx, id)
	return list, worker, apiFailure(doing, err)
}

func (a *app) deliverables(ctx context.Context, id string) error {
	list, _, err := a.delivered(ctx, "list what session "+id+" delivered", id)
	if err != nil {
		return err
	}
	return showAll(a.print(), list, func(p *printer) {
		var rows [][]cell
		for _, d := range list {
			name := painted(bold, d.Name)
			if !d.Newest {
				name = plain(d.Name)
			}
			rows = append(rows, []cell{name, plain(d.Version), plain(size(d.Bytes)), plain(d.Turn), plain(d.At), plain(d.Digest[:min(len(d.Digest), 12)]), plain(oneLine(d.Description, widestWait))})
		}
		p.table([]string{"NAME", "VERSION", "SIZE", "TURN", "AT", "SHA-256", ""}, rows)
	})
}

func (a *app) getDeliverable(ctx context.Context, id, name string, version int, to string, force bool) error {
	doing := "get " + name + " of session " + id
	if to == "-" && (isTerminal(a.out) || a.flags.output == "json") {
		return usage("%s: - writes the file itself: name a file, or give it to a program", doing)
	}
	place, err := to, error(nil)
	if to != "-" {
		if place, err = plainFile(doing, to); err != nil {
			return err
		}
		if err := mayWrite(doing, to, force); err != nil {
			return err
		}
	}
	list, worker, err := a.delivered(ctx, doing, id)
	if err != nil {
		return err
	}
	d, ok := newestOf(list, name, version)
	if !ok {
		return notFound("%s: it delivered no such file", doing).hinted("`ctl session deliverables %s` lists them", id)
	}
	if to == "-" {
		return a.exportFailure(doing, worker.Deliverable(ctx, d, a.out))
	}
	var failure error
	err = writeWhole(place, func(w io.Writer) error {
		if failure = worker.Deliverable(ctx, d, w); failure == nil {
			failure = mayWrite(doing, to, force) // the file may have been created meanwhile
		}
		return failure
	})
	var said *exitError
	switch {
	case errors.As(failure, &said):
		return failure
	case failure != nil:
		return a.exportFailure(doing, failure)
	case err != nil:
		return failed("%s: %v", doing, err)
	}
	return a.print().show(deliverableFile{d, to}, func(p *printer) {
		p.printf("%s: %s, its digest is right\n", to, size(d.Bytes))
	})
}

// newestOf finds a version of a deliverable, the newest if version is 0.
func newestOf(list []activities.Deliverable, name string, version int) (activities.Deliverable, bool) {
	for _, d := range list {
		if d.Name == name && (d.Version == version || version == 0 && d.Newest) {
			return d, true
		}
	}
	return activities.Deliverable{}, false
}

func mayWrite(doing, file string, force bool) error {
	if _, err := os.Lstat(file); force || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return refused("%s: %s is there already", doing, file).hinted("name another file, or give --force")
}
