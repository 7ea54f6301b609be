package apiflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/protocol"
)

// ListBatches implements httpapi.Batches.
func (b *Backend) ListBatches(ctx context.Context, schedule string, limit int, after []byte) ([]protocol.BatchView, []byte, error) {
	const doing = "list batches"
	var narrow []string
	if schedule != "" {
		if err := errkind.CheckName("schedule name", schedule); err != nil {
			return nil, nil, err
		}
		narrow = append(narrow, fmt.Sprintf("FairleadOrigin = '%s'", protocol.OriginSchedule(schedule)))
	}
	t, err := b.conn()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	res, err := t.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: t.Namespace, Query: flows.BatchQuery(narrow...), PageSize: int32(limit), NextPageToken: after})
	if err != nil {
		return nil, nil, t.Explain(ctx, doing, err)
	}
	return t.Batches(ctx, res.GetExecutions()), res.GetNextPageToken(), nil
}

// Batch implements httpapi.Batches.
func (b *Backend) Batch(ctx context.Context, id string) (v protocol.BatchShown, err error) {
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	return t.ShownBatch(ctx, id)
}

var errEnough = errors.New("enough results")

// BatchResults implements httpapi.Batches.
func (b *Backend) BatchResults(ctx context.Context, id string, from, limit int) (list []protocol.BatchResult, err error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	_, err = t.BatchResults(ctx, id, from, func(blob string) ([]byte, error) { return b.store.BatchResults(ctx, blob) },
		func(r protocol.BatchResult, _ json.RawMessage) error {
			if list = append(list, r); len(list) == limit {
				return errEnough
			}
			return nil
		})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return list, err
}

// CancelBatch implements httpapi.Batches.
func (b *Backend) CancelBatch(ctx context.Context, key, id string, in httpapi.Closing) (v protocol.BatchView, err error) {
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	if _, err := b.again(ctx, t, key, protocol.SignalCancelBatch, id, "cancel batch "+id, in); err != nil {
		return v, err
	}
	v, err = t.CancelBatch(ctx, id, protocol.CancelBatch{By: b.by(ctx), Discard: in.Discard})
	if key != "" && err != nil && v.State == protocol.BatchCancelled {
		return v, nil // by an earlier request with this key, or one like it
	}
	return v, err
}
