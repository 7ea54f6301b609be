package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

// Evidence is what the judge needs.
type evidence struct {
	items   []item
	strikes []strike
	batch   protocol.BatchView
	results []protocol.BatchResult // one for each line
	effects map[string][]effect    // by item
	most    map[string]int         // largest number of codex processes at a time, by host
	over    map[string][]string    // times with too many, by host
	samples int
	strays  map[string]int            // packets to hosts of other zones, by zone
	logins  map[string]map[string]int // by host, by source address
	gateway map[string]string         // by host: the expected source address
	left    []string
	running int64 // sessions in Temporal
	closed  int64
	moved   int // sessions with another attempt: their host was lost or drained
	hosts   []protocol.HostView
	badly   []string // workers
	wrong   []string // errors in gathering
}

// An effect is a line that a command wrote.
type effect struct {
	what, host string // begin, end
	at         float64
}

// gather collects the evidence when the batch is over. It then drains the
// workers: nothing removes leftovers on hosts after that.
func (f *fleet) gather(ctx context.Context, e *evidence) {
	took := func(err error) {
		if err != nil {
			e.wrong = append(e.wrong, err.Error())
		}
	}
	text, err := f.Out(ctx, "batch", "results", batchName, "-o", "json")
	took(err)
	for line := range strings.Lines(text) {
		var r protocol.BatchResult
		took(json.Unmarshal([]byte(line), &r))
		e.results = append(e.results, r)
	}
	e.effects, err = readEffects(f.effects)
	took(err)
	// The last slots are released only when sessions have reported their ends.
	took(scenario.Again(ctx, "all slots to be free", func(ctx context.Context) error {
		e.hosts = nil
		for _, z := range zoneNames {
			hosts, err := lab.Lines[protocol.HostView](ctx, f.Lab, "host", "list", "--zone", z)
			if err != nil {
				return err
			}
			for _, h := range hosts {
				if f.hosts[h.Name] != nil { // not the worker's own machine
					e.hosts = append(e.hosts, h)
				}
			}
		}
		for _, h := range e.hosts {
			if h.Used > 0 || !atEase(h) || h.Queue > 0 {
				return fmt.Errorf("%s is %s, %d slots are used by %v, %d wait", h.Name, h.State, h.Used, h.Holders, h.Queue)
			}
		}
		return nil
	}))
	took(scenario.Again(ctx, "Temporal to show that all have ended", func(ctx context.Context) (err error) {
		if e.running, err = f.count(ctx, "Running"); err != nil {
			return err
		}
		if e.closed, err = f.count(ctx, "Completed"); err != nil {
			return err
		}
		if e.running > 0 || e.closed != int64(e.batch.Tries) {
			return fmt.Errorf("of %d sessions %d run and %d have ended well", e.batch.Tries, e.running, e.closed)
		}
		return nil
	}))
	e.moved, err = f.movedOn(ctx)
	took(err)
	e.strays, e.logins, e.gateway = map[string]int{}, map[string]map[string]int{}, map[string]string{}
	for name, z := range f.zones {
		e.strays[name], err = z.strays()
		took(err)
	}
	for name, h := range f.hosts {
		e.logins[name], err = h.logins()
		took(err)
		e.gateway[name] = h.zone.gateway()
	}
	f.drainAll()
	e.badly = f.badly
	// sshd ends the sessions of workers that have gone.
	_ = scenario.Again(ctx, "hosts to be empty", func(context.Context) error {
		e.left = nil
		for _, name := range hostNames() {
			e.left = append(e.left, f.hosts[name].left()...)
		}
		if len(e.left) > 0 {
			return errors.New(e.left[0])
		}
		return nil
	}) // leftovers are judged later
}

// atEase reports whether a host accepts sessions. It may be unchecked.
func atEase(h protocol.HostView) bool { return h.State == "ready" || h.State == "unchecked" }

func (f *fleet) drainAll() {
	f.mu.Lock()
	workers := f.workers
	f.workers = nil
	f.mu.Unlock()
	done := make(chan struct{})
	for _, w := range workers {
		go func() { f.drain(w); done <- struct{}{} }()
	}
	for range workers {
		<-done
	}
}

func (f *fleet) movedOn(ctx context.Context) (n int, err error) {
	list, err := lab.Lines[protocol.SessionView](ctx, f.Lab, "session", "list", "--batch", batchName, "--limit", "1000")
	if err != nil {
		return 0, err
	}
	for _, s := range list {
		var v protocol.SessionView
		got, err := f.temporal.QueryWorkflow(ctx, protocol.SessionID(s.ID), "", protocol.QueryState)
		if err == nil {
			err = got.Get(&v)
		}
		if err != nil {
			return n, fmt.Errorf("ask session %s for its attempts: %w", s.ID, err)
		}
		if v.Attempt > 1 {
			n++
		}
	}
	return n, nil
}

// count counts sessions by their workflows' status; visibility lags a little.
func (f *fleet) count(ctx context.Context, status string) (int64, error) {
	r, err := f.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = %q AND ExecutionStatus = %q", "Session", status)})
	if err != nil {
		return 0, err
	}
	return r.GetCount(), nil
}

func readEffects(dir string) (map[string][]effect, error) {
	out := map[string][]effect{}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name(), "effects"))
		if errors.Is(err, os.ErrNotExist) {
			continue // the command never began
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			words := strings.Fields(line)
			if len(words) != 3 || !slices.Contains([]string{"begin", "end"}, words[0]) {
				return nil, fmt.Errorf("item %s left the line %q", f.Name(), line)
			}
			at, err := strconv.ParseFloat(words[2], 64)
			if err != nil {
				return nil, fmt.Errorf("item %s left the line %q: %w", f.Name(), line, err)
			}
			out[f.Name()] = append(out[f.Name()], effect{words[0], words[1], at})
		}
	}
	return out, nil
}
