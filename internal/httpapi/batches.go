package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

type batchesInput struct {
	Schedule string `query:"schedule" maxLength:"63" doc:"only those that this schedule started"`
	Paged
}

// OfBatch names a batch.
type OfBatch struct {
	ID string `path:"id" doc:"batch"`
}

type resultsInput struct {
	OfBatch
	Paged
	From int `query:"from" minimum:"1" default:"1" doc:"number of the first result, without a cursor"`
}

// ofBatch is for paths with a batch's id.
func ofBatch(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if !protocol.NamePattern.MatchString(id) {
		return "", fmt.Errorf("%.100q is not a batch id", id)
	}
	return id, nil
}

func (a *API) addBatches() {
	spotOf := func(method, path, id, summary string, verb access.Verb) spot {
		return spot{method: method, path: "/v1/batches/{id}" + path, id: id, summary: summary, verb: verb, batch: ofBatch}
	}
	add(a, spot{method: http.MethodGet, path: "/v1/batches", id: "listBatches", summary: "List batches, newest first"}, a.batches)
	add(a, spotOf(http.MethodGet, "", "showBatch", "Show how far a batch is, and which of its sessions wait for a person", access.SessionRead),
		func(ctx context.Context, in *OfBatch) (*Body[protocol.BatchShown], error) {
			return answer(a.sessions.Batch(ctx, in.ID))
		})
	add(a, spotOf(http.MethodGet, "/results", "listBatchResults", "List what became of each item, in the order of their ends", access.SessionRead), a.batchResults)
	begin := spotOf(http.MethodPost, "", "startBatch", "Start a batch: a session for each item, a window of them at a time, each with one turn", access.BatchRun)
	begin.batch, begin.begins, begin.status, begin.body = nil, true, http.StatusCreated, maxBatch
	add(a, begin, func(ctx context.Context, in *struct {
		OfBatch
		Keyed
		Body StartBatch
	}) (*Body[StartedBatch], error) {
		if !protocol.NamePattern.MatchString(in.ID) {
			return nil, badInput("%.100q is not a batch id", in.ID)
		}
		if err := in.Body.check(); err != nil {
			return nil, err
		}
		return answer(a.sessions.StartBatch(ctx, in.of(ctx), in.ID, in.Body))
	})
	cancel := spotOf(http.MethodPost, "/cancel", "cancelBatch", "Close a batch's running sessions and start no more", access.BatchRun)
	cancel.status = http.StatusAccepted
	add(a, cancel, func(ctx context.Context, in *struct {
		OfBatch
		Keyed
		Body *Closing
	}) (*Body[protocol.BatchView], error) {
		var said Closing
		if in.Body != nil {
			said = *in.Body
		}
		return answer(a.sessions.CancelBatch(ctx, in.of(ctx), in.ID, said))
	})
	a.addBatchSettings()
}

// BatchSettings changes a running batch.
type BatchSettings struct {
	Window int `json:"window" minimum:"1" maximum:"500" doc:"sessions at the same time"`
}

// RetryingBatch says which items are tried again.
type RetryingBatch struct {
	Rest bool `json:"rest,omitempty" doc:"also items that were cancelled or never started"`
}

func (a *API) addBatchSettings() {
	spotOf := func(path, id, summary string) spot {
		return spot{method: http.MethodPost, path: "/v1/batches/{id}" + path, id: id, summary: summary, verb: access.BatchRun, batch: ofBatch, status: http.StatusAccepted}
	}
	add(a, spotOf("/settings", "setBatch", "Change how many sessions of a batch run at a time"), func(ctx context.Context, in *struct {
		OfBatch
		Keyed
		Body BatchSettings
	}) (*Body[protocol.BatchView], error) {
		return answer(a.sessions.SetBatch(ctx, in.of(ctx), in.ID, in.Body))
	})
	add(a, spotOf("/retry", "retryBatch", "Try again what failed of a batch, each item in a new session"), func(ctx context.Context, in *struct {
		OfBatch
		Keyed
		Body *RetryingBatch
	}) (*Body[protocol.BatchView], error) {
		var said RetryingBatch
		if in.Body != nil {
			said = *in.Body
		}
		return answer(a.sessions.RetryBatch(ctx, in.of(ctx), in.ID, said))
	})
}

// batches leaves out the batches that the caller may not read, so a page may have fewer than
// limit.
func (a *API) batches(ctx context.Context, in *batchesInput) (*Body[Page[protocol.BatchView]], error) {
	of := "batches " + in.Schedule
	after, err := in.after(of)
	if err != nil {
		return nil, err
	}
	list, next, err := a.sessions.ListBatches(ctx, in.Schedule, in.Limit, after)
	if err != nil {
		return nil, err
	}
	page := Page[protocol.BatchView]{Items: []protocol.BatchView{}, Cursor: cursor{of, next}.String()}
	for _, v := range list {
		if a.records.MayReadBatch(ctx, v.ID) {
			page.Items = append(page.Items, v)
		}
	}
	return answer(page, nil)
}

func (a *API) batchResults(ctx context.Context, in *resultsInput) (*Body[Page[protocol.BatchResult]], error) {
	of := "results " + in.ID
	after, err := in.after(of)
	if err != nil {
		return nil, err
	}
	from := in.From
	if after != nil {
		if from, err = strconv.Atoi(string(after)); err != nil || from < 1 {
			return nil, badInput("cursor: it is none that this API gave")
		}
	}
	list, err := a.sessions.BatchResults(ctx, in.ID, from, in.Limit)
	if err != nil {
		return nil, err
	}
	page := Page[protocol.BatchResult]{Items: append([]protocol.BatchResult{}, list...)}
	if n := len(list); n == in.Limit {
		page.Cursor = cursor{of, strconv.AppendInt(nil, int64(list[n-1].N)+1, 10)}.String()
	}
	return answer(page, nil)
}
