package workflows

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/session"
)

// torn loses its connection at the moment when its pump is cancelled. The server then does
// not retry the pump.
type torn struct{ *standIn }

func (h *torn) RunPump(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	out, err := h.standIn.RunPump(ctx, in)
	if err == nil && out.Pump.Reason == "cancelled" && activity.GetInfo(ctx).Attempt == 1 {
		return pumps.RunPumpResult{}, temporal.NewApplicationErrorWithOptions("wire lost", protocol.ErrTypeWireLost, temporal.ApplicationErrorOptions{})
	}
	return out, err
}

func TestAPumpThatLosesItsWireWhileCalledBackIsFollowedByTheNext(t *testing.T) {
	r := newReal(t)
	w := worker.New(r.c, r.queue, worker.Options{Identity: neutral, DeadlockDetectionTimeout: 10 * time.Second})
	Register(w)
	w.RegisterActivity(&torn{r.host})
	w.RegisterActivity(&overseer.Engine{Client: r.c})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	r.workers = append(r.workers, w)
	r.start(protocol.PoolID(r.zone), protocol.TypeHostPool, hostpool.Input{Zone: r.zone})
	r.update(protocol.PoolID(r.zone), protocol.UpdatePutHost, nil, put("web-1", 3))
	id := r.session("s", session.Options{})
	r.say(id, "m1", "stay")
	r.until("a pump is attached", func() bool { return r.host.attached(id) })
	r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob"})
	v := r.ended(id, "m1", "interrupted")
	if state := r.view(id).State; state != protocol.Idle || v.Error == nil || v.Error.Kind != "interrupted" {
		t.Errorf("turn is %+v in a session that is %s", v, state)
	}
}
