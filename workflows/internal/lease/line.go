package lease

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A Ticket is a request in line, and what its holder was told last.
type Ticket struct {
	Acquire
	Told   string `json:"told,omitempty"`
	Rung   int    `json:"rung,omitempty"`   // the rung (see rungs) of the place that its holder was told
	Paused bool   `json:"paused,omitempty"` // its holder was told that the zone is paused

	Key  string `json:"-"` // what it asks for, equal for equal requests
	size int    `json:"-"` // see bytes
}

// Bytes returns the size of the request in JSON. It is computed once.
func (t *Ticket) Bytes() int {
	if t.size == 0 {
		t.size = kit.Encoded(t.Acquire)
	}
	return t.size
}

// Urgency returns the priority of a ticket, or the default if it has no valid one.
func (t *Ticket) Urgency() int {
	if t.Priority < protocol.FirstPriority || t.Priority > protocol.LastPriority {
		return protocol.DefaultPriority
	}
	return t.Priority
}

// Who returns the holder and its run.
func (t Ticket) Who() Who { return Who{t.Holder, t.Run} }

// Before says how many wait before a place in a line.
func Before(n int) string {
	switch n {
	case 0:
		return "; nobody waits before it"
	case 1:
		return "; 1 waits before it"
	}
	return fmt.Sprintf("; %d wait before it", n)
}

// Exactly is the number of requests at the head of the line whose sessions are told
// each new reason why they wait. The others are told only that they wait, because
// otherwise each grant would need a signal to every waiting session.
const Exactly = 20

// LineFull returns why a session has no place in a line. The session still waits, and asks
// again (RetryAfter), so the messages that it accepted are not lost.
func LineFull(why, mend string) *protocol.Failure {
	return &protocol.Failure{Kind: "busy", Message: kit.Cut(why, kit.MaxFailure), Hint: "it asks again by itself; " + mend}
}

// RetryAfter returns when the n-th session that has no place in a line asks again.
// Each asks a little later than the one before, so that they do not come all at
// once.
func RetryAfter(n int) time.Duration { return 5*time.Minute + time.Duration(n%300)*time.Second }

// MaxLine bounds a line. A session that finds no place in it is told when to ask again
// (LineFull).
const MaxLine = 2000

// MaxHost bounds one host's spec and labels, and one request, in bytes of JSON.
const MaxHost = 16 << 10

// CheckWants refuses what no pool would accept in a request for a slot.
func (a Acquire) CheckWants() error {
	for _, list := range [][]string{a.Select, a.Rather} {
		if _, err := protocol.ParseSelectors(list); err != nil {
			return err
		}
	}
	switch {
	case a.Tenant != "" && !protocol.NamePattern.MatchString(a.Tenant):
		return fmt.Errorf("tenant %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", kit.Cut(a.Tenant, kit.MaxWord))
	case a.Priority < 0 || a.Priority > protocol.LastPriority:
		return fmt.Errorf("priority %d is none of %d (first) to %d (last)", a.Priority, protocol.FirstPriority, protocol.LastPriority)
	}
	return nil
}
