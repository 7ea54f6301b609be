package hostpool

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

const maxTold = 5

// checkPutAll checks every host as if those before it were in the inventory. It changes
// nothing.
func (p *inventoryPart) checkPutAll(in protocol.PutHosts) error {
	was := *p.st
	defer func() { *p.st = was }()
	p.st.Hosts = slices.Clone(was.Hosts)
	kind := ""
	var told []string
	seen := map[string]bool{}
	for _, h := range in.Hosts {
		err := p.checkPut(h)
		if seen[h.Spec.Name] {
			err = kit.Refuse(protocol.RefusedBadInput, "host %s is listed twice", h.Spec.Name)
		}
		seen[h.Spec.Name] = true
		var why *temporal.ApplicationError
		switch {
		case err == nil:
			p.place(p.resolved(h))
		case !errors.As(err, &why):
			return err
		default:
			kind = cmp.Or(kind, why.Type())
			told = append(told, why.Message())
		}
	}
	switch n := len(told); {
	case n > maxTold:
		return kit.Refuse(kind, "%s; and %d more", strings.Join(told[:maxTold], "; "), n-maxTold)
	case n > 0:
		return kit.Refuse(kind, "%s", strings.Join(told, "; "))
	case len(in.Hosts) == 0:
		return kit.Refuse(protocol.RefusedBadInput, "zone %s was given no hosts", p.zone)
	}
	return p.haveRoom(p.st.Hosts)
}

func (p *inventoryPart) haveRoom(hosts []Host) error {
	n := 0
	for i := range hosts {
		n += kit.Encoded(hosts[i].Spec) + kit.Encoded(hosts[i].Labels)
	}
	if n > MaxOfHosts {
		return kit.Refuse(protocol.RefusedState, "the addresses, keys and labels of %d hosts take %d KiB, and zone %s has room for %d KiB: use another zone", len(hosts), n>>10, p.zone, MaxOfHosts>>10)
	}
	return nil
}

func (p *inventoryPart) resolved(in protocol.PutHost) protocol.PutHost {
	if in.Slots == 0 {
		in.Slots = defaultSlots
	}
	if in.Jump != "" {
		jump := p.host(in.Jump).Spec
		in.Spec.Jump = &jump
	}
	return in
}

func (p *inventoryPart) place(in protocol.PutHost) {
	h := p.host(in.Spec.Name)
	if h == nil {
		p.st.Hosts = append(p.st.Hosts, Host{})
		h = &p.st.Hosts[len(p.st.Hosts)-1]
	}
	*h = Host{Spec: in.Spec, Labels: in.Labels, Slots: in.Slots}
}

func (p *inventoryPart) putAll(in protocol.PutHosts) protocol.PutHostsDone {
	for _, put := range in.Hosts {
		h := p.host(put.Spec.Name)
		if r := p.resolved(put); h != nil && sameSpec(h.Spec, r.Spec) {
			h.Slots, h.Labels, p.work = r.Slots, r.Labels, true
			continue
		}
		p.put(put)
	}
	return protocol.PutHostsDone{Hosts: len(p.st.Hosts)}
}

func sameSpec(a, b protocol.HostSpec) bool {
	//workflowcheck:ignore // a pure function of plain data
	return reflect.DeepEqual(a, b)
}
