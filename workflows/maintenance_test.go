package workflows

import (
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/care"
)

func TestHostsWhoseCheckIsOldAreCheckedByMaintenance(t *testing.T) {
	r := newReal(t)
	r.work()
	r.update(protocol.PoolID(r.zone), protocol.UpdatePutHost, nil, put(r.zone, 1)) // no other test uses a host of this name
	maintained := func(id string) care.MaintenanceResult {
		t.Helper()
		r.start(id, protocol.TypeMaintenance, care.MaintenanceInput{Hosts: time.Hour, Zone: r.zone})
		var out care.MaintenanceResult
		if err := r.c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := maintained(protocol.MaintainHostsID(r.zone))
	if h := first.Hosts; h == nil || len(first.Problems) > 0 || h.Seen != 2 || !slices.Contains(h.Begun, r.zone) || !slices.Contains(h.Begun, "web-1") {
		t.Errorf("it did %+v", first)
	}
	r.until("the pool knows what was found", func() bool {
		for _, name := range []string{r.zone, "web-1"} {
			if asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, name).State != "ready" {
				return false
			}
		}
		return true
	})
	if h := maintained(protocol.MaintainHostsID(r.zone) + "/again").Hosts; h == nil || h.Seen != 2 || len(h.Begun) > 0 || h.Left > 0 {
		t.Errorf("what was checked just now was checked again: %+v", h)
	}
}
