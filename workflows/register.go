package workflows

import (
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// intervals are the intervals at which workflows do some things. Tests choose shorter ones.
type intervals struct {
	// reap is the interval at which a workflow checks whether the holders of leases have
	// ended.
	reap time.Duration
	// snapshot is the shortest interval of snapshots within a turn. Each snapshot
	// costs events.
	snapshot time.Duration
}

var usual = intervals{reap: reapEvery, snapshot: mostOften}

// Register makes a worker serve every workflow of this package.
func Register(r worker.WorkflowRegistry) { register(r, usual) }

func register(r worker.WorkflowRegistry, every intervals) {
	for name, w := range map[string]any{
		protocol.TypeSession: every.session, protocol.TypeHostPool: every.hostPool, protocol.TypeSeed: every.seed, protocol.TypeSeedPool: every.seedPool,
		protocol.TypeProvision: ProvisionHost, protocol.TypeCheck: CheckHost, protocol.TypeExec: ExecOnHost, protocol.TypeScan: ScanHostKeys,
		protocol.TypeMaintenance: Maintenance, protocol.TypeCapture: CaptureSeed, protocol.TypeLogin: LoginSeed,
		protocol.TypeRotate: RotateKeys, protocol.TypeBatch: every.batch, protocol.TypePrune: PruneSnapshots, protocol.TypeCheckSnapshots: CheckSnapshots,
		protocol.TypeClaimKey: ClaimKey, protocol.TypeFire: Fire,
	} {
		r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
	}
}
