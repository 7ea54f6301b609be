package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
)

// measureBatch runs trivial items through few slots. An item's own time is the
// life of its session, which shares one machine with its peers. The overhead is
// the time between an end and the start of the session that takes the place.
func measureBatch(ctx context.Context, o *options) error {
	const slots = 20
	return inBatchCrowd(ctx, o, slots, func(c *crowd) error {
		b, err := c.batch(ctx, "many", o.items, slots)
		if err != nil {
			return err
		}
		own, over := b.inPlaces(slots)
		fmt.Printf("  an item's own time, its session's whole life       %v (n %d; codex's part of it: milliseconds)\n", own, len(own))
		fmt.Printf("  over that, until the next one takes its place      %v, goal median under 1s (n %d)\n", over, len(over))
		fmt.Printf("  a slot's time for each item                        %v\n", (b.took * slots / time.Duration(o.items)).Round(time.Millisecond))
		b.print()
		return nil
	})
}

// measureWindow runs as many items as a file may have, in a wide window, and
// measures the history of their batch.
func measureWindow(ctx context.Context, o *options) error {
	return inBatchCrowd(ctx, o, o.window, func(c *crowd) error {
		b, err := c.batch(ctx, "wide", o.windowItems, o.window)
		if err != nil {
			return err
		}
		b.print()
		return nil
	})
}

// inBatchCrowd runs on a stack whose hosts have that many slots in total.
func inBatchCrowd(ctx context.Context, o *options, slots int, run func(*crowd) error) (err error) {
	c, err := startCrowd(ctx, o, slots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	for _, h := range c.hosts {
		if _, err := c.lab.Out(ctx, "host", "set", h, "--slots", fmt.Sprint(max(1, slots/len(c.hosts)))); err != nil {
			return err
		}
	}
	return run(c)
}

// A batchRun is the outcome of a batch.
type batchRun struct {
	items, window int
	took          time.Duration
	results       []protocol.BatchResult
	runs          []runSize
	machine, load string
}

// A runSize is the history of one run of a workflow.
type runSize struct{ events, bytes int64 }

// batch runs a batch by ctl, and checks that each item has one result and ended
// well.
func (c *crowd) batch(ctx context.Context, id string, items, window int) (*batchRun, error) {
	var file bytes.Buffer
	head := map[string]any{"window": window, "prompt": "say 3", "defaults": map[string]any{"sandbox": "danger-full-access", "approval-policy": "never"}}
	enc := json.NewEncoder(&file)
	lines := []any{map[string]any{"batch": head}}
	for i := range items {
		lines = append(lines, map[string]any{"id": fmt.Sprintf("i%05d", i)})
	}
	for _, line := range lines {
		if err := enc.Encode(line); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(c.lab.Dir, id+".jsonl")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		return nil, err
	}
	b := &batchRun{items: items, window: window}
	begin, before := time.Now(), processorTime()
	if _, err := c.lab.Out(ctx, "batch", "run", path, "--id", id, "--detach"); err != nil {
		return nil, err
	}
	waited := make(chan struct{})
	if c.verbose {
		go c.progress(ctx, id, waited)
	}
	var end batch.End
	err := c.c.GetWorkflow(ctx, protocol.BatchID(id), "").Get(ctx, &end)
	close(waited)
	if err != nil {
		return nil, err
	}
	b.took, b.machine, b.load = time.Since(begin), processorTime().since(before), loadAverage()
	if v := end.View; v.Done != items {
		return nil, fmt.Errorf("%d of %d items ended well, %d failed: %+v", v.Done, items, v.Failed, v.Failures[:min(3, len(v.Failures))])
	}
	if err := b.read(ctx, c, id); err != nil {
		return nil, err
	}
	b.runs, err = c.sizes(ctx, protocol.BatchID(id))
	return b, err
}

func (c *crowd) progress(ctx context.Context, id string, until <-chan struct{}) {
	for {
		select {
		case <-until:
			return
		case <-ctx.Done():
			return
		case <-time.After(15 * time.Second):
		}
		var v protocol.BatchView
		if q, err := c.c.QueryWorkflow(ctx, protocol.BatchID(id), "", protocol.QueryBatch); err == nil && q.Get(&v) == nil {
			fmt.Printf("    %s: %d done, %d failed, %d running, %.0f a minute; load %s %v\n", time.Now().Format(time.TimeOnly), v.Done, v.Failed, v.Running, v.Rate, loadAverage(), v.Kinds)
		}
	}
}

// read reads the results as a person would.
func (b *batchRun) read(ctx context.Context, c *crowd, id string) error {
	out, err := c.lab.Out(ctx, "batch", "results", id, "-o", "json")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		var r protocol.BatchResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return fmt.Errorf("result %q: %w", line, err)
		}
		seen[r.Item] = true
		b.results = append(b.results, r)
	}
	if len(b.results) != b.items || len(seen) != b.items {
		return fmt.Errorf("%d items have %d results of %d items", b.items, len(b.results), len(seen))
	}
	return nil
}

// inPlaces returns how long each item's session lived, and, for each but the
// first ones, which found a free place, how long after the end of its
// predecessor it began.
func (b *batchRun) inPlaces(places int) (own, over series) {
	var ends []time.Time
	for _, r := range b.results {
		ends = append(ends, r.EndedAt)
		own = append(own, r.EndedAt.Sub(r.StartedAt))
	}
	slices.SortFunc(ends, time.Time.Compare)
	begun := slices.SortedFunc(slices.Values(b.results), func(x, y protocol.BatchResult) int {
		return cmp.Or(x.StartedAt.Compare(y.StartedAt), x.N-y.N)
	})
	for i, r := range begun[min(places, len(begun)):] {
		over = append(over, r.StartedAt.Sub(ends[i]))
	}
	return own, over
}

func (b *batchRun) print() {
	var most runSize
	var events int64
	for _, r := range b.runs {
		most.events, most.bytes, events = max(most.events, r.events), max(most.bytes, r.bytes), events+r.events
	}
	fmt.Printf("  %d items, %d at a time, each with its one result   %v: %.1f a second\n", b.items, b.window, b.took.Round(time.Second), float64(b.items)/b.took.Seconds())
	fmt.Printf("  history of the batch                               %d continued as new; the largest run %d events, %d KiB (Temporal ends one of 51200 events, or 50 MiB); %.1f events an item\n",
		len(b.runs)-1, most.events, most.bytes>>10, float64(events)/float64(b.items))
	fmt.Printf("  the machine                                        load average %s; %s\n", b.load, b.machine)
}

// sizes returns the sizes of all runs of a workflow, newest first.
func (f *fleet) sizes(ctx context.Context, id string) (all []runSize, err error) {
	for run, more := "", true; more; more = run != "" {
		d, err := f.c.DescribeWorkflowExecution(ctx, id, run)
		if err != nil {
			return nil, err
		}
		info := d.GetWorkflowExecutionInfo()
		all = append(all, runSize{info.GetHistoryLength(), info.GetHistorySizeBytes()})
		it := f.c.GetWorkflowHistory(ctx, id, info.GetExecution().GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		first, err := it.Next()
		if err != nil {
			return nil, err
		}
		run = first.GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
	}
	return all, nil
}

// loadAverage returns the machine's load averages of 1, 5 and 15 minutes.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
