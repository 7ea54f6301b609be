package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// MaintenanceID is that of the Schedule, and of the workflows that it starts.
const MaintenanceID = "maintenance"

// MaintenanceInput says what is looked after: seeds, or else the snapshots of
// the store, each by a Schedule of its own.
type MaintenanceInput struct {
	Snapshots bool `json:"snapshots,omitempty"`
}

// MaintenanceResult says what was done.
type MaintenanceResult struct {
	Seeds activities.VerifySeedsResult `json:"seeds"`
	// Snapshots is nil where they were not looked after, or by somebody else just then.
	Snapshots *activities.PruneSnapshotsResult `json:"snapshots,omitempty"`
	Problems  []string                         `json:"problems,omitempty"`
}

const (
	// seedsEvery is how old a proof of a seed's life may be, and the newest
	// look at one that has none. A login is refreshed when a quarter of its
	// access token's time is left, two days at most: see seeds.Issuer.Fresh.
	seedsEvery = 6 * time.Hour
	// seedsAtATime is how many seeds one run verifies.
	seedsAtATime = 20
)

// Maintenance does what nobody asks for. A Schedule starts it; a chore that
// fails keeps none of the others from being done, and is done next time.
func Maintenance(ctx workflow.Context, in MaintenanceInput) (MaintenanceResult, error) {
	type chore struct {
		what string
		do   func(workflow.Context, string, *MaintenanceResult) error
	}
	// What sessions left on lost hosts is wiped by the pool, when its watch
	// of the host says that it is back; a chore that looks for more goes here.
	chores := []chore{{"verify seeds", verifySeeds}}
	if in.Snapshots {
		chores = []chore{{"prune snapshots", pruneSnapshots}}
	}
	var out MaintenanceResult
	for _, chore := range chores {
		if err := chore.do(ctx, chore.what, &out); err != nil {
			workflow.GetLogger(ctx).Warn("chore not done", "what", chore.what, "error", err)
			out.Problems = append(out.Problems, failureOf(chore.what, err).Message)
		}
	}
	return out, nil
}

func verifySeeds(ctx workflow.Context, what string, out *MaintenanceResult) (err error) {
	out.Seeds, err = do(setUp(ctx, what), engine.VerifySeeds, activities.VerifySeedsInput{Older: seedsEvery, Limit: seedsAtATime, By: maintenance})
	return err
}
