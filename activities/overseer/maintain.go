package overseer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// VerifySeedsInput says which seeds are due.
type VerifySeedsInput struct {
	Older time.Duration `json:"older"` // least age of the proof and of the newest look
	Limit int           `json:"limit"` // the most that are verified, one after another
	By    string        `json:"by"`
}

// VerifySeedsResult says which seeds were verified.
type VerifySeedsResult struct {
	Seen     int      `json:"seen"`
	Verified []string `json:"verified,omitempty"`
	Left     int      `json:"left,omitempty"` // for the next run
	// Problems are of single seeds, and do not stop the others.
	Problems []string `json:"problems,omitempty"`
}

const verifyTry = 2 * time.Minute

// VerifySeeds has seeds with an old proof verified by their workflows. A repeated call
// leaves out those.
func (e *Engine) VerifySeeds(ctx context.Context, in VerifySeedsInput) (VerifySeedsResult, error) {
	var out VerifySeedsResult
	ids, err := e.seeds(ctx)
	if err != nil {
		return out, fmt.Errorf("list seeds: %w", err)
	}
	for _, id := range ids {
		v, err := e.seedNow(ctx, id)
		if err != nil {
			out.Problems = append(out.Problems, fmt.Sprintf("%s: %v", id, err))
			continue
		}
		out.Seen++
		switch {
		case !v.due(time.Now(), in.Older):
		case len(out.Verified) >= in.Limit:
			out.Left++
		default:
			if err := e.verify(ctx, id, in.By); err != nil {
				out.Problems = append(out.Problems, fmt.Sprintf("%s: %v", id, err))
				continue
			}
			out.Verified = append(out.Verified, v.Name)
		}
	}
	return out, ctx.Err()
}

func (e *Engine) seeds(ctx context.Context) (ids []string, err error) {
	var page []byte
	for {
		r, err := e.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: "WorkflowType = 'Seed' AND ExecutionStatus = 'Running'", PageSize: 200, NextPageToken: page})
		if err != nil {
			return nil, err
		}
		for _, x := range r.GetExecutions() {
			ids = append(ids, x.GetExecution().GetWorkflowId())
		}
		if page = r.GetNextPageToken(); len(page) == 0 {
			return ids, nil
		}
	}
}

type seedGlance struct {
	Name       string    `json:"name"`
	Kind       string    `json:"kind"`
	Generation int64     `json:"generation"`
	State      string    `json:"state"`
	Health     string    `json:"health"`
	VerifiedAt time.Time `json:"verified_at"`
	Check      *struct {
		At time.Time `json:"at"`
	} `json:"check"`
}

func (e *Engine) seedNow(ctx context.Context, id string) (seedGlance, error) {
	var v seedGlance
	got, err := e.Client.QueryWorkflow(ctx, id, "", "seed")
	if err == nil {
		err = got.Get(&v)
	}
	return v, err
}

// due is false if only a person can help, or if the holder's turns prove the seed.
func (v seedGlance) due(now time.Time, older time.Duration) bool {
	switch {
	case v.Generation == 0, v.Health == "dead", v.State == "recovering", v.State == "verifying":
		return false
	case v.State == "held" && v.Kind == "chatgpt":
		return false
	}
	last := v.VerifiedAt
	if v.Check != nil && v.Check.At.After(last) {
		last = v.Check.At
	}
	return now.Sub(last) >= older
}

func (e *Engine) verify(ctx context.Context, id, by string) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTry)
	defer cancel()
	h, err := e.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: protocol.UpdateVerifySeed, Args: []any{protocol.VerifySeed{By: by}},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil // deleted meanwhile
	}
	return err
}
