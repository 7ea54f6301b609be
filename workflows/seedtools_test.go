package workflows

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestASeedShowsTheToolsOfItsNewestBundle(t *testing.T) {
	p, _ := newVerifyWorld(t, []string{"fresh"}, nil)
	tools := []protocol.SeedTool{{Name: "lookup", Handler: "webhook https://tools.example/lookup"}, {Name: "deploy", Handler: "activity Deploy on the queue q"}}
	shows := func(want []protocol.SeedTool) {
		t.Helper()
		if v := p.seed(); !slices.Equal(v.Tools, want) {
			t.Errorf("its tools are %+v, want %+v", v.Tools, want)
		}
	}
	p.at(time.Second, func() {
		shows(nil)
		with := login("2")
		with.Tools = tools
		p.takes(p.send(protocol.UpdatePutSeed, with))
	})
	p.at(2*time.Second, func() {
		shows(tools)
		for _, bad := range [][]protocol.SeedTool{{{Name: "a b"}}, {{Name: protocol.ToolFinish}}, {{Name: "a"}, {Name: "a"}}, {{Name: "a", Handler: strings.Repeat("h", protocol.MaxSeedHandler+1)}}} {
			with := login("3")
			with.Tools = bad
			p.refuses(p.send(protocol.UpdatePutSeed, with), protocol.RefusedBadInput)
		}
		shows(tools)
		p.takes(p.send(protocol.UpdatePutSeed, login("4")))
	})
	p.at(3*time.Second, func() { shows(nil) })
	p.runSeed(time.Minute)
}
