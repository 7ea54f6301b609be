package workflows

import (
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
)

func (p *poolWorld) hostNames() []string {
	var out []string
	for _, h := range query[[]protocol.HostView](p.world, protocol.QueryHosts) {
		out = append(out, h.Name)
	}
	return out
}

func TestManyHostsAreAddedTogetherOrNotAtAll(t *testing.T) {
	p := newPoolWorld(t)
	over := func(name, jump string) protocol.PutHost {
		h := put(name, 2)
		h.Jump = jump
		return h
	}
	p.at(0, func() { p.takes(p.send(protocol.UpdatePutHost, put("web-1", 1))) })
	p.at(time.Second, func() {
		p.takes(p.send(protocol.UpdateSetHost, protocol.SetHost{Name: "web-1", Codex: "0.169.0"}))
		unpinned := put("web-4", 1)
		unpinned.Spec.HostKeys = nil
		for kind, bad := range map[string][]protocol.PutHost{
			protocol.RefusedState:    {put("web-2", 1), put("web-1", 3)},
			protocol.RefusedNotFound: {over("web-2", "gate"), put("gate", 1)}, // the jump host must come first
			protocol.RefusedBadInput: {put("web-2", 1), unpinned},
		} {
			p.refuses(p.send(protocol.UpdatePutHosts, protocol.PutHosts{Hosts: bad}), kind)
		}
		p.refuses(p.send(protocol.UpdatePutHosts, protocol.PutHosts{Hosts: []protocol.PutHost{put("web-2", 1), put("web-2", 1)}}), protocol.RefusedBadInput)
		p.refuses(p.send(protocol.UpdatePutHosts, protocol.PutHosts{}), protocol.RefusedBadInput)
		if got := p.hostNames(); !slices.Equal(got, []string{"local", "web-1"}) {
			t.Errorf("after all was refused there are %q", got)
		}
	})
	p.at(2*time.Second, func() {
		again := put("web-1", 7)
		again.Labels, again.Replace = map[string]string{"gpu": "no"}, true
		p.takes(p.send(protocol.UpdatePutHosts, protocol.PutHosts{Hosts: []protocol.PutHost{put("gate", 1), over("web-2", "gate"), again}}))
	})
	p.at(3*time.Second, func() {
		if got := p.hostNames(); !slices.Equal(got, []string{"gate", "local", "web-1", "web-2"}) {
			t.Errorf("there are %q", got)
		}
		if h := query[protocol.HostView](p.world, protocol.QueryHost, "web-2"); h.Spec.Jump == nil || h.Spec.Jump.Name != "gate" || h.Slots != 2 {
			t.Errorf("web-2 is %+v", h)
		}
		// The host's address is the same, so what was found out about the host stays.
		if h := query[protocol.HostView](p.world, protocol.QueryHost, "web-1"); h.Slots != 7 || h.Labels["gpu"] != "no" || h.Codex != "0.169.0" {
			t.Errorf("web-1 is %+v", h)
		}
	})
	p.finish(4 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}
