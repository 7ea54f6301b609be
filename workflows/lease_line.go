package workflows

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A ticket is a request in line, and what its holder was told last.
type ticket struct {
	acquire
	Told   string `json:"told,omitempty"`
	Rung   int    `json:"rung,omitempty"`   // the rung (see rungs) of the place that its holder was told
	Paused bool   `json:"paused,omitempty"` // its holder was told that the zone is paused

	key  string `json:"-"` // what it asks for, equal for equal requests
	size int    `json:"-"` // see bytes
}

func (t *ticket) bytes() int {
	if t.size == 0 {
		t.size = encoded(t.acquire)
	}
	return t.size
}

// priority returns the priority of a ticket, or the default if it has no valid one.
func (t *ticket) priority() int {
	if t.Priority < protocol.FirstPriority || t.Priority > protocol.LastPriority {
		return protocol.DefaultPriority
	}
	return t.Priority
}

func (t ticket) who() who { return who{t.Holder, t.Run} }

func before(n int) string {
	switch n {
	case 0:
		return "; nobody waits before it"
	case 1:
		return "; 1 waits before it"
	}
	return fmt.Sprintf("; %d wait before it", n)
}

// exactly is the number of requests at the head of the line whose sessions are told
// each new reason why they wait. The others are told only that they wait, because
// otherwise each grant would need a signal to every waiting session.
const exactly = 20

// lineFull returns why a session has no place in a line. The session still waits, and asks
// again (retryAfter), so the messages that it accepted are not lost.
func lineFull(why, mend string) *protocol.Failure {
	return &protocol.Failure{Kind: "busy", Message: excerpt(why, maxFailure), Hint: "it asks again by itself; " + mend}
}

// retryAfter returns when the n-th session that has no place in a line asks again.
// Each asks a little later than the one before, so that they do not come all at
// once.
func retryAfter(n int) time.Duration { return 5*time.Minute + time.Duration(n%300)*time.Second }

// maxLine and maxAsked bound the line. A session that finds no place in it is
// told when to ask again (lineFull).
const maxLine = 2000

const maxHost = 16 << 10 // bytes of one host's spec and labels

// checkWants refuses what no pool would accept in a request for a slot.
func (a acquire) checkWants() error {
	for _, list := range [][]string{a.Select, a.Rather} {
		if _, err := protocol.ParseSelectors(list); err != nil {
			return err
		}
	}
	switch {
	case a.Tenant != "" && !protocol.NamePattern.MatchString(a.Tenant):
		return fmt.Errorf("tenant %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", excerpt(a.Tenant, maxWord))
	case a.Priority < 0 || a.Priority > protocol.LastPriority:
		return fmt.Errorf("priority %d is none of %d (first) to %d (last)", a.Priority, protocol.FirstPriority, protocol.LastPriority)
	}
	return nil
}
