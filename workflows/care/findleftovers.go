package care

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// findLeftovers looks for folders of ended sessions that their pool does not know, and has the
// pool wipe them.
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

// A folder can be a leftover only if its mark was not written for foldersOlder. A
// session that still runs has told the pool of the folder long before.
const foldersOlder = 10 * time.Minute

// foldersHosts is how many hosts one run looks at.
const foldersHosts = 200
