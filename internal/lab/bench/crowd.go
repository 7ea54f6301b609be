package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/standin"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// A crowd is a fleet of hundreds of stand-in sessions on four hosts.
type crowd struct {
	*fleet
	ids     []string
	metrics string // the worker's metrics address
	verbose bool
	profile string
}

const crowdHosts = 4

func startCrowd(ctx context.Context, o *options, n int) (_ *crowd, err error) {
	address, err := lab.FreeAddress()
	if err != nil {
		return nil, err
	}
	pack := filepath.Join(o.repo, "bin", "standin")
	if err := standin.Pack(ctx, o.repo, pack); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("limits: {pumps: %d, sticky_cache: %d}\nmetrics: {listen: %q, pprof: true, fleet: false}\nlog: {level: warn}\nseeds: {unprotected: allow}\n", n+100, n+100, address)
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Codex: pack, Script: []byte("rules: [{reply: nobody asks}]"), Config: config, Keep: o.keep}, crowdHosts)
	if err != nil {
		return nil, err
	}
	c := &crowd{fleet: f, metrics: address, verbose: o.verbose, profile: o.profile}
	for i := range n {
		c.ids = append(c.ids, fmt.Sprintf("s-%04d", i))
	}
	return c, nil
}

// Close stops the stack and everything that it left; see sweep.
func (c *crowd) Close(ctx context.Context) error {
	c.c.Close()
	err := c.lab.Down(ctx)
	return errors.Join(err, sweep(c.lab), c.lab.Close())
}

// gather starts all sessions with a message and waits until each is in a state.
func (c *crowd) gather(ctx context.Context, text string, state protocol.SessionStatus) error {
	begin, before := time.Now(), processorTime()
	i := 0
	host := map[string]string{}
	for _, id := range c.ids {
		host[id] = c.hosts[i%len(c.hosts)]
		i++
	}
	err := each(c.ids, 32, func(id string) error {
		return c.start(ctx, id, session.Options{Host: host[id], Sandbox: "danger-full-access", ApprovalPolicy: "untrusted"}, text)
	})
	if err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- profile(ctx, c.metrics, c.profile, "start", 10*time.Second) }()
	if err := errors.Join(c.all(ctx, state), <-profiled); err != nil {
		return err
	}
	d := time.Since(begin)
	if c.verbose {
		if err := c.story(ctx, c.ids[0]); err != nil {
			return err
		}
	}
	fmt.Printf("  %d sessions %s after %v: %.1f a second; %s\n", len(c.ids), state, d.Round(time.Second), float64(len(c.ids))/d.Seconds(), processorTime().since(before))
	return nil
}

func (c *crowd) story(ctx context.Context, id string) error {
	it := c.c.GetWorkflowHistory(ctx, protocol.SessionID(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return err
		}
		what := e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
		fmt.Printf("    %s %s %s\n", e.GetEventTime().AsTime().Format("15:04:05.000"), e.GetEventType(), what)
	}
	return nil
}

// all waits until every session is in a state; it reports failures at once.
func (c *crowd) all(ctx context.Context, state protocol.SessionStatus) error {
	last, stuck := int64(-1), time.Now()
	for {
		n, err := c.count(ctx, string(state))
		if err != nil {
			return err
		}
		failed, err := c.count(ctx, string(protocol.Failed))
		switch {
		case err != nil:
			return err
		case failed > 0:
			return fmt.Errorf("%d sessions failed", failed)
		case n >= int64(len(c.ids)):
			return nil
		case n != last:
			last, stuck = n, time.Now()
		case time.Since(stuck) > 3*time.Minute:
			return fmt.Errorf("%d of %d sessions are %s, and no more come", n, len(c.ids), state)
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *crowd) count(ctx context.Context, state string) (int64, error) {
	r, err := c.c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND FairleadState = '%s'", protocol.TypeSession, state)})
	if err != nil {
		return 0, err
	}
	return r.GetCount(), nil
}

// measureWaiting measures stand-in sessions that wait for a decision.
func measureWaiting(ctx context.Context, o *options) (err error) {
	c, err := startCrowd(ctx, o, o.waiting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	st, err := c.status(ctx)
	if err != nil {
		return err
	}
	empty, err := c.look(ctx, st)
	if err != nil {
		return err
	}
	if err := c.gather(ctx, "ask", protocol.Waiting); err != nil {
		return err
	}
	// Let the effects of the start settle: connection pools are swept, memory
	// is returned.
	select {
	case <-time.After(o.rest):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	before := processorTime()
	select {
	case <-time.After(20 * time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	idle := processorTime().since(before)
	if err := profile(ctx, c.metrics, o.profile, "heap", 0); err != nil {
		return err
	}
	full, err := c.look(ctx, st)
	if err != nil {
		return err
	}
	n := int64(len(c.ids))
	fmt.Printf("  sessions with an open request                  %d, goal 2000\n", n)
	fmt.Printf("  memory of the worker                           %s, %s before: %d KiB a session\n", mib(full.worker), mib(empty.worker), (full.worker-empty.worker)/n>>10)
	fmt.Printf("  memory of the Temporal server                  %s, %s before: %d KiB a session\n", mib(full.temporal), mib(empty.temporal), (full.temporal-empty.temporal)/n>>10)
	fmt.Printf("  goroutines outside of the cache of workflows   %d, %d before (in it %d); activities running %.0f\n",
		full.outside, empty.outside, full.goroutines-full.outside, full.activities)
	fmt.Printf("  connections to each host                       %v\n", full.connections)
	fmt.Printf("  at rest                                        %s\n", idle)
	return c.decideSome(ctx, st, 50)
}

// decideSome decides for some of the waiting sessions, one after another.
func (c *crowd) decideSome(ctx context.Context, st lab.Status, n int) error {
	var acked series
	n = min(n, len(c.ids))
	for i := range n {
		id := c.ids[i*len(c.ids)/n]
		a, err := c.waits(ctx, id, 1)
		if err != nil {
			return err
		}
		v, err := c.watch(ctx, id, []string{st.Workers[0].API})
		if err != nil {
			return err
		}
		begin := time.Now()
		_, err = c.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: protocol.SessionID(id), UpdateName: protocol.SignalDecide, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: "accept", By: "bench"}},
		})
		if err == nil {
			late, cancel := context.WithTimeout(ctx, time.Minute)
			err = v.await(late, "the acknowledgement of "+a.ID, func() bool { return !v.acks[protocol.SendID(id, 1)].IsZero() })
			cancel()
		}
		v.mu.Lock()
		acked = append(acked, v.acks[protocol.SendID(id, 1)].Sub(begin))
		v.mu.Unlock()
		v.Close()
		if err != nil {
			return err
		}
	}
	acked.against(fmt.Sprintf("decision among %d, until it is acknowledged", len(c.ids)), 400*time.Millisecond)
	return nil
}

func (c *crowd) status(ctx context.Context) (st lab.Status, err error) {
	err = c.lab.JSON(ctx, &st, "status")
	if err == nil && len(st.Workers) == 0 {
		err = errors.New("no worker runs")
	}
	return st, err
}

// A weight is the resources that a stack uses at one moment.
type weight struct {
	worker, temporal int64
	goroutines       int
	outside          int // without those of the SDK's workflow cache
	activities       float64
	connections      []int
}

func (c *crowd) look(ctx context.Context, st lab.Status) (w weight, err error) {
	m, err := lab.Scrape(ctx, c.metrics)
	if err != nil {
		return w, err
	}
	w.worker, w.temporal = lab.Resident(st.Workers[0].PID), lab.Resident(st.Temporal.PID)
	w.goroutines = int(m["go_goroutines"])
	cached, err := lab.CachedGoroutines(ctx, c.metrics)
	if err != nil {
		return w, err
	}
	w.outside = w.goroutines - cached
	for name, v := range m {
		if worker, kind := "temporal_worker_task_slots_used", "ActivityWorker"; hasAll(name, worker, kind) {
			w.activities += v
		}
	}
	for _, h := range c.hosts {
		_, port, err := net.SplitHostPort(c.lab.Host(h).Address())
		if err != nil {
			return w, err
		}
		w.connections = append(w.connections, connections(port))
	}
	return w, nil
}
