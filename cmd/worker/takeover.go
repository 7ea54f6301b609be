package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/takeover"
)

// Limits on the calls that a takeover makes. If a takeover does not end an attempt within
// these limits, the attempt ends later by its heartbeat timeout, so nothing is lost.
const (
	lookEvery  = 500 * time.Millisecond // how often to look for dead workers
	endsAtOnce = 8                      // attempts ended concurrently
	endsPerSec = 200                    // attempts ended per second; a namespace may make 2,400 calls by default
	endFor     = 30 * time.Second       // the whole takeover from one dead worker
	endPause   = 500 * time.Millisecond // after a call that failed
)

// A successor ends the activity attempts of dead workers of this machine, so that the
// server begins the next attempts without waiting for heartbeat timeouts. A worker without
// --takeover has a successor without a ledger, which does nothing.
type successor struct {
	ledger *takeover.Ledger
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
}

// newSuccessor opens a ledger below root. If root is empty, there is no ledger. If the
// ledger cannot be opened, newSuccessor only logs this, because a worker also works without
// a ledger.
func newSuccessor(root string, log *slog.Logger) *successor {
	s := &successor{log: log}
	if root == "" {
		return s
	}
	ledger, err := takeover.Open(root)
	if err != nil {
		log.Warn("the death of a worker will be noticed only when its heartbeats stop", "err", err)
		return s
	}
	s.ledger = ledger
	return s
}

// begin records an activity in progress, for activities.InProgress; end removes the
// record.
func (s *successor) begin(task []byte) (end func()) {
	if s.ledger == nil {
		return func() {}
	}
	end, err := s.ledger.Begin(task)
	if err != nil {
		s.log.Warn("if this worker dies, one of its activities waits until its heartbeats are missed", "err", err)
	}
	return end
}

// watch looks for dead workers and takes over from them until Close.
func (s *successor) watch(c client.Client, namespace, identity string) {
	if s.ledger == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.done = stop, make(chan struct{})
	go func() {
		defer close(s.done)
		told := ""
		for ctx.Err() == nil {
			dead, err := s.ledger.Dead()
			if err != nil && err.Error() != told {
				told = err.Error()
				s.log.Warn("cannot look for dead workers", "err", err)
			}
			for _, d := range dead {
				s.succeed(ctx, d, c, namespace, identity)
			}
			select {
			case <-ctx.Done():
			case <-time.After(lookEvery):
			}
		}
	}()
}

// succeed ends the activity attempts of one dead worker. Attempts that it cannot end are
// ended by their heartbeat timeouts.
func (s *successor) succeed(ctx context.Context, d *takeover.Dead, c client.Client, namespace, identity string) {
	ctx, cancel := context.WithTimeout(ctx, endFor)
	defer cancel()
	tasks, err := d.Tasks()
	if err != nil {
		s.log.Warn("the activities of a dead worker wait until their heartbeats are missed", "err", err)
	}
	began := time.Now()
	var wg sync.WaitGroup
	queue := make(chan []byte)
	for range min(endsAtOnce, len(tasks)) {
		wg.Go(func() {
			for task := range queue {
				if err := endAttempt(ctx, c, namespace, identity, task); err != nil && ctx.Err() == nil {
					s.log.Warn("an activity of a dead worker waits until its heartbeats are missed", "err", err)
				}
			}
		})
	}
	tick := time.NewTicker(time.Second / endsPerSec)
	defer tick.Stop()
send:
	for _, task := range tasks {
		select {
		case queue <- task:
		case <-ctx.Done():
			break send
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			break send
		}
	}
	close(queue)
	wg.Wait()
	if err := d.Forget(); err != nil {
		s.log.Warn("what a dead worker left cannot be removed", "err", err)
	}
	if len(tasks) > 0 {
		s.log.Info("took over from a worker that died", "activities", len(tasks), "within", time.Since(began).Round(time.Millisecond).String())
	}
}

// endAttempt tells the server that an attempt has failed, and repeats the call until it
// gets through or ctx ends. The task token is for this attempt only. If the server has
// begun another attempt, or the activity has ended, nothing happens. The retry policy
// determines when the next attempt begins.
func endAttempt(ctx context.Context, c client.Client, namespace, identity string, task []byte) error {
	for {
		_, err := c.WorkflowService().RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{
			Namespace: namespace, Identity: identity, TaskToken: task,
			Failure: &failurepb.Failure{
				Message: "the worker that did it died",
				Source:  "fairlead",
				FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
					Type: protocol.ErrTypeWorkerDied,
				}},
			},
		})
		var gone *serviceerror.NotFound
		var wrong *serviceerror.InvalidArgument
		switch {
		case err == nil, errors.As(err, &gone):
			return nil
		case errors.As(err, &wrong):
			return err // the file is damaged, or its token is another server's
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(endPause):
		}
	}
}

// Close ends the watch. Another worker takes over activities that are still in progress.
func (s *successor) Close() {
	if s.ledger == nil {
		return
	}
	if s.stop != nil {
		s.stop()
		<-s.done
	}
	if err := s.ledger.Close(); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Warn("the list of what is in progress cannot be removed", "err", err)
	}
}
