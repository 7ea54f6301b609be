package inquiry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// AdoptSeed reconciles a seed with the store after Temporal's database was restored to an
// earlier point. The leases that were granted since are not known: from now on their epochs
// are fenced off.
type AdoptSeed struct {
	// Generation and Auth are what the seed had when it was compared with the store. The seed
	// refuses if they have changed.
	Generation int64  `json:"generation"`
	Auth       string `json:"auth,omitempty"`
	// Ref is a later login in the store, nil if there is none. Its generation becomes at
	// least Highest, so that no generation of the store is above it.
	Ref       *protocol.SeedRef       `json:"ref,omitempty"`
	Files     []protocol.SeedFile     `json:"files,omitempty"`
	Tools     []protocol.SeedTool     `json:"tools,omitempty"`
	FollowUps []protocol.SeedFollowUp `json:"follow_ups,omitempty"`
	Highest   int64                   `json:"highest,omitempty"`
	Former    []string                `json:"former,omitempty"` // digests of the auth.json between
	// Doubt, if not empty, makes the seed suspect.
	Doubt string `json:"doubt,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Epochs is a range of epochs of which a seed's workflow knows which leases it granted. A lease of the
// range that is not in Granted is forgotten. After a restore, epochs of forgotten leases are given again.
type Epochs struct {
	First   int64            `json:"first"`
	Last    int64            `json:"last"`
	Granted map[int64]string `json:"granted,omitempty"` // the holders
}

// A RestoreDesk is for reconciling seeds with the store.
type RestoreDesk interface {
	// Seeds returns the names of the seeds that Temporal knows, and Sessions the number of
	// the sessions.
	Seeds(ctx context.Context) ([]string, error)
	Sessions(ctx context.Context) (int, error)
	Adopt(ctx context.Context, seed string, what AdoptSeed) (SeedNow, error)
}

// mostSeeds bounds the seeds that are reconciled.
const mostSeeds = 10000

// Seeds implements RestoreDesk.
func (d TemporalDesk) Seeds(ctx context.Context) (names []string, err error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", protocol.TypeSeed)
	var page []byte
	for {
		r, err := d.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1000, NextPageToken: page})
		if err != nil {
			return nil, fmt.Errorf("list the seeds: %w", err)
		}
		for _, x := range r.GetExecutions() {
			names = append(names, strings.TrimPrefix(x.GetExecution().GetWorkflowId(), protocol.SeedID("")))
		}
		if page = r.GetNextPageToken(); len(page) == 0 {
			return names, nil
		}
		if len(names) > mostSeeds {
			return nil, errors.New("list the seeds: there are too many")
		}
	}
}

// Sessions implements RestoreDesk.
func (d TemporalDesk) Sessions(ctx context.Context) (int, error) {
	r, err := d.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", protocol.TypeSession),
	})
	if err != nil {
		return 0, fmt.Errorf("count the sessions: %w", err)
	}
	return int(r.GetCount()), nil
}

// Adopt implements RestoreDesk. It returns the seed's refusal as it is.
func (d TemporalDesk) Adopt(ctx context.Context, seed string, what AdoptSeed) (SeedNow, error) {
	return updateSeed(ctx, d.Client, seed, protocol.UpdateAdoptSeed, what)
}

var _ interface {
	SeedDesk
	RestoreDesk
} = TemporalDesk{client.Client(nil)}
