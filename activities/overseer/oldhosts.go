package overseer

import (
	"context"
	"fmt"
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/internal/protocol"
)

// CheckOldHostsInput says which hosts of a zone are due.
type CheckOldHostsInput struct {
	Zone  string        `json:"zone"`
	Pool  string        `json:"pool"`  // workflow id
	Queue string        `json:"queue"` // of the zone's workers
	Older time.Duration `json:"older"` // least age of the last check
	Limit int           `json:"limit"` // the most checks to start
}

// CheckOldHostsResult says which checks were started.
type CheckOldHostsResult struct {
	Seen  int      `json:"seen"`
	Begun []string `json:"begun,omitempty"`
	Left  int      `json:"left,omitempty"` // for the next run
	// Problems are of single hosts, and do not stop the others.
	Problems []string `json:"problems,omitempty"`
}

// CheckOldHosts starts checks of hosts whose last check is old, the oldest first. Each
// check is a workflow that reports to the pool. A repeated call finds the checks that run.
func (e *Engine) CheckOldHosts(ctx context.Context, in CheckOldHostsInput) (CheckOldHostsResult, error) {
	var out CheckOldHostsResult
	hosts, err := inquiry.HostsOf(ctx, e.Client, in.Pool)
	if err != nil {
		return out, fmt.Errorf("list the hosts of %s: %w", in.Pool, err)
	}
	slices.SortStableFunc(hosts, func(a, b inquiry.HostNow) int { return a.CheckedAt.Compare(b.CheckedAt) })
	for _, h := range hosts {
		if h.Name == protocol.LocalHost && h.CheckedAt.IsZero() {
			continue // in every zone, not used yet
		}
		out.Seen++
		switch {
		case time.Since(h.CheckedAt) < in.Older:
		case len(out.Begun) >= in.Limit:
			out.Left++
		default:
			if err := e.checkHost(ctx, in, h.Name); err != nil {
				out.Problems = append(out.Problems, fmt.Sprintf("host %s: %v", h.Name, err))
				continue
			}
			out.Begun = append(out.Begun, h.Name)
		}
	}
	return out, ctx.Err()
}

func (e *Engine) checkHost(ctx context.Context, in CheckOldHostsInput, name string) error {
	v, err := e.Client.QueryWorkflow(ctx, in.Pool, "", "host", name)
	if err != nil {
		return err
	}
	var h inquiry.HostNow
	if err := v.Get(&h); err != nil {
		return err
	}
	if h.Spec == nil {
		return fmt.Errorf("its pool does not say how it is reached")
	}
	_, err = e.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "host/" + name + "/check", TaskQueue: in.Queue, StaticSummary: "maintenance: check " + name,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, "CheckHost", struct {
		Zone string            `json:"zone,omitempty"`
		Host protocol.HostSpec `json:"host"`
	}{in.Zone, *h.Spec})
	return err
}
