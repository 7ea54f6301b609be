package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/care"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/outbox"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
	"fairlead.dev/fairlead/workflows/toolcall"
)

// Register makes r serve every workflow.
func Register(r worker.WorkflowRegistry) { register(r, kit.Usual) }

func register(r worker.WorkflowRegistry, every kit.Intervals) {
	for name, w := range map[string]any{
		protocol.TypeSession: session.Run(every), protocol.TypeHostPool: hostpool.Run(every), protocol.TypeSeed: seed.Run(every), protocol.TypeSeedPool: seed.RunPool(every),
		protocol.TypeProvision: hostpool.ProvisionHost, protocol.TypeCheck: hostpool.CheckHost, protocol.TypeExec: hostpool.ExecOnHost, protocol.TypeScan: hostpool.ScanHostKeys,
		protocol.TypeMaintenance: care.Maintenance, protocol.TypeCapture: seed.CaptureSeed, protocol.TypeLogin: seed.LoginSeed,
		protocol.TypeRotate: care.RotateKeys, protocol.TypeRecover: care.RecoverSeeds, protocol.TypeBatch: batch.Run(every), protocol.TypePrune: care.PruneSnapshots, protocol.TypeCheckSnapshots: care.CheckSnapshots,
		protocol.TypeToolCall: toolcall.Call, protocol.TypeOutbox: outbox.Run,
		protocol.TypeClaimKey: care.ClaimKey, protocol.TypeFire: schedule.Fire,
	} {
		r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
	}
}
