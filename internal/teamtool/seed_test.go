package teamtool

import (
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestASessionHasTheToolsOfItsSeedAndItsOwnInOrder(t *testing.T) {
	seed, err := OfSeed([]byte(`{"tools":[{"name":"lookup","description":"a","webhook":"https://a.example/lookup"},{"name":"deploy","description":"a","activity":{"queue":"q","type":"Deploy"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	own := []protocol.TeamTool{{Name: "page"}, {Name: "lookup", Webhook: "https://b.example/lookup"}}
	var got []string
	for _, tool := range Join(seed, own) {
		got = append(got, tool.Name+" "+tool.Webhook)
	}
	if want := []string{"deploy ", "page ", "lookup https://b.example/lookup"}; !slices.Equal(got, want) {
		t.Errorf("the tools are %q, want %q", got, want)
	}
	if all := Join(nil, own); len(all) != 2 {
		t.Errorf("without a seed: %+v", all)
	}
	want := []protocol.SeedTool{{Name: "lookup", Handler: "webhook https://a.example/lookup"}, {Name: "deploy", Handler: "activity Deploy on the queue q"}}
	if got := Shown(seed); !slices.Equal(got, want) {
		t.Errorf("shown are %+v", got)
	}
	if none, err := OfSeed(nil); none != nil || err != nil {
		t.Errorf("a seed without tools: %v, %v", none, err)
	}
}

func TestToolsOfASeedMayNotHaveNamesOfOurs(t *testing.T) {
	for _, name := range append(slices.Clone(protocol.Tools), protocol.ChildTools...) {
		_, err := OfSeed([]byte(`{"tools":[{"name":"` + name + `","description":"a","webhook":"https://a.example/a"}]}`))
		if err == nil || !strings.Contains(err.Error(), "has a tool of this name") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
