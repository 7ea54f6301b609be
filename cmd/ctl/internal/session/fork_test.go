package session

import (
	"testing"

	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/snapshots"
)

// A snapshot says why it holds more of the work folder than was asked for.
func TestASnapshotSaysWhyItIsFull(t *testing.T) {
	m := snapshots.Manifest{Facts: snapshots.Facts{Work: "full"}, WorkWhy: "it has no remote"}
	if got := show.WorkText(m); got != "full, though git was asked for: it has no remote" {
		t.Errorf("it is shown as %q", got)
	}
}
