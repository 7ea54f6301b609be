package hostpool

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// workflows/session/drain.go says what a drain means for a session.

func checkDrain(d *protocol.Draining) error {
	if err := kit.Short([]kit.Text{{What: "by", Is: d.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "drain: %v", err)
	}
	switch d.How {
	case "", protocol.DrainPark, protocol.DrainMove:
		return nil
	}
	return kit.Refuse(protocol.RefusedBadInput, "drain: unknown mode %.100q: use park or move", d.How)
}

func (p *healthPart) beginDrain(h *Host, d protocol.Draining) {
	d.How = cmp.Or(d.How, protocol.DrainPark)
	if was := h.Draining; was != nil && was.How == d.How {
		return
	}
	d.Since = workflow.Now(p.ctx)
	h.Draining, h.Cordon = &d, true
	p.work = true
}

// haveLeave tells the holders of slots on drained hosts to leave, or to stay if a drain was
// called off.
func (p *slotsPart) haveLeave() {
	type told struct {
		holder string
		what   lease.LeaveHost
	}
	var letters []told
	var cold []Lease
	for i := range p.st.Leases {
		l := &p.st.Leases[i]
		var d *protocol.Draining
		if h := p.host(l.Host); h != nil {
			d = h.Draining
		}
		switch {
		case d != nil && l.Warm != nil:
			cold = append(cold, *l)
		case d != nil && !l.Leaves.Equal(d.Since):
			l.Leaves = d.Since
			letters = append(letters, told{l.Holder, lease.LeaveHost{Draining: *d, Host: l.Host, Epoch: l.Epoch}})
		case d == nil && !l.Leaves.IsZero():
			l.Leaves = time.Time{}
			letters = append(letters, told{l.Holder, lease.LeaveHost{Host: l.Host, Epoch: l.Epoch, Off: true}})
		}
	}
	for _, l := range cold {
		p.giveUpWarm(l, fmt.Sprintf("host %s is being drained", l.Host))
	}
	sent := make([]workflow.Future, 0, len(letters))
	for _, l := range letters {
		sent = append(sent, workflow.SignalExternalWorkflow(p.ctx, protocol.SessionID(l.holder), "", lease.SignalLeave, l.what))
	}
	for i, fut := range sent {
		if err := fut.Get(p.ctx, nil); err != nil { // the check for ended holders covers a holder that is gone
			workflow.GetLogger(p.ctx).Warn("holder not told to leave", "holder", letters[i].holder, "error", err)
		}
	}
}

func (p *healthPart) drained(h *Host) bool {
	name := h.Spec.Name
	return p.used(name) == 0 && p.parkedOn(name) == 0 && !p.lies(name)
}
