package session

import (
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestASessionRemembersWhereItLeftALogin(t *testing.T) {
	s := assembled(&core{id: "s1", ctx: nil, st: &State{placeState: placeState{SeedGone: true, Touched: true, Generation: 5,
		Lease: &HostLease{Spec: protocol.HostSpec{Name: "web-1"}}}}})
	s.leases.leavesSeed(false)
	if p := s.st.SeedLeftOn; p == nil || p.Spec.Name != "web-1" || p.Generation != 5 {
		t.Errorf("left on %+v", p)
	}
}
