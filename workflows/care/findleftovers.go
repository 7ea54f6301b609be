package care

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// findLeftovers has the pool wipe folders of ended sessions that it does not know.
func findLeftovers(ctx workflow.Context, what string, in MaintenanceInput, out *MaintenanceResult) error {
	found, err := kit.Do(kit.SetUp(ctx, what), placeJobs.FindLeftovers, places.FindLeftoversInput{
		Pool: protocol.PoolID(in.Zone), Signal: lease.SignalLooked, Older: foldersOlder, Limit: foldersHosts,
	})
	if err != nil {
		return err
	}
	out.Leftovers = &found
	out.Problems = append(out.Problems, found.Problems...)
	return nil
}

// foldersOlder is the least age of a leftover's mark. The session of a younger folder may
// not have told the pool yet.
const foldersOlder = 10 * time.Minute

// foldersHosts bounds the hosts of one run.
const foldersHosts = 200
