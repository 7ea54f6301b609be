package batch

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
)

// Command is `ctl batch`.
func Command(a *core.App) *cobra.Command {
	return core.Group("batch", "many sessions from one file",
		batchRunCommand(a), checkCommand(a), listCommand(a), showCommand(a), resultsCommand(a),
		cancelCommand(a), retryCommand(a), setCommand(a))
}

const batchFileHelp = `The file is YAML (or JSON lines, an item each):

  window: 20                 # sessions at a time
  stop_after: 5              # failures after which nothing more is started
  retry: {attempts: 3, on: [unreachable, network], wait: 30s}
  prompt: Upgrade {{.module}} to {{.version}}.
  vars: {version: v2}
  defaults: {seed: team, label: [os=linux], budget: tokens=200000}
  items:
    - {id: api, vars: {module: example.com/api}, repo: https://example.com/api.git}
    - {id: web, vars: {module: example.com/web}, sandbox: read-only}

defaults and items take any flag of ctl run by its name. In place of items,
matrix: {go: ["1.25", "1.26"], repo: [api, web]} makes one of each combination.
Nothing is tried again unless retry says so, and never what may have begun a
command or a change, unless retry.after_effects is true.`

func batchRunCommand(a *core.App) *cobra.Command {
	var id string
	var window int
	var detach bool
	var key conn.KeyFlags
	c := &cobra.Command{
		Use: "run FILE|-", Short: "start a batch and show its results as they come", Args: cobra.ExactArgs(1),
		Long: `Starts a session for each item of a file, a window of them at a time, each with one
turn, and prints what becomes of each. All mistakes in the file are told before
anything starts. The batch goes on without ctl: ^C ends the showing alone.

` + batchFileHelp + `

With nobody at the terminal approvals wait for ` + "`ctl approval`" + `; ` + "`ctl batch show`" + `
says which sessions wait. With -o json: a line for each result, and the batch last.`,
		Example: "  ctl batch run upgrade.yaml --window 20\n  ctl batch run upgrade.yaml --id nightly --detach\n  ctl batch run -o json items.jsonl | jq -r 'select(.error) | .item'",
		RunE: func(c *cobra.Command, args []string) error {
			b, err := Read(a, args[0])
			if err != nil {
				return err
			}
			if c.Flags().Changed("window") {
				if window < 1 || window > 500 {
					return core.Usage("--window %d: from 1 to 500", window)
				}
				b.Window = window
			}
			chosen := cmp.Or(id, b.ID)
			k, err := key.Request(protocol.ClaimBatch, chosen, "batch run", b.request(a))
			if err != nil {
				return err
			}
			name := k.IDOr(cmp.Or(chosen, "b-"+core.RandomID()))
			if err := b.Named(name); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			there, err := startBatch(c.Context(), a, t, name, b, k)
			if err != nil {
				return err
			}
			if detach {
				return a.Print().Show(k.Shown(map[string]any{"id": name, "total": len(b.Items)}, there), func(p *core.Printer) { p.Printf("%s\n", name) })
			}
			a.Note("batch %s: %d items, %d at a time", name, len(b.Items), b.Window)
			return followBatch(c.Context(), a, t, name, true)
		},
	}
	c.Flags().StringVar(&id, "id", "", "the batch's `ID` (default: the file's, or a random one)")
	c.Flags().IntVar(&window, "window", 0, "at most `N` sessions at a time (default: the file's, or 20)")
	c.Flags().BoolVar(&detach, "detach", false, "print the batch's id and exit")
	key.Add(c, "batch")
	return c
}

// startBatch starts a batch; there says that the same request already did.
func startBatch(ctx context.Context, a *core.App, t *conn.Conn, id string, b *Local, k *conn.Keyed) (there bool, err error) {
	if there, err = k.Look(ctx, t.Conn); err != nil || there {
		return there, err
	}
	if err := b.CheckNames(ctx, a, t); err != nil {
		return false, err
	}
	spec, err := b.Pack(ctx, a, t, owned.Owner{Kind: owned.Batch, ID: id}.NewFolder())
	if err == nil {
		err = k.Take(ctx, t.Conn, "")
	}
	if err != nil {
		return false, err
	}
	start := flows.BatchStart(id, enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
	k.Mark(&start)
	_, err = t.Start(ctx, "start batch "+id, start, protocol.TypeBatch, batch.Input{ID: id, Spec: spec, By: core.Person()})
	return k.Ours(ctx, t.Conn, err)
}

func checkCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "check FILE|-", Short: "check a batch file without starting anything", Args: cobra.ExactArgs(1), Long: batchFileHelp,
		Example: "  ctl batch check upgrade.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			b, err := Read(a, args[0])
			if err == nil && b.ID != "" {
				err = b.Named(b.ID)
			}
			if err != nil {
				return err
			}
			v := map[string]any{"id": b.ID, "items": len(b.Items), "window": b.Window, "first": b.Items[0].ID, "prompt": b.Items[0].Prompt}
			return a.Print().Show(v, func(p *core.Printer) {
				p.Printf("%d items, %d at a time; the first one, %s, says:\n%s\n", len(b.Items), b.Window, b.Items[0].ID, core.Clean(strings.TrimRight(b.Items[0].Prompt, "\n")))
			})
		},
	}
}

func showCommand(a *core.App) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "show ID", Short: "how far a batch is", Args: cobra.ExactArgs(1), Example: "  ctl batch show nightly\n  ctl batch show nightly --follow",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			v, err := t.ShownBatch(c.Context(), args[0])
			if err != nil {
				return err
			}
			if follow && !protocol.BatchOver(v.State) {
				return watchBatch(c.Context(), a, t, v)
			}
			return a.Print().Show(v, func(p *core.Printer) { showBatch(p, v) })
		},
	}
	c.Flags().BoolVar(&follow, "follow", false, "until it has ended; with -o json a line for each change")
	return c
}

func showBatch(p *core.Printer, v protocol.BatchShown) {
	problem := ""
	if v.Error != nil {
		problem = v.Error.Message
	}
	p.Fields(core.Plain("id"), core.Painted(core.Bold, v.ID), core.Plain("state"), core.Painted(batchColour(v), v.State), core.Plain("why"), core.Plain(v.Why), core.Plain("items"), core.Plain(countsText(v.BatchView)), core.Plain("window"), core.Plain(v.Window),
		core.Plain("rate"), core.Plain(rateOf(v.BatchView)), core.Plain("tokens"), core.Plain(show.Tokens(v.Usage)), core.Plain("trouble"), core.Painted(core.Red, problem), core.Plain("file"), core.Plain(v.File), core.Plain("started by"), core.Plain(cmp.Or(v.Origin, v.By)), core.Plain("created"), core.Plain(v.CreatedAt))
	for _, w := range v.Waiting {
		p.Printf("%s  %s\n", p.Paint(core.Yellow, w.Session), fmt.Sprintf("waits for a person (%d open): `ctl approval list --session %s`", w.Approvals, w.Session))
	}
	for _, f := range v.Failures {
		p.Printf("%s\n", failureLine(p, f))
	}
	if more := v.Failed - len(v.Failures); more > 0 && len(v.Failures) > 0 {
		p.Printf("and %d more failed: `ctl batch results %s`\n", more, v.ID)
	}
}

func failureLine(p *core.Printer, f protocol.BatchFailure) string {
	line := fmt.Sprintf("%s  %s: %s", p.Paint(core.Red, f.Item), core.Clean(f.Kind), core.Clean(core.OneLine(f.Message, 300)))
	if f.Hint != "" {
		line += " (" + core.Clean(core.OneLine(f.Hint, 300)) + ")"
	}
	return line
}

func batchColour(v protocol.BatchShown) core.Style {
	switch {
	case v.Failed > 0:
		return core.Red
	case protocol.BatchOver(v.State):
		return core.Green
	}
	return core.Cyan
}

func countsText(v protocol.BatchView) string {
	out := fmt.Sprintf("%d of %d done", v.Done, v.Total)
	for _, c := range []struct {
		n    int
		what string
	}{{v.Failed, "failed"}, {v.Cancelled, "cancelled"}, {v.Running, "running"}, {v.Retrying, "to be tried again"}, {v.Queued, "queued"}} {
		if c.n > 0 {
			out += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	return out
}

func rateOf(v protocol.BatchView) string {
	if v.Rate == 0 {
		return ""
	}
	out := fmt.Sprintf("%.1f a minute", v.Rate)
	if v.ETA != nil {
		out += ", done " + core.Age(*v.ETA)
	}
	return out
}

func listCommand(a *core.App) *cobra.Command {
	var limit int
	var schedule string
	c := &cobra.Command{
		Use: "list", Short: "batches, newest first", Args: cobra.NoArgs, Example: "  ctl batch list\n  ctl batch list --schedule upgrades",
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return core.Usage("--limit %d: at least 1", limit)
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			var narrow []string
			if err := (conn.OriginFlags{Schedule: schedule}).Narrow(&narrow); err != nil {
				return err
			}
			list, err := batches(c.Context(), t, narrow, limit)
			if err != nil {
				return err
			}
			return core.ShowAll(a.Print(), list, func(p *core.Printer) {
				var rows [][]core.Cell
				for _, v := range list {
					rows = append(rows, []core.Cell{core.Painted(core.Bold, v.ID), core.Painted(batchColour(protocol.BatchShown{BatchView: v}), v.State), core.Plain(countsText(v)), core.Plain(rateOf(v)), core.Plain(v.CreatedAt)})
				}
				p.Table([]string{"ID", "STATE", "ITEMS", "RATE", "CREATED"}, rows)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "at most so many")
	c.Flags().StringVar(&schedule, "schedule", "", "only those that this `schedule` started")
	return c
}

// batches queries the newest batches.
func batches(ctx context.Context, t *conn.Conn, narrow []string, limit int) ([]protocol.BatchView, error) {
	infos, err := t.List(ctx, "list batches", flows.BatchQuery(narrow...), limit)
	if err != nil {
		return nil, err
	}
	return t.Batches(ctx, infos), nil
}

func cancelCommand(a *core.App) *cobra.Command {
	var discard, noWait bool
	c := &cobra.Command{
		Use: "cancel ID", Short: "close a batch's running sessions and start no more", Args: cobra.ExactArgs(1),
		Long: `Closes the sessions of a batch that run, as ` + "`ctl session close`" + ` does, and begins nothing
more. Waits until all of them are cleaned up.`,
		Example: "  ctl batch cancel nightly",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			v, err := t.CancelBatch(c.Context(), args[0], protocol.CancelBatch{By: core.Person(), Discard: discard})
			if err != nil {
				return err
			}
			if !noWait {
				if v, err = awaitBatch(c.Context(), a, t, v.ID, nil); err != nil {
					return err
				}
			}
			return a.Print().Show(v, func(p *core.Printer) { p.Printf("batch %s: %s; %s\n", v.ID, v.State, countsText(v)) })
		},
	}
	c.Flags().BoolVar(&discard, "discard", false, "give up what sessions cannot save")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until all is cleaned up")
	return c
}

func retryCommand(a *core.App) *cobra.Command {
	var rest, detach bool
	c := &cobra.Command{
		Use: "retry ID", Short: "try again what failed of a batch", Args: cobra.ExactArgs(1),
		Long: `Tries the items that failed once more, each in a new session; what ended well is left
alone. What failed may have had effects: see ` + "`ctl batch show`" + ` and the transcripts first.`,
		Example: "  ctl batch retry nightly\n  ctl batch retry nightly --rest   # also items that were cancelled or never started",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			v, err := t.Batch(c.Context(), "retry", args[0])
			if err != nil {
				return err
			}
			if err := t.RetryBatch(c.Context(), v, protocol.RetryBatch{By: core.Person(), Rest: rest}); err != nil {
				return err
			}
			if detach {
				return a.Print().Show(map[string]any{"id": v.ID}, func(p *core.Printer) { p.Printf("%s\n", v.ID) })
			}
			return followBatchFrom(c.Context(), a, t, v.ID, v.Results+1, true)
		},
	}
	c.Flags().BoolVar(&rest, "rest", false, "also items that were cancelled or never started")
	c.Flags().BoolVar(&detach, "detach", false, "do not wait for its end")
	return c
}

func setCommand(a *core.App) *cobra.Command {
	var window int
	c := &cobra.Command{
		Use: "set ID", Short: "change how many sessions of a batch run at a time", Args: cobra.ExactArgs(1), Example: "  ctl batch set nightly --window 50",
		RunE: func(c *cobra.Command, args []string) error {
			if window < 1 || window > 500 {
				return core.Usage("--window %d: from 1 to 500", window)
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			v, err := t.Batch(c.Context(), "set", args[0])
			if err == nil {
				v, err = t.SetBatch(c.Context(), v, protocol.SetBatch{By: core.Person(), Window: window})
			}
			if err != nil {
				return err
			}
			return a.Print().Show(v, func(p *core.Printer) { p.Printf("batch %s: %d at a time\n", v.ID, window) })
		},
	}
	c.Flags().IntVar(&window, "window", 0, "at most `N` sessions at a time")
	return c
}

// batchPoll is the pause between queries.
const batchPoll = 700 * time.Millisecond

// batchOutcome is an error unless all items succeeded.
func batchOutcome(v protocol.BatchView) error {
	if v.Done == v.Total {
		return nil
	}
	e := core.NewError(core.ExitFailed, "batch_"+v.State, "batch %s: %s", v.ID, countsText(v)).Hinted("`ctl batch show %s` tells of failures, `ctl batch retry %s` tries them again", v.ID, v.ID)
	if v.Why != "" {
		e.Message += "; " + v.Why
	}
	return e
}
