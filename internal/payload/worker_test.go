package payload

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/realparts"
)

// echo takes two signals and returns their contents and its input.
func echo(ctx workflow.Context, in string) (string, error) {
	ch := workflow.GetSignalChannel(ctx, "say")
	for range 2 {
		var said string
		ch.Receive(ctx, &said)
		in += " " + said
	}
	return in, nil
}

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

func devServer(t *testing.T) *testsuite.DevServer {
	t.Helper()
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: realparts.DevServer(t), Stdout: io.Discard, Stderr: io.Discard, ClientOptions: &client.Options{Logger: quiet},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// The SDK drops a signal that it cannot decode, and fails a workflow whose input it cannot
// decode. With our converter, workflows wait for a worker that has the key.
func TestAWorkerWithoutTheKeyLosesNothing(t *testing.T) {
	server := devServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dial := func(keys ...Key) client.Client {
		t.Helper()
		opts := client.Options{HostPort: server.FrontendHostPort(), Logger: quiet}
		NewCodec("default", keys...).Use(&opts)
		c, err := client.DialContext(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	work := func(c client.Client) worker.Worker {
		t.Helper()
		w := worker.New(c, "q", worker.Options{})
		w.RegisterWorkflow(echo)
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	old, fresh := key(t), key(t)
	first, none, both := dial(old), dial(), dial(fresh, old)

	run, err := first.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "q"}, echo, "input")
	if err != nil {
		t.Fatal(err)
	}
	failed := func(c client.Client, keyID string) {
		t.Helper()
		w := work(c)
		defer w.Stop()
		for ctx.Err() == nil {
			it := first.GetWorkflowHistory(ctx, "w", run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for it.HasNext() {
				ev, err := it.Next()
				if err != nil {
					t.Fatal(err)
				}
				f := ev.GetWorkflowTaskFailedEventAttributes().GetFailure()
				if f == nil {
					continue
				}
				text := NewCodec("default", old, fresh).Message(f)
				if strings.Contains(text, keyID) && strings.Contains(text, "temporal.payload_key") {
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		t.Fatalf("no task failed for want of key %s", keyID)
	}
	// First the key of the input is missing, then the key of a signal.
	failed(none, old.ID())
	if err := both.SignalWorkflow(ctx, "w", "", "say", "encrypted"); err != nil {
		t.Fatal(err)
	}
	failed(first, fresh.ID())
	if err := first.SignalWorkflow(ctx, "w", "", "say", "older"); err != nil {
		t.Fatal(err)
	}
	w := work(both)
	defer w.Stop()
	var got string
	if err := both.GetWorkflow(ctx, "w", "").Get(ctx, &got); err != nil || got != "input encrypted older" {
		t.Errorf("the workflow says %q, %v", got, err)
	}
	if err := none.GetWorkflow(ctx, "w", "").Get(ctx, &got); err == nil || !strings.Contains(err.Error(), fresh.ID()) {
		t.Errorf("a client without the key reads %q, %v", got, err)
	}
}

// noted takes notes as updates until a signal ends it.
func noted(ctx workflow.Context) (notes []string, err error) {
	err = workflow.SetUpdateHandler(ctx, "note", func(_ workflow.Context, text string) (int, error) {
		notes = append(notes, text)
		return len(notes), nil
	})
	if err == nil {
		workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	}
	return notes, err
}

// A replay runs no validators. A worker that cannot read an accepted update must not go on
// without it.
func TestAnAcceptedUpdateIsNotLostOnAWorkerWithoutItsKey(t *testing.T) {
	server := devServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dial := func(keys ...Key) client.Client {
		t.Helper()
		opts := client.Options{HostPort: server.FrontendHostPort(), Logger: quiet}
		NewCodec("default", keys...).Use(&opts)
		c, err := client.DialContext(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	work := func(c client.Client) worker.Worker {
		t.Helper()
		w := worker.New(c, "q", worker.Options{})
		w.RegisterWorkflow(noted)
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	old, fresh := key(t), key(t)
	first, both := dial(old), dial(fresh, old)

	run, err := first.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "q"}, noted)
	if err != nil {
		t.Fatal(err)
	}
	w := work(both)
	h, err := both.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: "w", UpdateName: "note", Args: []any{"kept"}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	w.Stop()

	w = work(first)
	if err := first.SignalWorkflow(ctx, "w", "", "end", nil); err != nil {
		t.Fatal(err)
	}
	for failed := false; !failed; {
		if ctx.Err() != nil {
			t.Fatal("no task failed for want of the update's key")
		}
		it := first.GetWorkflowHistory(ctx, "w", run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			ev, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			if ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED {
				t.Fatal("the workflow went on without the update")
			}
			if f := ev.GetWorkflowTaskFailedEventAttributes().GetFailure(); f != nil && strings.Contains(NewCodec("default", old, fresh).Message(f), fresh.ID()) {
				failed = true
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.Stop()
	w = work(both)
	defer w.Stop()
	var notes []string
	if err := both.GetWorkflow(ctx, "w", "").Get(ctx, &notes); err != nil || len(notes) != 1 || notes[0] != "kept" {
		t.Errorf("the workflow ended with %q, %v", notes, err)
	}
}
