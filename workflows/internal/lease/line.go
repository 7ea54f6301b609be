package lease

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// A Ticket is a request in line, and what its holder was told.
type Ticket struct {
	Acquire
	Told   string `json:"told,omitempty"`
	Rung   int    `json:"rung,omitempty"`   // of the place that was told: see hostpool.Rungs
	Paused bool   `json:"paused,omitempty"` // told that the zone is paused

	Key  string `json:"-"` // equal for equal requests
	size int    `json:"-"`
}

// Bytes returns the size of the request in JSON.
func (t *Ticket) Bytes() int {
	if t.size == 0 {
		t.size = kit.Encoded(t.Acquire)
	}
	return t.size
}

// Urgency returns the priority, or the default if not valid.
func (t *Ticket) Urgency() int {
	if t.Priority < protocol.FirstPriority || t.Priority > protocol.LastPriority {
		return protocol.DefaultPriority
	}
	return t.Priority
}

// Who returns the holder and its run.
func (t Ticket) Who() Who { return Who{t.Holder, t.Run} }

// Before says how many wait before a place.
func Before(n int) string {
	switch n {
	case 0:
		return "; nobody waits before it"
	case 1:
		return "; 1 waits before it"
	}
	return fmt.Sprintf("; %d wait before it", n)
}

// Exactly is how many requests at the head of the line are told each new reason why they
// wait. To tell all would cost a signal to each with every grant.
const Exactly = 20

// LineFull returns why a session has no place in a line. The session still waits, and asks
// again (RetryAfter), so that its messages are not lost.
func LineFull(why, mend string) *protocol.Failure {
	return &protocol.Failure{Kind: "busy", Message: kit.Cut(why, kit.MaxFailure), Hint: "it asks again by itself; " + mend}
}

// RetryAfter spreads the times at which sessions without a place ask again.
func RetryAfter(n int) time.Duration { return 5*time.Minute + time.Duration(n%300)*time.Second }

// MaxLine bounds the requests in a line.
const MaxLine = 2000

// MaxHost bounds one host's spec and labels, and one request, in bytes of JSON.
const MaxHost = 16 << 10

// CheckWants refuses what no pool accepts.
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
		return fmt.Errorf("priority %d is out of range (%d, the first, to %d, the last)", a.Priority, protocol.FirstPriority, protocol.LastPriority)
	}
	return nil
}
