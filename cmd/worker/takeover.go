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

// Limits of a takeover. Attempts beyond them end by their heartbeat timeout.
const (
	lookEvery  = 500 * time.Millisecond
	endsAtOnce = 8                      // concurrently
	endsPerSec = 200                    // a namespace may make 2,400 calls by default
	endFor     = 30 * time.Second       // from one dead worker
	endPause   = 500 * time.Millisecond // after a failed call
)

// A successor ends the activity attempts of this machine's dead workers, so that the next
// attempts begin at once. Without --takeover it has no ledger and does nothing.
type successor struct {
	ledger *takeover.Ledger
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
}

// newSuccessor opens a ledger below root, if any. It only logs an error, because a worker
// works without a ledger.
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

// begin records an activity in progress. end removes the record.
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

// watch takes over from dead workers until Close.
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

// endAttempt tells the server that an attempt has failed, until the call gets through or
// ctx ends. The task token is for this attempt: a later attempt is not ended. The retry
// policy says when the next attempt begins.
func endAttempt(ctx context.Context, c client.Client, namespace, identity string, task []byte) error {
	for {
		_, err := c.WorkflowService().RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{
			Namespace: namespace, Identity: identity, TaskToken: task,
			Failure: &failurepb.Failure{
				Message: "the worker that ran this activity died",
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
			return err // a damaged file, or another server's token
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(endPause):
		}
	}
}

// Close leaves activities in progress to another worker.
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
