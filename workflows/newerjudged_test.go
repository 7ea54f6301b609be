package workflows

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/newer"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

// judgesNewer makes the worker an older one, that knows no feature of its release and judges
// starts. records gets what it refused.
func (w *world) judgesNewer(bindings string, records *[]audit.Record) {
	w.guard(bindings, "ann", "bob")
	leaves := newer.Interceptor(newer.Options{Logger: slog.New(slog.DiscardHandler)})
	w.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: 10 * time.Second,
		Interceptors: []interceptor.WorkerInterceptor{
			authority.Interceptor(w.keeper, authority.Options{Refused: func(r audit.Record) { *records = append(*records, r) }, Leave: leaves.Leave}), leaves,
		},
	})
}

// Whoever may write to Temporal can start a workflow with a field that no worker knows. It is
// refused, on record, as any start that does not count, and does not wait for a newer worker.
func TestAStartThatDoesNotCountIsRefusedAlsoIfItLooksNewer(t *testing.T) {
	field := map[string]any{"id": "s1", "options": map[string]any{"tenant": "blue", "host": "web-1", "seed": "team"}, "of_tomorrow": map[string]any{"a": 1}}
	feature := session.Input{ID: "s1", Requires: []string{"of_tomorrow"}, Options: session.Options{Tenant: "blue", Host: "web-1"}}
	for name, test := range map[string]struct {
		start func(w *world) any
		why   string // empty: it waits for a newer worker
	}{
		"unsigned, a field":           {func(*world) any { return field }, "signed commands only"},
		"unsigned, a feature":         {func(*world) any { return feature }, "signed commands only"},
		"of who may not, a field":     {func(w *world) any { return w.by("bob", protocol.TypeSession, field) }, "bob"},
		"of who may not, a feature":   {func(w *world) any { return w.by("bob", protocol.TypeSession, feature) }, "bob"},
		"of a stranger, a field":      {func(w *world) any { return w.by("eve", protocol.TypeSession, field) }, "signature"},
		"for another workflow":        {func(w *world) any { return w.byFor("ann", protocol.SessionID("s2"), protocol.TypeSession, field) }, "signature"},
		"changed after the signature": {func(w *world) any { return changed(w.by("ann", protocol.TypeSession, field)) }, "signature"},
		"a field":                     {func(w *world) any { return w.by("ann", protocol.TypeSession, field) }, ""},
		"a feature":                   {func(w *world) any { return w.by("ann", protocol.TypeSession, feature) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var records []audit.Record
			w.judgesNewer(team, &records)
			w.ExecuteWorkflow(protocol.TypeSession, test.start(w))
			err := w.GetWorkflowError()
			if len(w.used) > 0 {
				t.Errorf("it claimed %v", w.used)
			}
			if test.why == "" {
				if err == nil || !strings.Contains(err.Error(), "waits for a newer worker") || !strings.Contains(err.Error(), "of_tomorrow") || !strings.Contains(err.Error(), "a signed start counts for 24h5m0s") || len(records) > 0 {
					t.Errorf("a start that counts: %v, on record %+v", err, records)
				}
				return
			}
			if err == nil || typeOf(err) != protocol.RefusedForbidden || !strings.Contains(err.Error(), test.why) {
				t.Errorf("%v, want a refusal with %q", err, test.why)
			}
			records = append(records, recorded(t, w.fake.records, nil)...) // a session's own refusal is in its chain
			if len(records) != 1 || records[0].Outcome != audit.Refused || records[0].Object != protocol.SessionID("s1") || !strings.Contains(records[0].Reason, test.why) {
				t.Errorf("on record: %+v", records)
			}
		})
	}
}

// changed returns a signed start with another name of the field that is not known.
func changed(raw json.RawMessage) json.RawMessage {
	return json.RawMessage(strings.Replace(string(raw), `"of_tomorrow":`, `"of_today":`, 1))
}

// The interceptor judges starts of other types.
func TestABatchThatDoesNotCountIsRefusedAlsoIfItLooksNewer(t *testing.T) {
	field := map[string]any{"id": "b1", "of_tomorrow": 1}
	for name, test := range map[string]struct {
		start func(w *world) any
		why   string
	}{
		"unsigned":       {func(*world) any { return field }, "signed commands only"},
		"of who may not": {func(w *world) any { return w.byFor("bob", protocol.BatchID("b1"), protocol.TypeBatch, field) }, "bob"},
		"another field": {func(w *world) any {
			return changed(w.byFor("ann", protocol.BatchID("b1"), protocol.TypeBatch, field))
		}, "signature"},
		"one that counts":   {func(w *world) any { return w.byFor("ann", protocol.BatchID("b1"), protocol.TypeBatch, field) }, ""},
		"all fields known ": {func(w *world) any { return batch.Input{ID: "b1"} }, "signed commands only"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{environment: newEnvironment(), t: t}
			w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: protocol.BatchID("b1")})
			w.RegisterWorkflowWithOptions(batch.Run(kit.Usual), workflow.RegisterOptions{Name: protocol.TypeBatch})
			var records []audit.Record
			w.judgesNewer("  - {name: ops, roles: [operator], to: [ann]}\n", &records)
			w.ExecuteWorkflow(protocol.TypeBatch, test.start(w))
			err := w.GetWorkflowError()
			switch {
			case test.why == "" && (err == nil || !strings.Contains(err.Error(), "waits for a newer worker") || !strings.Contains(err.Error(), "a signed start counts for 24h5m0s") || len(records) > 0):
				t.Errorf("a start that counts: %v, on record %+v", err, records)
			case test.why != "" && (typeOf(err) != protocol.RefusedForbidden || !strings.Contains(err.Error(), test.why) || len(records) != 1):
				t.Errorf("%v, want a refusal with %q; on record: %+v", err, test.why, records)
			}
		})
	}
}

// The signature of a schedule's start is of its whole JSON, also if only the session in it has a
// field that this worker does not know.
func TestAScheduledStartOfANewerProgramIsJudgedOverItsWholeJSON(t *testing.T) {
	raw := []byte(`{"schedule":"s","session":{"id":"x","of_tomorrow":1}}`)
	var in schedule.FireInput
	if err := json.Unmarshal(raw, &in); err != nil || len(in.Unknown()) != 1 || string(in.Given()) != string(raw) {
		t.Errorf("unknown are %v, given is %s (%v)", in.Unknown(), in.Given(), err)
	}
	if err := json.Unmarshal([]byte(`{"schedule":"s","session":{"id":"x"}}`), &in); err != nil || len(in.Unknown()) != 0 || in.Given() != nil {
		t.Errorf("all is known: %v, %s (%v)", in.Unknown(), in.Given(), err)
	}
}
