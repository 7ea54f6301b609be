package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/fairlead/internal/cluster"
)

// In such a namespace every workflow task would fail, again and again.
func TestAWorkerRefusesANamespaceWithoutItsSearchAttributesAndSaysWhatToDo(t *testing.T) {
	address := temporalIn(t, t.TempDir())
	var c client.Client
	var err error
	wait(t, "Temporal", func() bool {
		c, err = client.DialContext(t.Context(), client.Options{HostPort: address, Namespace: "bare"})
		return err == nil
	})
	t.Cleanup(c.Close)
	if _, err := c.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{Namespace: "bare", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, fmt.Sprintf("temporal: {address: %q, namespace: bare}\n", address))
	w := runWorker(t, "--config", p.config)
	<-w.done
	if code, log := w.ProcessState.ExitCode(), w.log.String(); code != 1 || !strings.Contains(log, "FairleadState (Keyword)") || !strings.Contains(log, "ctl cluster check") {
		t.Errorf("exit status %d, and it says:\n%s", code, log)
	}
	if _, err := cluster.Prepare(t.Context(), c, "bare"); err != nil {
		t.Fatal(err)
	}
	runWorker(t, "--config", p.config)
	wait(t, "the worker is ready", func() bool {
		st, err := p.status(t)
		return err == nil && st.Ready
	})
}
