package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

// followBatch shows results, then the batch.
func followBatch(ctx context.Context, a *core.App, t *conn.Conn, id string, outcome bool) error {
	return followBatchFrom(ctx, a, t, id, 1, outcome)
}

func followBatchFrom(ctx context.Context, a *core.App, t *conn.Conn, id string, from int, outcome bool) error {
	p := a.Print()
	line := progressLine(a)
	defer line.clear()
	show := func(r protocol.BatchResult, raw json.RawMessage) error {
		line.clear()
		if p.JSON {
			return p.Show(raw, nil)
		}
		showResult(p, r)
		return nil
	}
	v, err := awaitBatch(ctx, a, t, id, func(v protocol.BatchView) (err error) {
		if from, err = newResults(ctx, a, t, id, from, show); err != nil {
			return err
		}
		line.say("%s  %s", countsText(v), rateOf(v))
		return needsNobody(ctx, a, t, v)
	})
	if err != nil {
		return err
	}
	line.clear()
	if err := p.Show(v, func(p *core.Printer) { p.Printf("batch %s: %s; %s\n", v.ID, v.State, countsText(v)) }); err != nil || !outcome {
		return err
	}
	if err := batchOutcome(v); err != nil {
		var e = err.(*core.Error)
		e.Silent = p.JSON // already printed
		return e
	}
	return nil
}

func showResult(p *core.Printer, r protocol.BatchResult) {
	took := ""
	if !r.StartedAt.IsZero() {
		took = core.Short(r.EndedAt.Sub(r.StartedAt))
	}
	if r.State == protocol.ItemCompleted {
		p.Printf("%s  %s  %s\n", p.Paint(core.Green, r.Item), took, core.Clean(core.OneLine(r.FinalText, 100)))
		return
	}
	f := protocol.BatchFailure{Item: r.Item, Kind: r.State}
	if r.Error != nil {
		f.Kind, f.Message, f.Hint = r.Error.Kind, r.Error.Message, r.Error.Hint
	}
	p.Printf("%s\n", failureLine(p, f))
}

// needsNobody ends the output with --no-input when all running sessions wait for a person.
// The batch goes on.
func needsNobody(ctx context.Context, a *core.App, t *conn.Conn, v protocol.BatchView) error {
	if !a.Flags.NoInput || v.Running == 0 || v.Running < v.Window && v.Queued > 0 {
		return nil
	}
	shown, err := t.ShownBatch(ctx, v.ID)
	if err != nil || shown.Running == 0 || len(shown.Waiting) < shown.Running {
		return err
	}
	return core.NeedsPerson("batch %s: all %d running sessions wait for a person", v.ID, shown.Running).
		Hinted("`ctl approval list` shows what they ask; the batch goes on")
}

// awaitBatch queries a batch until its end, even without workers.
func awaitBatch(ctx context.Context, a *core.App, t *conn.Conn, id string, each func(protocol.BatchView) error) (protocol.BatchView, error) {
	end := time.Time{}
	if wait := a.Wait(0); wait > 0 {
		end = time.Now().Add(wait)
	}
	var last protocol.BatchView
	for away := false; ; {
		v, err := t.Batch(ctx, "show", id)
		if err == nil && each != nil {
			err = each(v)
		}
		switch {
		case err == nil && protocol.BatchOver(v.State):
			return v, nil
		case err == nil:
			last, away = v, false
		case core.ExitCode(err) != core.ExitUnreachable || ctx.Err() != nil:
			return v, err
		case !away:
			away = true
			a.Note("%v; still waiting", err)
		}
		if !end.IsZero() && time.Now().After(end) {
			return last, core.TimedOut("wait for batch %s: %s", id, countsText(last)).Hinted("it goes on; `ctl batch show %s --follow`", id)
		}
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-time.After(batchPoll):
		}
	}
}

// newResults shows results from number from on, and returns the next.
func newResults(ctx context.Context, a *core.App, t *conn.Conn, id string, from int, show func(protocol.BatchResult, json.RawMessage) error) (int, error) {
	return t.BatchResults(ctx, id, from, func(blob string) ([]byte, error) {
		worker, err := conn.AnyWorker(ctx, a, t)
		if err != nil {
			return nil, err
		}
		part, err := worker.BatchResults(ctx, blob)
		return part, conn.APIFailure("read results of batch "+id, err)
	}, show)
}

func resultsCommand(a *core.App) *cobra.Command {
	var noWait bool
	var from int
	c := &cobra.Command{
		Use: "results ID", Short: "what became of each item, as JSON lines, as they come", Args: cobra.ExactArgs(1),
		Long: `Prints a JSON line for each item that has ended, in the order of their ends, and waits
for those to come until the batch has ended. An item that is tried again by hand
(ctl batch retry) has a line for each time; the last one counts.`,
		Example: "  ctl batch results nightly | jq -r 'select(.state == \"failed\") | .item'",
		RunE: func(c *cobra.Command, args []string) error {
			if from < 1 {
				return core.Usage("--from %d: at least 1", from)
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			p := core.NewPrinter(a.Out, true)
			show := func(_ protocol.BatchResult, raw json.RawMessage) error { return p.Show(raw, nil) }
			v, err := t.Batch(c.Context(), "show results of", args[0])
			if err != nil {
				return err
			}
			if noWait || protocol.BatchOver(v.State) {
				_, err = newResults(c.Context(), a, t, v.ID, from, show)
				return err
			}
			_, err = awaitBatch(c.Context(), a, t, v.ID, func(protocol.BatchView) (err error) {
				from, err = newResults(c.Context(), a, t, v.ID, from, show)
				return err
			})
			return err
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "only those there are by now")
	c.Flags().IntVar(&from, "from", 1, "from the result with this `NUMBER` on")
	return c
}

// watchBatch shows a batch at each change.
func watchBatch(ctx context.Context, a *core.App, t *conn.Conn, v protocol.BatchShown) error {
	p := a.Print()
	line := progressLine(a)
	defer line.clear()
	told := map[string]bool{}
	var shown protocol.BatchShown
	_, err := awaitBatch(ctx, a, t, v.ID, func(protocol.BatchView) error {
		now, err := t.ShownBatch(ctx, v.ID)
		if err != nil {
			return err
		}
		now.ETA, shown.ETA = nil, nil // changes all the time
		changed := now.State != shown.State || now.Results != shown.Results || now.Running != shown.Running || !reflect.DeepEqual(now.Waiting, shown.Waiting)
		shown = now
		if p.JSON {
			if changed {
				return p.Show(now, nil)
			}
			return nil
		}
		for _, f := range now.Failures {
			if id := fmt.Sprint(f.Session); !told[id] {
				told[id] = true
				line.clear()
				p.Printf("%s\n", failureLine(p, f))
			}
		}
		for _, w := range now.Waiting {
			if !told[w.Session+" waits"] {
				told[w.Session+" waits"] = true
				line.clear()
				p.Printf("%s  waits for a person: `ctl approval list --session %s`\n", p.Paint(core.Yellow, w.Session), w.Session)
			}
		}
		if line.tty {
			line.say("%s  %s", countsText(now.BatchView), rateOf(now.BatchView))
		} else if changed {
			p.Printf("%s  %s\n", countsText(now.BatchView), rateOf(now.BatchView))
		}
		return nil
	})
	if err != nil {
		return err
	}
	line.clear()
	if !p.JSON {
		p.Printf("batch %s: %s; %s\n", v.ID, shown.State, countsText(shown.BatchView))
	}
	return nil
}

// A progress is a terminal's line that each report overwrites.
type progress struct {
	app   *core.App
	tty   bool
	dirty bool
}

func progressLine(a *core.App) *progress {
	return &progress{app: a, tty: core.IsTerminal(a.Err) && !a.Flags.Quiet}
}

func (l *progress) say(format string, args ...any) {
	if l.tty {
		l.app.EraseLine()
		fmt.Fprint(l.app.Err, core.Clean(fmt.Sprintf(format, args...)))
		l.dirty = true
	}
}

func (l *progress) clear() {
	if l.dirty {
		l.app.EraseLine()
		l.dirty = false
	}
}
