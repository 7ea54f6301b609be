package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mostEgressHosts bounds the hosts that an EgressUse names.
const mostEgressHosts = 32

// An EgressUse is what the programs of a session reached through a worker, or were refused. A worker that
// dies loses what its last pump had not reported yet.
type EgressUse struct {
	Connections int64 `json:"connections"`
	// Failed counts targets that the worker did not reach, Refused those that it did not try to reach.
	Failed  int64 `json:"failed,omitempty"`
	Refused int64 `json:"refused,omitempty"`
	// Cut counts connections that ended although neither of their ends had closed them.
	Cut int64 `json:"cut,omitempty"`
	// Sent and Received are the bytes of connections that have ended.
	Sent     int64 `json:"sent_bytes,omitempty"`
	Received int64 `json:"received_bytes,omitempty"`
	// Hosts are the first that were asked for. Others are in the sums alone.
	Hosts []EgressHost `json:"hosts,omitempty"`
	// LastRefused says why the last refusal was made, and whose target it was; LastCut why the last
	// connection was cut.
	LastRefused string `json:"last_refused,omitempty"`
	LastCut     string `json:"last_cut,omitempty"`
}

// An EgressHost is the use of one target.
type EgressHost struct {
	Host        string `json:"host"`
	Port        uint16 `json:"port"`
	Connections int64  `json:"connections,omitempty"`
	Failed      int64  `json:"failed,omitempty"`
	Refused     int64  `json:"refused,omitempty"`
	Cut         int64  `json:"cut,omitempty"`
	Sent        int64  `json:"sent_bytes,omitempty"`
	Received    int64  `json:"received_bytes,omitempty"`
}

// An EgressEvent is the beginning or the end of a connection, or a refusal.
type EgressEvent struct {
	Host                       string // empty if the target is not known
	Port                       uint16
	Open, Failed, Refused, Cut bool
	Sent, Received             int64
	Why                        string
}

// None reports whether there is no use.
func (u *EgressUse) None() bool { return u.Connections+u.Failed+u.Refused+u.Cut+u.Sent+u.Received == 0 }

// Count counts an event.
func (u *EgressUse) Count(e EgressEvent) {
	one := func(yes bool) int64 {
		if yes {
			return 1
		}
		return 0
	}
	of := EgressHost{Host: e.Host, Port: e.Port, Connections: one(e.Open), Failed: one(e.Failed), Refused: one(e.Refused), Cut: one(e.Cut), Sent: e.Sent, Received: e.Received}
	u.Connections, u.Failed, u.Refused, u.Cut = u.Connections+of.Connections, u.Failed+of.Failed, u.Refused+of.Refused, u.Cut+of.Cut
	u.Sent, u.Received = u.Sent+of.Sent, u.Received+of.Received
	if e.Refused {
		u.LastRefused = cutWord(e.Why)
	}
	if e.Cut {
		u.LastCut = cutWord(fmt.Sprintf("%s:%d: %s", e.Host, e.Port, e.Why))
	}
	if e.Host != "" {
		u.add(of)
	}
}

func (u *EgressUse) add(of EgressHost) {
	i := slices.IndexFunc(u.Hosts, func(h EgressHost) bool { return h.Host == of.Host && h.Port == of.Port })
	if i < 0 && len(u.Hosts) < mostEgressHosts {
		u.Hosts = append(u.Hosts, of)
	}
	if i < 0 {
		return
	}
	h := &u.Hosts[i]
	h.Connections, h.Failed, h.Refused, h.Cut = h.Connections+of.Connections, h.Failed+of.Failed, h.Refused+of.Refused, h.Cut+of.Cut
	h.Sent, h.Received = h.Sent+of.Sent, h.Received+of.Received
}

// Add adds what a pump tells.
func (u *EgressUse) Add(more *EgressUse) {
	if more == nil {
		return
	}
	u.Connections, u.Failed, u.Refused, u.Cut = u.Connections+more.Connections, u.Failed+more.Failed, u.Refused+more.Refused, u.Cut+more.Cut
	u.Sent, u.Received = u.Sent+more.Sent, u.Received+more.Received
	u.LastRefused, u.LastCut = cmp.Or(more.LastRefused, u.LastRefused), cmp.Or(more.LastCut, u.LastCut)
	for _, h := range more.Hosts {
		u.add(h)
	}
}

// Text says in one line what was reached and refused.
func (u *EgressUse) Text() string {
	var parts []string
	for _, h := range u.Hosts {
		at := fmt.Sprintf("%s:%d", h.Host, h.Port)
		if h.Connections > 0 || h.Sent+h.Received > 0 {
			parts = append(parts, fmt.Sprintf("%s %d times (%d bytes out, %d in)", at, h.Connections, h.Sent, h.Received))
		}
		if h.Failed > 0 {
			parts = append(parts, fmt.Sprintf("%s not reached %d times", at, h.Failed))
		}
		if h.Refused > 0 {
			parts = append(parts, fmt.Sprintf("%s refused %d times", at, h.Refused))
		}
		if h.Cut > 0 {
			parts = append(parts, fmt.Sprintf("%s cut %d times", at, h.Cut))
		}
	}
	text := fmt.Sprintf("%d connections, %d failed, %d refused", u.Connections, u.Failed, u.Refused)
	if u.Cut > 0 {
		text += fmt.Sprintf(", %d cut", u.Cut)
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if u.LastRefused != "" {
		text += "; last refusal: " + u.LastRefused
	}
	if u.LastCut != "" {
		text += "; last cut: " + u.LastCut
	}
	return text
}
