package host

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/internal/protocol"
)

func checkCommand(a *core.App) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "check NAME", Short: "find out whether sessions can run on a host", Args: cobra.ExactArgs(1),
		Long:    "Connects, probes and prints each capability with ok or why not. Exit 1 if the host cannot run sessions.",
		Example: "  ctl host check web-1",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			a.Begins = true
			out, err := t.CheckHost(c.Context(), zone, args[0])
			if err != nil {
				return err
			}
			err = a.Print().Show(struct {
				Name string `json:"name"`
				protocol.CheckHostResult
			}{args[0], out}, func(p *core.Printer) {
				var rows [][]core.Cell
				for _, k := range out.Checks {
					word, s := "ok", core.Green
					if !k.OK {
						if word, s = "missing", core.Yellow; k.Required {
							word, s = "FAILED", core.Red
						}
					}
					rows = append(rows, []core.Cell{core.Painted(s, word), core.Plain(k.Name), core.Plain(k.Detail), core.Painted(core.Dim, k.Hint)})
				}
				p.Table([]string{"", "CHECK", "FOUND", "WHAT TO DO"}, rows)
			})
			if err == nil && !out.OK {
				if a.Flags.Output != "json" {
					fmt.Fprintf(a.Err, "%s: host %s cannot run sessions (see above)\n", a.Program(), args[0])
				}
				return core.ExitStatus(core.ExitFailed)
			}
			return err
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func provisionCommand(a *core.App) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "provision NAME", Short: "put the pinned codex onto a host", Args: cobra.ExactArgs(1),
		Long:    "Puts the pinned codex onto a host, from the worker. Doing it again changes nothing.",
		Example: "  ctl host provision web-1",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			a.Begins = true
			doing := "provision host " + args[0]
			h, err := t.Host(c.Context(), doing, zone, args[0])
			if err != nil {
				return err
			}
			a.Note("bringing codex to %s …", h.Name)
			var out protocol.ProvisionCodexResult
			if err := t.HostTask(c.Context(), doing, zone, protocol.HostTaskID(h.Name, "provision"), protocol.TypeProvision,
				protocol.HostTaskInput{Zone: zone, Host: *h.Spec}, &out); err != nil {
				return err
			}
			return a.Print().Show(struct {
				Name string `json:"name"`
				protocol.ProvisionCodexResult
			}{h.Name, out}, func(p *core.Printer) {
				p.Printf("codex %s is on %s at %s (%s)\n", out.Version, h.Name, out.Path, out.How)
				if out.Repaired != "" {
					p.Printf("%s\n", core.Clean(out.Repaired))
				}
			})
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func execCommand(a *core.App) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "exec NAME -- COMMAND...", Short: "run a command on a host", Args: cobra.MinimumNArgs(2),
		Long: `Runs a command on a host as a journaled process: it goes on when ctl or a worker
dies. Standard output and standard error come apart; ctl exits as it exits.
Of output that nobody reads the newest 64 MiB of each stream are kept: what is dropped is
told, and ctl then exits 1 where it would have exited 0. With -o json each piece of output
is an object with stream, at and text (or missing, in bytes), and the last object is the result.`,
		Example: "  ctl host exec web-1 -- uname -a",
		RunE: func(c *cobra.Command, args []string) error {
			return exec(c.Context(), a, zone, args[0], args[1:])
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	c.Flags().SetInterspersed(false)
	return c
}

func exec(ctx context.Context, a *core.App, zone, name string, argv []string) error {
	dashed := argv[0] == "--"
	if dashed {
		argv = argv[1:]
	}
	if len(argv) > 0 && !dashed && strings.HasPrefix(argv[0], "-") {
		return core.Usage("%s after the host's name: flags come before it", argv[0]).Hinted("ctl host exec [flags] %s -- COMMAND...", name)
	}
	if len(argv) == 0 {
		return core.Usage("there is no command to run").Hinted("ctl host exec %s -- COMMAND...", name)
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	a.Begins = true
	doing := "exec on host " + name
	h, err := t.Host(ctx, doing, zone, name)
	if err != nil {
		return err
	}
	worker, err := conn.WorkerOf(ctx, a, t, protocol.TaskQueueOf(zone))
	if err != nil {
		return err
	}
	id := "x-" + core.RandomID()
	run, err := t.Start(ctx, doing, client.StartWorkflowOptions{
		ID: protocol.HostTaskID(h.Name, "exec-"+id), TaskQueue: protocol.TaskQueueOf(zone), StaticSummary: doing,
	}, protocol.TypeExec, protocol.ExecInput{ID: id, Host: *h.Spec, Argv: argv})
	if err != nil {
		return err
	}
	var out protocol.ExecResult
	end := make(chan error, 1)
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := t.TaskFailure(doing, t.Result(ctx, doing, run, 0, &out))
		end <- err
		if err != nil {
			stop() // no worker closes the feed of a command that did not end
		}
	}()
	missing, ferr := live.Follow(fctx, a, worker, h.Name, id)
	if err := <-end; err != nil {
		return err
	}
	if ferr != nil {
		return conn.APIFailure(doing, ferr)
	}
	if out.State != "exited" {
		return core.Failed("%s: the command is gone, and its exit status is unknown (%s)", doing, out.State).
			Hinted("it may have done its work: look before you run it again")
	}
	if a.Flags.Output == "json" {
		if err := a.Print().Show(out, nil); err != nil {
			return err
		}
	}
	if out.Code != 0 {
		return core.ExitStatus(out.Code)
	}
	if missing > 0 {
		return core.Failed("%s: the command succeeded, but %d bytes of its output were dropped: they came faster than they were read", doing, missing).
			Hinted("let it write to a file on the host")
	}
	return nil
}
