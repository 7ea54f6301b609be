package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

func TestHostsThatAZoneCannotCarryAreRefusedWhole(t *testing.T) {
	p := newPoolWorld(t)
	large := func(i int) protocol.PutHost {
		h := put(fmt.Sprint("h", i), 1)
		h.Labels = map[string]string{"note": strings.Repeat("x", lease.MaxHost/2)}
		return h
	}
	fit := hostpool.MaxOfHosts/(kit.Encoded(large(0).Spec)+kit.Encoded(large(0).Labels)) - 1
	var all protocol.PutHosts
	for i := range fit + 2 {
		all.Hosts = append(all.Hosts, large(i))
	}
	p.at(0, func() { p.refuses(p.send(protocol.UpdatePutHosts, all), protocol.RefusedState) })
	p.at(time.Second, func() { p.takes(p.send(protocol.UpdatePutHosts, protocol.PutHosts{Hosts: all.Hosts[:fit]})) })
	p.at(2*time.Second, func() {
		p.takes(p.send(protocol.UpdatePutHost, put("small", 1)))
		p.refuses(p.send(protocol.UpdatePutHosts, protocol.PutHosts{Hosts: all.Hosts[fit:]}), protocol.RefusedState)
		grown := protocol.SetHost{Labels: map[string]string{"more": strings.Repeat("x", lease.MaxHost/2-300)}}
		grown.Name = "h0"
		p.takes(p.send(protocol.UpdateSetHost, grown))
		grown.Name = "h1"
		p.refuses(p.send(protocol.UpdateSetHost, grown), protocol.RefusedState)
	})
	p.finish(3 * time.Second)
	p.ExecuteWorkflow(protocol.TypeHostPool, hostpool.Input{})
	p.verify()
}
