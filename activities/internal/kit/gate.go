package kit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A move takes some tens of megabytes, bulk channels and an activity slot. Pumps need
// slots, too, so few may wait in theirs.
const (
	MovesPerWorker = 4
	MovesPerHost   = 2
	MovesWaiting   = 16
)

// busyPause is long because an attempt costs the server work, and random so that not all
// return at once.
func busyPause() time.Duration { return 10*time.Second + rand.N(30*time.Second) }

// A Gate limits moves of snapshots, in all and for each host. Hosts take turns and share
// the places to wait, so that no slow host takes all.
type Gate struct {
	all, perHost, waiting int

	mu     sync.Mutex
	inside int                  // guarded by mu
	wait   int                  // guarded by mu
	lines  map[string]*gateLine // guarded by mu: hosts with moves inside or waiting
	turns  []string             // guarded by mu: hosts with waiters, the next first
}

type gateLine struct {
	inside  int
	waiters []chan error // in order; each gets nil to go in, or an error
}

// NewGate takes how many moves may go on, in all and for one host, and how many may wait.
func NewGate(all, perHost, waiting int) *Gate {
	return &Gate{all: all, perHost: perHost, waiting: waiting, lines: map[string]*gateLine{}}
}

// Waits returns how many moves wait.
func (g *Gate) Waits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait
}

// Enter waits its turn. If too many wait, it returns a busy error, or the last waiter of a
// host with more waiters gets it.
func (g *Gate) Enter(ctx context.Context, host protocol.HostSpec) (done func(), err error) {
	key := KeyOfHost(host)
	done = func() { g.leave(key) }
	g.mu.Lock()
	l := g.lines[key]
	if l == nil {
		l = &gateLine{}
		g.lines[key] = l
	}
	// leave admits waiters at once, so this overtakes nobody.
	if g.inside < g.all && l.inside < g.perHost {
		g.inside++
		l.inside++
		g.mu.Unlock()
		return done, nil
	}
	if g.wait >= g.waiting && !g.makeRoom(l) {
		g.tidy(key)
		g.mu.Unlock()
		return nil, busy(host.Name)
	}
	told := make(chan error, 1)
	if l.waiters = append(l.waiters, told); len(l.waiters) == 1 {
		g.turns = append(g.turns, key)
	}
	g.wait++
	g.mu.Unlock()
	select {
	case err = <-told:
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.drop(key, told) {
			return nil, ctx.Err()
		}
		if err = <-told; err == nil {
			g.left(key)
			err = ctx.Err()
		}
	}
	if errors.Is(err, errNoRoom) {
		err = busy(host.Name)
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}

// errNoRoom says that another waiter gets the place.
var errNoRoom = errors.New("no place to wait")

// makeRoom sends away the last waiter of the longest line, which must stay at least as long
// as wanted. The caller holds mu.
func (g *Gate) makeRoom(wanted *gateLine) bool {
	longest := ""
	for _, key := range g.turns {
		if longest == "" || len(g.lines[key].waiters) > len(g.lines[longest].waiters) {
			longest = key
		}
	}
	if longest == "" || len(g.lines[longest].waiters) < len(wanted.waiters)+2 {
		return false
	}
	last := g.lines[longest].waiters[len(g.lines[longest].waiters)-1]
	g.drop(longest, last)
	last <- errNoRoom
	return true
}

// drop removes a waiter; false if it has its answer. The caller holds mu.
func (g *Gate) drop(key string, who chan error) bool {
	l := g.lines[key]
	if l == nil {
		return false
	}
	i := slices.Index(l.waiters, who)
	if i < 0 {
		return false
	}
	l.waiters = slices.Delete(l.waiters, i, i+1)
	g.wait--
	g.tidy(key)
	return true
}

// tidy forgets hosts without waiters or moves. The caller holds mu.
func (g *Gate) tidy(key string) {
	l := g.lines[key]
	if len(l.waiters) > 0 {
		return
	}
	g.turns = slices.DeleteFunc(g.turns, func(k string) bool { return k == key })
	if l.inside == 0 {
		delete(g.lines, key)
	}
}

func (g *Gate) leave(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left(key)
}

// left takes one move out and admits waiters. The caller holds mu.
func (g *Gate) left(key string) {
	g.inside--
	g.lines[key].inside--
	for g.inside < g.all {
		i := slices.IndexFunc(g.turns, func(k string) bool { return g.lines[k].inside < g.perHost })
		if i < 0 {
			break
		}
		next := g.turns[i]
		l := g.lines[next]
		g.turns = append(slices.Delete(g.turns, i, i+1), next) // its next turn is last
		first := l.waiters[0]
		g.inside++
		l.inside++
		g.drop(next, first)
		first <- nil
	}
	g.tidy(key)
}

// busy makes an activity give up its slot: waiting for the next attempt costs none.
func busy(host string) error {
	return &TypedError{Kind: protocol.ErrTypeBusy, Retry: true, delay: busyPause(),
		Err: fmt.Errorf("too many snapshots are being taken or restored on this worker; the one of host %s is retried later", host)}
}

// IsBusy reports whether nothing was tried for lack of a place, which is no reason to give
// up work or a login.
func IsBusy(err error) bool {
	var typed *TypedError
	return errors.As(err, &typed) && typed.Kind == protocol.ErrTypeBusy
}

// InTurn calls do inside the gate.
func (g *Gate) InTurn(ctx context.Context, host protocol.HostSpec, do func() error) error {
	done, err := g.Enter(ctx, host)
	if err != nil {
		return err
	}
	defer done()
	return do()
}

// KeyOfHost returns a key for the machine of a spec.
func KeyOfHost(h protocol.HostSpec) string {
	return fmt.Sprintf("%s\x00%s\x00%s\x00%d", h.Name, h.User, h.Address, h.Port)
}
