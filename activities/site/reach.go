package site

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A reach is what this worker knows of hosts out of reach.
type reach struct {
	mu   sync.Mutex
	away map[string]OutOfReach // guarded by mu
}

// Know takes over another attempt's recent findings, unless this worker's own recent ones
// begin as early.
func (r *reach) Know(h protocol.HostSpec, told *OutOfReach, now time.Time) {
	if told == nil || now.Sub(told.Last) > untried {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.away[kit.KeyOfHost(h)]; !ok || now.Sub(have.Last) > untried || told.Since.Before(have.Since) {
		r.set(h, *told)
	}
}

// set needs mu.
func (r *reach) set(h protocol.HostSpec, o OutOfReach) {
	if r.away == nil {
		r.away = map[string]OutOfReach{}
	}
	r.away[kit.KeyOfHost(h)] = o
}

// Reached forgets that the host was away.
func (r *reach) Reached(h protocol.HostSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.away, kit.KeyOfHost(h))
}

// Missed records a failed try. It returns nil if the error does not mean that the host is
// out of reach.
func (r *reach) Missed(h protocol.HostSpec, err error, why string, now time.Time) *OutOfReach {
	switch {
	case answered(err):
		r.Reached(h)
		return nil
	case !IsOutOfReach(err):
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.away[kit.KeyOfHost(h)]
	if !ok || now.Sub(o.Last) > untried {
		o.Since = now
	}
	o.Last, o.Why = now, why
	r.set(h, o)
	return &o
}

// Now returns nil if a host is not out of reach.
func (r *reach) Now(h protocol.HostSpec) *OutOfReach {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.away[kit.KeyOfHost(h)]
	if !ok {
		return nil
	}
	return &o
}

// OutOfReach says since when all tries to reach a host failed. A pump's heartbeats carry it
// to the next attempt.
type OutOfReach struct {
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	Why   string    `json:"why"`
}

// answered reports whether the error is the host's answer.
func answered(err error) bool {
	for _, e := range []error{hostexec.ErrAuth, hostexec.ErrHostKeyChanged, hostexec.ErrHostKeyUnknown, hostexec.ErrFenced,
		hostexec.ErrLocked, hostexec.ErrFlood, hostexec.ErrNoSpace, hostexec.ErrUnsupported, hostexec.ErrNotExist} {
		if errors.Is(err, e) {
			return true
		}
	}
	var exit *hostexec.ExitError
	return errors.As(err, &exit) || kit.IsRootMissing(err)
}

// IsOutOfReach reports whether the host did not answer and our machine is not at fault.
func IsOutOfReach(err error) bool {
	lost := errors.Is(err, hostexec.ErrUnreachable) || errors.Is(err, hostexec.ErrOutcomeUnknown) || errors.Is(err, conversation.ErrWireLost)
	return lost && !errors.Is(err, kit.ErrHandOver) && !ourOwnFault(err)
}

var ourFaults = []error{syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EADDRNOTAVAIL, syscall.ENOBUFS,
	syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM}

func ourOwnFault(err error) bool {
	for _, e := range ourFaults {
		if errors.Is(err, e) {
			return true
		}
	}
	// An unknown name is the host's fault; a silent name service is not.
	var name *net.DNSError
	return errors.As(err, &name) && !name.IsNotFound
}

// untried is the longest time between two failed tries during which a host counts as out of
// reach.
const untried = 2 * time.Minute
