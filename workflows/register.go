package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// Register makes a worker serve every workflow of this package.
func Register(r worker.WorkflowRegistry) { register(r, usual) }

func register(r worker.WorkflowRegistry, every intervals) {
	for name, w := range map[string]any{
		protocol.TypeSession: sessionWorkflow(every), protocol.TypeHostPool: poolWorkflow(every), protocol.TypeSeed: seedWorkflow(every), protocol.TypeSeedPool: seedPoolWorkflow(every),
		protocol.TypeProvision: ProvisionHost, protocol.TypeCheck: CheckHost, protocol.TypeExec: ExecOnHost, protocol.TypeScan: ScanHostKeys,
		protocol.TypeMaintenance: Maintenance, protocol.TypeCapture: CaptureSeed, protocol.TypeLogin: LoginSeed,
		protocol.TypeRotate: RotateKeys, protocol.TypeBatch: batchWorkflow(every), protocol.TypePrune: PruneSnapshots, protocol.TypeCheckSnapshots: CheckSnapshots,
		protocol.TypeClaimKey: ClaimKey, protocol.TypeFire: Fire,
	} {
		r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
	}
}
