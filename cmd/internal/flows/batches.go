package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
)

const mostWaiting = 100

// Batch queries a batch. doing, such as "show", is for errors.
func (t *Conn) Batch(ctx context.Context, doing, id string) (protocol.BatchView, error) {
	var v protocol.BatchView
	if err := errkind.CheckName("batch id", id); err != nil {
		return v, err
	}
	err := t.Ask(ctx, doing+" batch "+id, protocol.BatchID(id), protocol.QueryBatch, &v)
	return v, err
}

// ShownBatch queries a batch, and finds those of its sessions that wait for a person.
func (t *Conn) ShownBatch(ctx context.Context, id string) (protocol.BatchShown, error) {
	out := protocol.BatchShown{Waiting: []protocol.BatchWaiting{}}
	var err error
	if out.BatchView, err = t.Batch(ctx, "show", id); err != nil || out.Running == 0 {
		return out, err
	}
	q := fmt.Sprintf("WorkflowType = '%s' AND FairleadOrigin = '%s' AND FairleadApprovals > 0 AND ExecutionStatus = 'Running'", protocol.TypeSession, protocol.OriginBatch(id))
	infos, err := t.List(ctx, "list sessions of batch "+id, q, mostWaiting)
	if err != nil {
		return out, err
	}
	for _, info := range infos {
		out.Waiting = append(out.Waiting, protocol.BatchWaiting{Session: KeptView(info, t.Codec).ID, Approvals: Attr[int64](info.GetSearchAttributes().GetIndexedFields(), "FairleadApprovals")})
	}
	return out, nil
}

// BatchQuery lists batches that meet all conditions.
func BatchQuery(narrow ...string) string {
	return strings.Join(append([]string{fmt.Sprintf("WorkflowType = '%s'", protocol.TypeBatch), "ExecutionStatus != 'ContinuedAsNew'"}, narrow...), " AND ")
}

// Batches queries the batches of a list, each once, even if a retry gave it several runs.
func (t *Conn) Batches(ctx context.Context, infos []*workflowpb.WorkflowExecutionInfo) []protocol.BatchView {
	list := []protocol.BatchView{}
	seen := map[string]bool{}
	for _, info := range infos {
		id := strings.TrimPrefix(info.GetExecution().GetWorkflowId(), protocol.BatchID(""))
		if seen[id] {
			continue
		}
		seen[id] = true
		v := protocol.BatchView{ID: id, State: Attr[string](info.GetSearchAttributes().GetIndexedFields(), "FairleadState"), CreatedAt: info.GetStartTime().AsTime()}
		if s := info.GetStatus(); s == enums.WORKFLOW_EXECUTION_STATUS_TERMINATED || s == enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT {
			v.State = "terminated"
		}
		list = append(list, v)
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range list {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if v, err := t.Batch(ctx, "show", list[i].ID); err == nil && list[i].State != "terminated" {
				list[i] = v // else keep the list's values
			}
		})
	}
	group.Wait()
	return list
}

// CancelBatch closes the running sessions of a batch and begins no more. The view is as it
// was before.
func (t *Conn) CancelBatch(ctx context.Context, id string, c protocol.CancelBatch) (protocol.BatchView, error) {
	v, err := t.Batch(ctx, "cancel", id)
	if err == nil && protocol.BatchOver(v.State) {
		err = errkind.Refused("cancel batch %s: it has ended (%s)", v.ID, v.State)
	}
	if err == nil {
		err = t.Signal(ctx, "cancel batch "+v.ID, protocol.BatchID(v.ID), protocol.SignalCancelBatch, c)
	}
	return v, err
}

// SetBatch changes a batch that v shows as it is.
func (t *Conn) SetBatch(ctx context.Context, v protocol.BatchView, set protocol.SetBatch) (protocol.BatchView, error) {
	if protocol.BatchOver(v.State) {
		return v, errkind.Refused("set batch %s: it has ended (%s)", v.ID, v.State)
	}
	if err := t.Signal(ctx, "set batch "+v.ID, protocol.BatchID(v.ID), protocol.SignalSetBatch, set); err != nil {
		return v, err
	}
	v.Window = set.Window
	return v, nil
}

// BatchStart returns the options of a batch's workflow.
func BatchStart(id string, reuse enums.WorkflowIdReusePolicy) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: protocol.BatchID(id), TaskQueue: protocol.TaskQueue,
		WorkflowIDReusePolicy:                    reuse,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "batch " + id,
	}
}

// Retriable says why nothing of a batch that v shows as it is can be tried again, or returns nil.
func Retriable(v protocol.BatchView, r protocol.RetryBatch) error {
	doing := "retry batch " + v.ID
	there := v.Failed
	if r.Rest && protocol.BatchOver(v.State) {
		there += v.Cancelled + v.Queued
	}
	switch {
	case v.State == protocol.BatchStopping || v.State == protocol.BatchCancelling:
		return errkind.Refused("%s: it is %s", doing, v.State).Hinted("wait for its end: `ctl batch show %s --follow`", v.ID)
	case there == 0:
		return errkind.Refused("%s: none of its items failed", doing)
	}
	return nil
}

// RetryBatch tries again what failed of a batch that v shows as it is.
func (t *Conn) RetryBatch(ctx context.Context, v protocol.BatchView, r protocol.RetryBatch) error {
	doing := "retry batch " + v.ID
	if err := Retriable(v, r); err != nil {
		return err
	}
	if !protocol.BatchOver(v.State) {
		return t.Signal(ctx, doing, protocol.BatchID(v.ID), protocol.SignalRetryBatch, r)
	}
	var end batch.End
	if err := t.Result(ctx, doing, t.GetWorkflow(ctx, protocol.BatchID(v.ID), ""), AnswerWait, &end); err != nil {
		return err
	}
	start := BatchStart(v.ID, enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE)
	was, _, err := t.ClaimOf(ctx, doing, protocol.BatchID(v.ID))
	if err != nil {
		return err
	}
	if was != nil { // the first run's --key still names this batch
		start.Memo = map[string]any{protocol.MemoClaim: *was}
	}
	_, err = t.Start(ctx, doing, start, protocol.TypeBatch, batch.Input{ID: v.ID, Spec: end.Spec, By: v.By, Origin: v.Origin, Carry: end.State, Retry: &r})
	return err
}

// BatchResults shows results from number from on, and returns the next number. read reads a
// stored part.
func (t *Conn) BatchResults(ctx context.Context, id string, from int, read func(blob string) ([]byte, error), show func(protocol.BatchResult, json.RawMessage) error) (int, error) {
	for {
		var got protocol.BatchResults
		if err := t.Ask(ctx, "read results of batch "+id, protocol.BatchID(id), protocol.QueryBatchResults, &got, from); err != nil {
			return from, err
		}
		if got.Blob != "" {
			part, err := read(got.Blob)
			if err != nil {
				return from, err
			}
			got.Lines = nil
			for _, line := range bytes.Split(bytes.TrimSpace(part), []byte("\n")) {
				got.Lines = append(got.Lines, line)
			}
		}
		before := from
		for _, line := range got.Lines {
			var r protocol.BatchResult
			if err := json.Unmarshal(line, &r); err != nil {
				return from, errkind.Failed("read results of batch %s: %v", id, err)
			}
			if r.N < from {
				continue
			}
			if err := show(r, line); err != nil {
				return from, err
			}
			from = r.N + 1
		}
		if from > got.Total || from == before {
			return from, nil
		}
	}
}
