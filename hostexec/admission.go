package hostexec

import (
	"context"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

const (
	// dialsAtATime bounds the dials in each lane.
	dialsAtATime = 32
	// slowDials bounds the dials that have left their lane. Each has an open socket.
	slowDials = 512
)

// An admission decides when a dial may begin. So that dials to silent hosts do not delay
// others, hosts whose last dial failed have a lane of their own, and a dial that takes long
// leaves its lane.
type admission struct {
	sure, doubtful, slow chan struct{}

	servers servers
}

func newAdmission() admission {
	return admission{
		sure: make(chan struct{}, dialsAtATime), doubtful: make(chan struct{}, dialsAtATime), slow: make(chan struct{}, slowDials),
		servers: servers{by: map[string]*server{}},
	}
}

// admit waits until an sshd may be dialed; the caller calls release when the dial has
// ended. Dials to one sshd are bounded too, because an sshd refuses logins if too many are
// under way. doubtful says that the last dial to this address failed.
func (p *Pool) admit(ctx context.Context, address string, doubtful bool) (release func(), err error) {
	leave, err := p.servers.enter(ctx, address)
	if err != nil {
		return nil, err
	}
	lane := p.sure
	if doubtful {
		lane = p.doubtful
	}
	select {
	case lane <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
	t := &turn{lane: lane, slow: p.slow, slice: p.dialSlice}
	t.mu.Lock()
	t.timer = time.AfterFunc(t.slice, t.makeWay)
	t.mu.Unlock()
	return func() { t.end(); leave() }, nil
}

// admitBehind returns the admit function for addresses behind a jump host. It takes no
// place in a lane, because the jump host's own dial may wait for one.
func (p *Pool) admitBehind(jump protocol.HostSpec) func(context.Context, string, bool) (func(), error) {
	return func(ctx context.Context, address string, _ bool) (func(), error) {
		return p.servers.enter(ctx, addressOf(jump)+" > "+address)
	}
}

// A turn is a dial's place in its lane or among the slow dials.
type turn struct {
	lane, slow chan struct{}
	slice      time.Duration

	mu    sync.Mutex
	timer *time.Timer // guarded by mu, like all below
	late  bool        // the dial has left its lane for a slow place
	over  bool
}

// makeWay moves the dial to a slow place, or tries again after another slice.
func (t *turn) makeWay() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	select {
	case t.slow <- struct{}{}:
		t.late = true
		<-t.lane
	default:
		t.timer.Reset(t.slice)
	}
}

func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.timer.Stop()
	if t.late {
		<-t.slow
	} else {
		<-t.lane
	}
}

// servers bounds the dials to each sshd.
type servers struct {
	mu sync.Mutex
	by map[string]*server // guarded by mu
}

type server struct {
	places chan struct{}
	users  int // guarded by the mu of its servers
}

func (s *servers) enter(ctx context.Context, address string) (leave func(), err error) {
	s.mu.Lock()
	one, ok := s.by[address]
	if !ok {
		one = &server{places: make(chan struct{}, maxDials)}
		s.by[address] = one
	}
	one.users++
	s.mu.Unlock()
	gone := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(s.by, address)
		}
	}
	select {
	case one.places <- struct{}{}:
		return func() { <-one.places; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}
