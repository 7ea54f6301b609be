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

// MaintenanceInput selects the chore: the verification of seeds by default, or what one of
// the fields selects. Each chore has a Schedule of its own.
type MaintenanceInput struct {
	Snapshots bool `json:"snapshots,omitempty"`
	// Store selects what messages, batches and schedules left in the store.
	Store bool `json:"store,omitempty"`
	// Hosts, if not 0, selects checks of the hosts of Zone. It is the interval of the checks:
	// a host whose last check is younger than half of it is left for the next time.
	Hosts time.Duration `json:"hosts,omitempty"`
	Zone  string        `json:"zone,omitempty"`
	// Leftovers selects the search for leftovers on the hosts of Zone.
	Leftovers bool `json:"leftovers,omitempty"`
}

// MaintenanceResult says what was done.
type MaintenanceResult struct {
	Seeds overseer.VerifySeedsResult `json:"seeds"`
	// Snapshots is nil if pruning was not selected, or if another run was pruning at the
	// time.
	Snapshots *protocol.PruneSnapshotsResult `json:"snapshots,omitempty"`
	Store     *batches.TidyStoreResult       `json:"store,omitempty"`
	Hosts     *overseer.CheckOldHostsResult  `json:"hosts,omitempty"`
	Leftovers *places.FindLeftoversResult    `json:"leftovers,omitempty"`
	Problems  []string                       `json:"problems,omitempty"`
}

const (
	// seedsEvery bounds the age of the newest proof that a seed is alive. Maintenance
	// verifies a seed whose proof is older. If a seed has no proof, the age of its newest
	// check counts. A login is refreshed when a quarter of its access token's time is left,
	// but not earlier than two days before the token's end: see seeds.Issuer.Fresh.
	seedsEvery = 6 * time.Hour
	// seedsAtATime bounds the number of seeds that one run verifies.
	seedsAtATime = 20
	// hostsAtATime bounds the number of host checks that one run begins.
	hostsAtATime = 50
)

// Maintenance runs the chores that its input selects. A Schedule starts it. A chore that
// fails does not stop the others; the next run does it again.
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

// tidyStore deletes what nobody can request any more. If it could not be found out whether
// an entry is needed, the entry stays, is reported, and is checked again next time.
func tidyStore(ctx workflow.Context, what string, out *MaintenanceResult) error {
	var tidied batches.TidyStoreResult
	if err := workflow.ExecuteActivity(ofStore(ctx, what), batchJobs.TidyStore).Get(ctx, &tidied); err != nil {
		return err
	}
	out.Store = &tidied
	out.Problems = append(out.Problems, tidied.Problems...)
	return nil
}

// checkHosts refreshes what is known of hosts: codex, sandbox and free space. The pool
// handles a host that fails its check.
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
