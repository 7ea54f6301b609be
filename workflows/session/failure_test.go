package session

import (
	"reflect"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A worker that was found dead causes the same failure as a worker whose heartbeats are
// missing.
func TestADeadWorkerIsTheSameHoweverItIsNoticed(t *testing.T) {
	missed := kit.FailureOf("prepare", temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil))
	found := kit.FailureOf("prepare", temporal.NewApplicationError("its worker died", protocol.ErrTypeWorkerDied))
	if missed.Kind != kit.KindTimeout || !reflect.DeepEqual(missed, found) {
		t.Errorf("missed by its heartbeats: %+v; found dead: %+v", missed, found)
	}
	if !worthAnother(temporal.NewApplicationError("its worker died", protocol.ErrTypeWorkerDied)) {
		t.Error("a pump whose worker died is given up")
	}
}
