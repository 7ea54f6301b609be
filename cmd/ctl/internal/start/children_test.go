package start

import (
	"reflect"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestChildrenAreANumberOrBounds(t *testing.T) {
	for text, want := range map[string]*protocol.Children{
		"4": {Max: 4}, "4,keep": {Max: 4, Keep: true}, "max=8,depth=2,seed=b,seed=a,host=web-1,seed-pool=p,model=m": {Max: 8, Depth: 2, Seeds: []string{"a", "b"}, Hosts: []string{"web-1"}, SeedPools: []string{"p"}, Models: []string{"m"}},
		"": nil, "0": nil, "65": nil, "max=4,depth=4": nil, "depth=2": nil, "4,seed": nil, "4,seed=a,seed=a": nil, "4,seed=A b": nil, "4,colour=red": nil, "many": nil,
	} {
		got, err := parseChildren(text)
		if (err == nil) != (want != nil) || want != nil && !reflect.DeepEqual(got, want) {
			t.Errorf("--children %s: %+v, %v", text, got, err)
		}
	}
}
