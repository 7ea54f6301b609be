package authority

import (
	"testing"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// Whoever may write to Temporal has workers of their own, which start children with what
// our workers once wrote, such as the result of a workflow of the same id.
func TestAWorkflowThatOursNeverStartIsNoChild(t *testing.T) {
	for name, want := range map[string]bool{
		protocol.TypeRotate: false, protocol.TypeRecover: false, protocol.TypeCheckSnapshots: false, protocol.TypeMaintenance: false, protocol.TypeExec: false,
		protocol.TypeCapture: false, protocol.TypeLogin: false, protocol.TypeProvision: false, protocol.TypeCheck: false,
		protocol.TypeScan: false, protocol.TypeFire: false, protocol.TypeClaimKey: false, protocol.TypeToolCall: false,
		protocol.TypeSession: true, protocol.TypeBatch: true, protocol.TypeSeedPool: true, protocol.TypeSeed: true, protocol.TypeHostPool: true, protocol.TypePrune: true, protocol.TypeOutbox: true,
	} {
		if why := onlyByWorkers(name, false, payload.FromWorker, nil); (why == "") != want {
			t.Errorf("%s as a child: %q", name, why)
		}
	}
	if why := onlyByWorkers(protocol.TypeRotate, true, payload.FromOthers, nil); why != "" {
		t.Errorf("a start that a person signed: %q", why)
	}
}
