package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"

	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// serve starts a real Temporal server with one session, s1. The test supplies its workflow.
func serve(t *testing.T, session func(workflow.Context) error) (address string) {
	t.Helper()
	path := realparts.DevServer(t)
	srv, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: path, LogLevel: "error", Stdout: io.Discard, Stderr: os.Stderr,
		ClientOptions: &client.Options{Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))},
	})
	if err != nil {
		t.Fatalf("start the Temporal server: %v (run `make build`)", err)
	}
	w := worker.New(srv.Client(), protocol.TaskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(session, workflow.RegisterOptions{Name: protocol.TypeSession})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Stop()
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	_, err = srv.Client().ExecuteWorkflow(context.Background(),
		client.StartWorkflowOptions{ID: protocol.SessionID("s1"), TaskQueue: protocol.TaskQueue}, protocol.TypeSession)
	if err != nil {
		t.Fatal(err)
	}
	return srv.FrontendHostPort()
}

// atHome keeps the user's config, profile and stack out of a test.
func atHome(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "FAIRLEAD_STATE", "FAIRLEAD_CONFIG"} {
		t.Setenv(name, "")
	}
}
