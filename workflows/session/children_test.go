package session

import (
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestAChildKeepsThePermissionProfileOfItsParent(t *testing.T) {
	var o Options
	if err := keepsProfile(o, protocol.StartChild{ReadOnly: true}); err != nil {
		t.Errorf("without a profile, read_only is refused: %v", err)
	}
	o.Confine.Profile = "tight"
	if err := keepsProfile(o, protocol.StartChild{ReadOnly: true}); err == nil {
		t.Error("a child that is read-only has no profile")
	}
	if err := keepsProfile(o, protocol.StartChild{}); err != nil {
		t.Errorf("a child with the profile is refused: %v", err)
	}
}
