package main

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/workflows"
)

// hostTask runs a short workflow on a host and waits for its end. If a workflow with this
// id already runs, it waits for that one instead.
func (t *temporal) hostTask(ctx context.Context, doing, zone, id, kind string, in, out any) error {
	run, err := t.start(ctx, doing, client.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.TaskQueueOf(zone),
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            doing,
	}, kind, in)
	if err != nil {
		return err
	}
	err = t.result(ctx, doing, run, 30*time.Minute, out)
	return t.taskFailure(doing, err)
}

// randomID returns a random name of 50 bits.
func randomID() string {
	b := make([]byte, 7)
	rand.Read(b)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))[:10]
}

func hostCheckCommand(a *app) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "check NAME", Short: "find out whether sessions can run on a host", Args: cobra.ExactArgs(1),
		Long:    "Connects, probes and prints each capability with ok or why not. Exit 1 if the host cannot run sessions.",
		Example: "  ctl host check web-1",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			a.begins = true
			doing := "check host " + args[0]
			h, err := t.host(c.Context(), doing, zone, args[0])
			if err != nil {
				return err
			}
			var out activities.CheckHostResult
			if err := t.hostTask(c.Context(), doing, zone, workflows.HostTaskID(h.Name, "check"), workflows.TypeCheck,
				workflows.HostTaskInput{Zone: zone, Host: *h.Spec}, &out); err != nil {
				return err
			}
			err = a.print().show(struct {
				Name string `json:"name"`
				activities.CheckHostResult
			}{h.Name, out}, func(p *printer) {
				var rows [][]cell
				for _, k := range out.Checks {
					word, s := "ok", green
					if !k.OK {
						if word, s = "missing", yellow; k.Required {
							word, s = "FAILED", red
						}
					}
					rows = append(rows, []cell{painted(s, word), plain(k.Name), plain(k.Detail), painted(dim, k.Hint)})
				}
				p.table([]string{"", "CHECK", "FOUND", "WHAT TO DO"}, rows)
			})
			if err == nil && !out.OK {
				if a.flags.output != "json" {
					fmt.Fprintf(a.err, "ctl: host %s cannot run sessions (see above)\n", h.Name)
				}
				return exitStatus(exitFailed)
			}
			return err
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func hostProvisionCommand(a *app) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "provision NAME", Short: "put the pinned codex onto a host", Args: cobra.ExactArgs(1),
		Long:    "Puts the pinned codex onto a host, from the worker. Doing it again changes nothing.",
		Example: "  ctl host provision web-1",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			a.begins = true
			doing := "provision host " + args[0]
			h, err := t.host(c.Context(), doing, zone, args[0])
			if err != nil {
				return err
			}
			a.note("bringing codex to %s …", h.Name)
			var out activities.ProvisionCodexResult
			if err := t.hostTask(c.Context(), doing, zone, workflows.HostTaskID(h.Name, "provision"), workflows.TypeProvision,
				workflows.HostTaskInput{Zone: zone, Host: *h.Spec}, &out); err != nil {
				return err
			}
			return a.print().show(struct {
				Name string `json:"name"`
				activities.ProvisionCodexResult
			}{h.Name, out}, func(p *printer) {
				p.printf("codex %s is on %s at %s (%s)\n", out.Version, h.Name, out.Path, out.How)
			})
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func hostExecCommand(a *app) *cobra.Command {
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
			return a.exec(c.Context(), zone, args[0], args[1:])
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	c.Flags().SetInterspersed(false)
	return c
}

func (a *app) exec(ctx context.Context, zone, name string, argv []string) error {
	dashed := argv[0] == "--"
	if dashed {
		argv = argv[1:]
	}
	if len(argv) > 0 && !dashed && strings.HasPrefix(argv[0], "-") {
		return usage("%s after the host's name: flags come before it", argv[0]).hinted("ctl host exec [flags] %s -- COMMAND...", name)
	}
	if len(argv) == 0 {
		return usage("there is no command to run").hinted("ctl host exec %s -- COMMAND...", name)
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	a.begins = true
	doing := "exec on host " + name
	h, err := t.host(ctx, doing, zone, name)
	if err != nil {
		return err
	}
	worker, err := a.workerOf(ctx, t, workflows.TaskQueueOf(zone))
	if err != nil {
		return err
	}
	id := "x-" + randomID()
	run, err := t.start(ctx, doing, client.StartWorkflowOptions{
		ID: workflows.HostTaskID(h.Name, "exec-"+id), TaskQueue: workflows.TaskQueueOf(zone), StaticSummary: doing,
	}, workflows.TypeExec, activities.ExecInput{ID: id, Host: *h.Spec, Argv: argv})
	if err != nil {
		return err
	}
	var out activities.ExecResult
	end := make(chan error, 1)
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := t.taskFailure(doing, t.result(ctx, doing, run, 0, &out))
		end <- err
		if err != nil {
			stop() // the command never ran to its end, so no worker will close the feed
		}
	}()
	missing, ferr := a.follow(fctx, worker, id)
	if err := <-end; err != nil {
		return err
	}
	if ferr != nil {
		return apiFailure(doing, ferr)
	}
	if out.State != "exited" {
		return failed("%s: the command is gone, and nobody saw how it ended (%s)", doing, out.State).
			hinted("it may have done its work: look before you run it again")
	}
	if a.flags.output == "json" {
		if err := a.print().show(out, nil); err != nil {
			return err
		}
	}
	if out.Code != 0 {
		return exitStatus(out.Code)
	}
	if missing > 0 {
		return failed("%s: the command ended well, but %d bytes of its output are missing: nobody read them in time", doing, missing).
			hinted("let it write to a file on the host")
	}
	return nil
}

// follow prints a command's output as it arrives, with stdout and stderr apart. missing is
// the number of bytes that were dropped because they came faster than they were read.
func (a *app) follow(ctx context.Context, worker *api.Client, id string) (missing int64, err error) {
	next := map[string]int64{}
	for ev, err := range worker.Exec(ctx, id, 0, 0) {
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return missing, nil
			}
			return missing, err
		}
		if ev.Kind != api.KindOutput {
			continue
		}
		if gap := ev.Output.At - next[ev.Output.Stream]; gap > 0 {
			missing += gap
			if err := a.tellGap(ev.Output.Stream, next[ev.Output.Stream], gap); err != nil {
				return missing, err
			}
		}
		next[ev.Output.Stream] = ev.Output.At + int64(len(ev.Output.Data))
		if a.flags.output == "json" {
			piece := map[string]any{"stream": ev.Output.Stream, "at": ev.Output.At, "text": string(ev.Output.Data)}
			if err := a.print().show(piece, nil); err != nil {
				return missing, err
			}
			continue
		}
		w := a.out
		if ev.Output.Stream == "stderr" {
			w = a.err
		}
		if _, err := w.Write(ev.Output.Data); err != nil {
			return missing, fmt.Errorf("write the output: %w", err)
		}
	}
	return missing, nil
}

// tellGap reports that a part of a command's output is missing.
func (a *app) tellGap(stream string, at, missing int64) error {
	if a.flags.output == "json" {
		return a.print().show(map[string]any{"stream": stream, "at": at, "missing": missing}, nil)
	}
	a.note("… %d bytes of %s were dropped: they came faster than they were read …", missing, stream)
	return nil
}
