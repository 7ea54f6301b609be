package gateways

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// strangersEvery is how often, at most, requests of strangers become a record of a session.
const strangersEvery = time.Minute

// strangers counts the refused requests to the gateway of a session. It bounds what they add to the
// worker's log and to the audit record: one record a minute, which has the number of the requests. The
// first request is recorded at once. The others are recorded with the first one after the minute, or
// when the Gate closes.
type strangers struct {
	verb, what string // of the record
	host       string

	mu    sync.Mutex
	told  time.Time // guarded by mu, like all below; of the newest line
	since time.Time // of the first request that is not told yet
	n     int64     // requests that are not told yet
	from  string    // address of the newest of them, as the host tells it
}

// refused takes a refused request from an address, and returns what is to be told of it and of those before it.
func (s *strangers) refused(session, from string, now time.Time) (r audit.Record, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n == 1 {
		s.since = now
	}
	s.from = from
	if !s.told.IsZero() && now.Sub(s.told) < strangersEvery {
		return r, false
	}
	return s.take(session, now), true
}

// rest returns what is not told yet.
func (s *strangers) rest(session string, now time.Time) (r audit.Record, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return r, false
	}
	return s.take(session, now), true
}

// strangersOf returns two counters for a host. The first counts requests to the model without a valid
// token. The second counts requests for the way out by programs that are not the session's.
func strangersOf(host string) (model, egress strangers) {
	return strangers{host: host, verb: audit.ModelAsk, what: "requests to the model gateway without a valid token"},
		strangers{host: host, verb: audit.EgressAsk, what: "requests for the way out of the session's programs by others"}
}

// take is called with the lock.
func (s *strangers) take(session string, now time.Time) audit.Record {
	r := audit.Record{Source: audit.Workflow, Verb: s.verb, Object: protocol.SessionID(session), Outcome: audit.Refused,
		Reason: fmt.Sprintf("%s: %d since %s, on host %s, the newest from %s there",
			s.what, s.n, audit.TimeText(s.since), s.host, cmp.Or(s.from, "an unknown address"))}
	s.told, s.n = now, 0
	return r
}
