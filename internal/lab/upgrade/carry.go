package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// A carry is the state that a run of a workflow was given by the run before it.
type carry struct {
	run   string
	state map[string]any
}

// soon is how long workflows may take to go on as new; those in which something goes on may take
// longer, and are left out.
const soon = 20 * time.Second

// renewed asks all workflows that run to go on as new runs, which have their state from the
// former ones, and returns these states by workflow. Those of
// must may not be left out.
func renewed(ctx context.Context, l *lab.Lab, must, except []string) (map[string]carry, error) {
	c, err := l.Temporal(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var st lab.Status
	if err := l.JSON(ctx, &st, "status"); err != nil {
		return nil, err
	}
	codec, err := l.Codec(st.Temporal.Namespace)
	if err != nil {
		return nil, err
	}
	before := map[string]string{}
	var page []byte
	for {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running'", PageSize: 100, NextPageToken: page})
		if err != nil {
			return nil, fmt.Errorf("list workflows: %w", err)
		}
		for _, w := range list.Executions {
			switch w.Type.Name {
			case protocol.TypeSession, protocol.TypeHostPool, protocol.TypeSeed, protocol.TypeSeedPool, protocol.TypeBatch, protocol.TypeOutbox:
				if !slices.Contains(except, w.Execution.WorkflowId) {
					before[w.Execution.WorkflowId] = w.Execution.RunId
				}
			}
		}
		if page = list.NextPageToken; len(page) == 0 {
			break
		}
	}
	for id := range before {
		err := c.SignalWorkflow(ctx, id, "", protocol.SignalRenew, protocol.Renew{})
		if gone := new(serviceerror.NotFound); err != nil && !errors.As(err, &gone) {
			return nil, fmt.Errorf("renew %s: %w", id, err)
		}
	}
	out, began := map[string]carry{}, time.Now()
	if err := (scenario.Wait{Most: 5 * time.Minute, Try: time.Minute, Gap: time.Second}).For(ctx, "workflows go on as new", func(ctx context.Context) error {
		var missing []string
		for id, run := range before {
			if out[id].run != "" {
				continue
			}
			now, err := started(ctx, c, codec, id)
			switch {
			case err != nil:
				return err
			case now.run != run && now.state != nil:
				out[id] = now
			case slices.Contains(must, id):
				missing = append(missing, id)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%v did not", missing)
		}
		if len(out) < len(before) && time.Since(began) < soon {
			return fmt.Errorf("%d of %d did", len(out), len(before))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	fmt.Printf("upgrade: %d of %d workflows went on as new runs\n", len(out), len(before))
	return out, nil
}

// started returns what the newest run of a workflow was started with.
func started(ctx context.Context, c client.Client, codec *payload.Codec, id string) (carry, error) {
	first, err := c.GetWorkflowHistory(ctx, id, "", false, 1).Next()
	if err != nil {
		return carry{}, fmt.Errorf("read how %s was started: %w", id, err)
	}
	attrs := first.GetWorkflowExecutionStartedEventAttributes()
	var in struct {
		Carry map[string]any `json:"carry"`
	}
	var raw json.RawMessage
	if err := codec.Of(id, first.GetEventTime().AsTime()).FromPayloads(attrs.GetInput(), &raw); err != nil {
		return carry{}, fmt.Errorf("read the input of %s: %w", id, err)
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return carry{}, fmt.Errorf("read the input of %s: %w", id, err)
	}
	return carry{run: attrs.GetOriginalExecutionRunId(), state: in.Carry}, nil
}

// moving are the fields that change while a turn runs: the pump that follows it, how long it has
// lasted, and records that wait to be written.
var moving = []string{".prefix", ".pump_n", ".turn_spent", ".audit.waiting"}

// equal fails if a state that one build wrote has lost a field, or has another value, after
// another build read it and wrote it again.
func equal(before, after map[string]carry) error {
	compared, fields, moved, bad := 0, 0, 0, []string{}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		now, ok := after[id]
		if !ok {
			continue
		}
		compared++
		for _, d := range differ("", before[id].state, now.state, &fields) {
			if d.goesOn() {
				moved++
			} else {
				bad = append(bad, fmt.Sprintf("%s: %s was %s and is %s", id, d.path, text(d.was), text(d.is)))
			}
		}
	}
	fmt.Printf("upgrade: %d states with %d values have passed from one build to the other; %d are of work that goes on and moved, %d others differ\n", compared, fields, moved, len(bad))
	if len(bad) > 0 {
		return fmt.Errorf("states have changed: %s", strings.Join(bad, "; "))
	}
	return nil
}

// A difference is between two states.
type difference struct {
	path    string
	was, is any
}

// goesOn reports whether the difference is that of work that goes on: the next time at which
// something is looked at is later.
func (d difference) goesOn() bool {
	was, is := moment(d.was), moment(d.is)
	return slices.Contains(moving, d.path) || !was.IsZero() && is.After(was)
}

func moment(v any) time.Time {
	text, _ := v.(string)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// differ returns where b lacks what a has, or has another value, and counts the values of a.
func differ(path string, a, b any, fields *int) (out []difference) {
	if a, ok := a.(map[string]any); ok {
		b, _ := b.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(a)) {
			out = append(out, differ(path+"."+k, a[k], b[k], fields)...)
		}
		return out
	}
	*fields++
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []difference{{path, a, b}}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(string(b[:min(len(b), 200)]), "")
}
