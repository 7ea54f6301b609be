package care

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// MaintenanceInput selects one chore; without a field, the verification of seeds. Each has
// its own Schedule.
type MaintenanceInput struct {
	Snapshots bool `json:"snapshots,omitempty"`
	// Store selects what messages, batches and schedules left in the store.
	Store bool `json:"store,omitempty"`
	// Hosts, if not 0, selects checks of the hosts of Zone. It is their interval: a host
	// whose last check is younger than half of it is left out.
	Hosts time.Duration `json:"hosts,omitempty"`
	Zone  string        `json:"zone,omitempty"`
	// Leftovers selects the search for leftovers on the hosts of Zone.
	Leftovers bool `json:"leftovers,omitempty"`
}

// MaintenanceResult says what was done.
type MaintenanceResult struct {
	Seeds overseer.VerifySeedsResult `json:"seeds"`
	// Snapshots is nil if not selected, or if another run was pruning.
	Snapshots *protocol.PruneSnapshotsResult `json:"snapshots,omitempty"`
	Store     *batches.TidyStoreResult       `json:"store,omitempty"`
	Hosts     *overseer.CheckOldHostsResult  `json:"hosts,omitempty"`
	Leftovers *places.FindLeftoversResult    `json:"leftovers,omitempty"`
	Problems  []string                       `json:"problems,omitempty"`
}

const (
	// seedsEvery bounds the age of a seed's newest proof of life or, without one, of its
	// newest check. A login is refreshed when a quarter of its access token's time is left,
	// but not earlier than two days before the token's end: see seeds.Issuer.Fresh.
	seedsEvery = 6 * time.Hour
	// seedsAtATime bounds the seeds of one run.
	seedsAtATime = 20
	// hostsAtATime bounds the checks of one run.
	hostsAtATime = 50
)

// Maintenance runs the chore that its input selects. The next run repeats one that failed.
func Maintenance(ctx workflow.Context, in MaintenanceInput) (MaintenanceResult, error) {
	type chore struct {
		what string
		do   func(workflow.Context, string, *MaintenanceResult) error
	}
	chores := []chore{{"verify seeds", verifySeeds}}
	if in.Snapshots {
		chores = []chore{{"prune snapshots", pruneSnapshots}}
	}
	if in.Store {
		chores = []chore{{"tidy the store", tidyStore}}
	}
	if in.Hosts > 0 {
		chores = []chore{{"check hosts", func(ctx workflow.Context, what string, out *MaintenanceResult) error {
			return checkHosts(ctx, what, in, out)
		}}}
	}
	if in.Leftovers {
		chores = []chore{{"look for what sessions left on hosts", func(ctx workflow.Context, what string, out *MaintenanceResult) error {
			return findLeftovers(ctx, what, in, out)
		}}}
	}
	var out MaintenanceResult
	for _, chore := range chores {
		if err := chore.do(ctx, chore.what, &out); err != nil {
			workflow.GetLogger(ctx).Warn("chore not done", "what", chore.what, "error", err)
			out.Problems = append(out.Problems, kit.FailureOf(chore.what, err).Message)
		}
	}
	return out, nil
}

func verifySeeds(ctx workflow.Context, what string, out *MaintenanceResult) (err error) {
	out.Seeds, err = kit.Do(kit.SetUp(ctx, what), askJobs.VerifySeeds, overseer.VerifySeedsInput{Older: seedsEvery, Limit: seedsAtATime, By: kit.Maintenance})
	return err
}

// tidyStore deletes what nobody can request any more. It keeps and reports what may be
// needed.
func tidyStore(ctx workflow.Context, what string, out *MaintenanceResult) error {
	var tidied batches.TidyStoreResult
	if err := workflow.ExecuteActivity(ofStore(ctx, what), batchJobs.TidyStore).Get(ctx, &tidied); err != nil {
		return err
	}
	out.Store = &tidied
	out.Problems = append(out.Problems, tidied.Problems...)
	return nil
}

// checkHosts refreshes what is known of hosts. The pool handles a host that fails.
func checkHosts(ctx workflow.Context, what string, in MaintenanceInput, out *MaintenanceResult) error {
	found, err := kit.Do(kit.SetUp(ctx, what), askJobs.CheckOldHosts, overseer.CheckOldHostsInput{
		Zone: in.Zone, Pool: protocol.PoolID(in.Zone), Queue: protocol.TaskQueueOf(in.Zone), Older: in.Hosts / 2, Limit: hostsAtATime,
	})
	if err != nil {
		return err
	}
	out.Hosts = &found
	out.Problems = append(out.Problems, found.Problems...)
	return nil
}
