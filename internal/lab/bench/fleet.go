package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/stack"
	"fairlead.dev/fairlead/workflows/session"
)

// A fleet is a stack with many sessions. It uses a Temporal client, as any
// other program would: starting ctl for each session would measure ctl.
type fleet struct {
	lab   *lab.Lab
	c     client.Client
	hosts []string
}

// newFleet starts the hosts with a nice value: real hosts would not take
// processor time from the worker and the server.
func newFleet(ctx context.Context, opts lab.Options, hosts int) (*fleet, error) {
	l, err := lab.New(ctx, opts)
	if err != nil {
		return nil, err
	}
	f := &fleet{lab: l}
	if f.c, err = l.Temporal(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for i := range hosts {
		name := fmt.Sprintf("web-%d", i+1)
		// sshd's default limit of unauthenticated connections.
		_, err := l.AddHost(ctx, name, hosttest.Options{Nice: 5, Config: []string{"MaxStartups 10:30:100"}}, "--slots", "1000")
		if err == nil {
			_, err = l.Out(ctx, "host", "provision", name)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.hosts = append(f.hosts, name)
	}
	return f, nil
}

func (f *fleet) Close() error {
	f.c.Close()
	return f.lab.Close()
}

func (f *fleet) start(ctx context.Context, id string, opt session.Options, text string) error {
	_, err := f.c.SignalWithStartWorkflow(ctx, protocol.SessionID(id), protocol.SignalMessage, protocol.Message{ID: "m-" + id, Text: text, By: "bench"},
		client.StartWorkflowOptions{TaskQueue: protocol.TaskQueueOf("")}, protocol.TypeSession, session.Input{ID: id, Options: opt})
	if err != nil {
		return fmt.Errorf("start session %s: %w", id, err)
	}
	return nil
}

func (f *fleet) detail(ctx context.Context, id string) (protocol.SessionDetail, error) {
	var d protocol.SessionDetail
	v, err := f.c.QueryWorkflow(ctx, protocol.SessionID(id), "", protocol.QueryDetail)
	if err == nil {
		err = v.Get(&d)
	}
	return d, err
}

func (f *fleet) close(ctx context.Context, ids []string) error {
	return each(ids, 16, func(id string) error {
		err := f.c.SignalWorkflow(ctx, protocol.SessionID(id), "", protocol.SignalClose, protocol.Close{By: "bench", Discard: true})
		if err != nil {
			return err
		}
		return f.c.GetWorkflow(ctx, protocol.SessionID(id), "").Get(ctx, nil)
	})
}

func each(ids []string, n int, do func(string) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	room := make(chan struct{}, n)
	for _, id := range ids {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if err := do(id); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if len(errs) < 5 {
					errs = append(errs, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f *fleet) workers() ([]stack.Worker, error) {
	info, err := stack.Read(f.lab.State)
	if err != nil {
		return nil, err
	}
	return info.Workers, nil
}

// A viewer watches one session at every worker of the stack: the worker that is
// attached sends the text that streams.
type viewer struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	pos  map[string]int64     // guarded by mu, like all below: how far each item was seen
	at   []time.Time          // when new text came
	acks map[string]time.Time // when a send was known to have arrived
	news chan struct{}        // receives a value when something came
}

func (f *fleet) watch(ctx context.Context, id string, endpoints []string) (*viewer, error) {
	ctx, stop := context.WithCancel(ctx)
	v := &viewer{stop: stop, pos: map[string]int64{}, acks: map[string]time.Time{}, news: make(chan struct{}, 1)}
	for _, e := range endpoints {
		c, err := api.NewClient(e, api.ClientOptions{Patience: 10 * time.Minute})
		if err != nil {
			stop()
			return nil, err
		}
		v.wg.Go(func() {
			defer c.Close()
			for ctx.Err() == nil {
				for ev, err := range c.Feed(ctx, id, 1) {
					if err != nil {
						break
					}
					v.take(ev)
				}
			}
		})
	}
	return v, nil
}

func (v *viewer) take(ev api.Event) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case ev.Kind == api.KindDelta:
		d := ev.Delta
		if end := d.At + int64(len(d.Text)); end > v.pos[d.Item] {
			v.pos[d.Item] = end
			v.at = append(v.at, now)
		}
	case ev.Kind == api.KindEntry && ev.Entry.Type == "assistant":
		// Short words may be complete before any delta is seen.
		if e := ev.Entry; v.pos[e.Item] == 0 && e.Item != "" {
			v.pos[e.Item] = int64(len(e.Text))
			v.at = append(v.at, now)
		}
	case ev.Kind == api.KindState && ev.State != nil:
		for _, id := range ev.State.Acknowledged {
			if _, ok := v.acks[id]; !ok {
				v.acks[id] = now
			}
		}
	}
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// await waits until ok returns true. It checks whenever something arrives.
func (v *viewer) await(ctx context.Context, what string, ok func() bool) error {
	for {
		v.mu.Lock()
		yes := ok()
		v.mu.Unlock()
		if yes {
			return nil
		}
		select {
		case <-v.news:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, context.Cause(ctx))
		}
	}
}

// after returns when text first arrived after t; zero if none has.
func (v *viewer) after(t time.Time) time.Time {
	for _, at := range v.at {
		if at.After(t) {
			return at
		}
	}
	return time.Time{}
}

func (v *viewer) Close() {
	v.stop()
	v.wg.Wait()
}
