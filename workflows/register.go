package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Register makes a worker serve every workflow of this package.
func Register(r worker.WorkflowRegistry) {
	for name, w := range map[string]any{
		TypeSession: Session, TypeHostPool: HostPool, TypeSeed: Seed, TypeSeedPool: SeedPool,
		TypeProvision: ProvisionHost, TypeCheck: CheckHost, TypeExec: ExecOnHost, TypeScan: ScanHostKeys,
		TypeMaintenance: Maintenance, TypeCapture: CaptureSeed, TypeLogin: LoginSeed,
		TypeRotate: RotateKeys, TypeBatch: Batch, TypePrune: PruneSnapshots, TypeCheckSnapshots: CheckSnapshots,
		TypeClaimKey: ClaimKey, TypeFire: Fire,
	} {
		r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
	}
}
