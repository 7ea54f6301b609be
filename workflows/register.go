package workflows

import (
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// intervals are how often workflows do some things. Tests choose shorter ones.
type intervals struct {
	// reap is how often a workflow checks whether the holders of leases have ended.
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
		TypeSession: every.session, TypeHostPool: every.hostPool, TypeSeed: every.seed, TypeSeedPool: every.seedPool,
		TypeProvision: ProvisionHost, TypeCheck: CheckHost, TypeExec: ExecOnHost, TypeScan: ScanHostKeys,
		TypeMaintenance: Maintenance, TypeCapture: CaptureSeed, TypeLogin: LoginSeed,
		TypeRotate: RotateKeys, TypeBatch: every.batch, TypePrune: PruneSnapshots, TypeCheckSnapshots: CheckSnapshots,
		TypeClaimKey: ClaimKey, TypeFire: Fire,
	} {
		r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
	}
}
