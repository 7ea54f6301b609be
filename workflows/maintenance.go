package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// MaintenanceID is that of the Schedule, and of the workflows that it starts.
const MaintenanceID = "maintenance"

// MaintenanceInput says what is looked after: seeds, or else the snapshots of
// the store, or what else is in it, each by a Schedule of its own.
type MaintenanceInput struct {
	Snapshots bool `json:"snapshots,omitempty"`
	// Store, in place of those, is what messages, batches and schedules left there.
	Store bool `json:"store,omitempty"`
	// Hosts, in place of those, is how often the hosts of Zone are checked: one
	// that somebody checked within the last half of it is left for the next time.
	Hosts time.Duration `json:"hosts,omitempty"`
	Zone  string        `json:"zone,omitempty"`
	// Leftovers, in place of all that, has somebody look what lies on the hosts of
	// Zone.
	Leftovers bool `json:"leftovers,omitempty"`
}

// TidyStoreID is that of the Schedule that tidies the store.
const TidyStoreID = MaintenanceID + "/store"

// MaintainHostsID is that of a zone's Schedule for its hosts.
func MaintainHostsID(zone string) string {
	return MaintenanceID + "/hosts/" + ZoneOf(TaskQueueOf(zone))
}

// MaintainLeftoversID is that of a zone's Schedule for what sessions left on hosts.
func MaintainLeftoversID(zone string) string {
	return MaintenanceID + "/leftovers/" + ZoneOf(TaskQueueOf(zone))
}

// MaintenanceResult says what was done.
type MaintenanceResult struct {
	Seeds activities.VerifySeedsResult `json:"seeds"`
	// Snapshots is nil where they were not looked after, or by somebody else just then.
	Snapshots *activities.PruneSnapshotsResult `json:"snapshots,omitempty"`
	Store     *activities.TidyStoreResult      `json:"store,omitempty"`
	Hosts     *activities.CheckOldHostsResult  `json:"hosts,omitempty"`
	Leftovers *activities.FindLeftoversResult  `json:"leftovers,omitempty"`
	Problems  []string                         `json:"problems,omitempty"`
}

const (
	// seedsEvery is how old a proof of a seed's life may be, and the newest
	// look at one that has none. A login is refreshed when a quarter of its
	// access token's time is left, two days at most: see seeds.Issuer.Fresh.
	seedsEvery = 6 * time.Hour
	// seedsAtATime is how many seeds one run verifies.
	seedsAtATime = 20
	// hostsAtATime is how many checks of hosts one run begins.
	hostsAtATime = 50
)

// Maintenance does what nobody asks for. A Schedule starts it; a chore that
// fails keeps none of the others from being done, and is done next time.
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
			out.Problems = append(out.Problems, failureOf(chore.what, err).Message)
		}
	}
	return out, nil
}

func verifySeeds(ctx workflow.Context, what string, out *MaintenanceResult) (err error) {
	out.Seeds, err = do(setUp(ctx, what), engine.VerifySeeds, activities.VerifySeedsInput{Older: seedsEvery, Limit: seedsAtATime, By: maintenance})
	return err
}

// tidyStore deletes what nobody can ask for any more. What stays for want of an
// answer is told, and is asked about next time.
func tidyStore(ctx workflow.Context, what string, out *MaintenanceResult) error {
	var tidied activities.TidyStoreResult
	if err := workflow.ExecuteActivity(ofStore(ctx, what), snapshots.TidyStore).Get(ctx, &tidied); err != nil {
		return err
	}
	out.Store = &tidied
	out.Problems = append(out.Problems, tidied.Problems...)
	return nil
}

// checkHosts keeps what is known of hosts from growing old: what codex and which
// sandbox they have, how much room. A host that fails is its pool's to look after.
func checkHosts(ctx workflow.Context, what string, in MaintenanceInput, out *MaintenanceResult) error {
	found, err := do(setUp(ctx, what), engine.CheckOldHosts, activities.CheckOldHostsInput{
		Zone: in.Zone, Pool: PoolID(in.Zone), Queue: TaskQueueOf(in.Zone), Older: in.Hosts / 2, Limit: hostsAtATime,
	})
	if err != nil {
		return err
	}
	out.Hosts = &found
	out.Problems = append(out.Problems, found.Problems...)
	return nil
}
