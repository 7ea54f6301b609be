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

// Limits of the snapshots that one worker moves at once. Each move takes some tens of
// megabytes and a connection's bulk channels. Above all it takes an activity slot, and
// pumps need slots as well. So only few activities may hold a slot while they wait.
const (
	MovesPerWorker = 4
	MovesPerHost   = 2
	MovesWaiting   = 16
)

// busyPause is the retry delay of an activity that finds no place to wait. The delay is
// long, because each attempt costs the server work, and random, so that the activities
// do not all come back at once.
func busyPause() time.Duration { return 10*time.Second + rand.N(30*time.Second) }

// A Gate limits how many moves are inside at once, in all and for one host. Hosts take
// turns and share the places to wait, so that a host whose moves are slow cannot take
// all places.
type Gate struct {
	all, perHost, waiting int

	mu     sync.Mutex
	inside int                  // guarded by mu
	wait   int                  // guarded by mu
	lines  map[string]*gateLine // guarded by mu: has the hosts with moves inside or waiting
	turns  []string             // guarded by mu: the hosts with waiters; the first has the next turn
}

// A gateLine has the moves of one host: those inside and those that wait.
type gateLine struct {
	inside  int
	waiters []chan error // in order of arrival; each gets nil to go in, or the reason why it cannot
}

// NewGate returns a gate for so many moves at once, in all and for one host, and so many
// that wait.
func NewGate(all, perHost, waiting int) *Gate {
	return &Gate{all: all, perHost: perHost, waiting: waiting, lines: map[string]*gateLine{}}
}

// Waits returns how many moves wait.
func (g *Gate) Waits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait
}

// Enter waits until the caller may go in. If too many wait, it returns a busy error,
// unless another host has more waiters than the newcomer's host: then the last waiter of
// that host gets the error.
func (g *Gate) Enter(ctx context.Context, host protocol.HostSpec) (done func(), err error) {
	key := KeyOfHost(host)
	done = func() { g.leave(key) }
	g.mu.Lock()
	l := g.lines[key]
	if l == nil {
		l = &gateLine{}
		g.lines[key] = l
	}
	// leave lets waiters in as soon as they can go in, so the newcomer overtakes nobody
	// here.
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

// errNoRoom tells a waiter that another gets its place.
var errNoRoom = errors.New("no place to wait")

// makeRoom sends away the last waiter of the longest line, if that line stays at least
// as long as the line that wants the place. The caller holds mu.
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

// drop takes a waiter out of its line. It returns false if the waiter has already been
// sent its answer. The caller holds mu.
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

// If nobody waits for a host, tidy takes the host out of turns. If nobody is inside
// either, tidy forgets the host. The caller holds mu.
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

// left takes one move out, and lets in all waiters that can go in now. The caller holds
// mu.
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
		g.turns = append(slices.Delete(g.turns, i, i+1), next) // its next turn comes after all others
		first := l.waiters[0]
		g.inside++
		l.inside++
		g.drop(next, first)
		first <- nil
	}
	g.tidy(key)
}

// busy returns an error with which an activity gives up its slot. To wait for the next
// attempt costs no slot.
func busy(host string) error {
	return &TypedError{Kind: protocol.ErrTypeBusy, Retry: true, delay: busyPause(),
		Err: fmt.Errorf("this worker moves as many snapshots as it can; that of host %s waits", host)}
}

// IsBusy reports whether nothing was tried because the gate had no place. This is no
// reason to give up work or a login.
func IsBusy(err error) bool {
	var typed *TypedError
	return errors.As(err, &typed) && typed.Kind == protocol.ErrTypeBusy
}

// InTurn calls do when the gate lets it pass.
func (g *Gate) InTurn(ctx context.Context, host protocol.HostSpec, do func() error) error {
	done, err := g.Enter(ctx, host)
	if err != nil {
		return err
	}
	defer done()
	return do()
}

// KeyOfHost returns a key for the machine that a spec means.
func KeyOfHost(h protocol.HostSpec) string {
	return fmt.Sprintf("%s\x00%s\x00%s\x00%d", h.Name, h.User, h.Address, h.Port)
}
