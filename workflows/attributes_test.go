package workflows

import (
	"slices"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/cluster"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A workflow task that sets an attribute which `ctl cluster prepare` does not register would
// fail on every cluster but ours.
func TestEverySearchAttributeOfAWorkflowIsOneThatAClusterIsCheckedFor(t *testing.T) {
	var set []cluster.Attribute
	for _, a := range []temporal.SearchAttributeKey{kit.AttrState, kit.AttrHost, kit.AttrSeed, kit.AttrThread, kit.AttrWaits, kit.AttrApprovals,
		kit.AttrTurn, kit.AttrOrigin, kit.AttrProgress, kit.AttrName, kit.AttrArchived} {
		set = append(set, cluster.Attribute{Name: a.GetName(), Type: enums.IndexedValueType(a.GetValueType())})
	}
	slices.SortFunc(set, func(a, b cluster.Attribute) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	if want := cluster.Attributes(); !slices.Equal(set, want) {
		t.Errorf("workflows set %v, a cluster is checked for %v", set, want)
	}
}
