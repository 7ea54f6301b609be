package scriptedmodel

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Waiter is a response that is held at a gate.
type Waiter struct {
	Gate         string    `json:"gate"`
	Conversation string    `json:"conversation"`
	Since        time.Time `json:"since"`
}

// gates hold responses. A gate is closed until it is released; then it is open
// for current and future waiters.
type gates struct {
	mu      sync.Mutex
	open    map[string]bool
	waiting []*waiter
	came    chan struct{} // closed and replaced when waiting grows
}

type waiter struct {
	Waiter
	free chan struct{}
}

func newGates() *gates { return &gates{open: map[string]bool{}, came: make(chan struct{})} }

// wait returns when the gate is open, or with the context's error.
func (g *gates) wait(ctx context.Context, name, conversation string) error {
	g.mu.Lock()
	if g.open[name] {
		g.mu.Unlock()
		return ctx.Err()
	}
	w := &waiter{Waiter{name, conversation, time.Now()}, make(chan struct{})}
	g.waiting = append(g.waiting, w)
	close(g.came)
	g.came = make(chan struct{})
	g.mu.Unlock()

	defer g.remove(w)
	select {
	case <-w.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gates) remove(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, w); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
}

func (g *gates) release(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[name] = true
	g.waiting = slices.DeleteFunc(g.waiting, func(w *waiter) bool {
		if w.Gate == name {
			close(w.free)
		}
		return w.Gate == name
	})
}

func (g *gates) hold(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, name)
}

// reset closes every gate; current waiters keep waiting.
func (g *gates) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.open)
}

func (g *gates) list() []Waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Waiter, 0, len(g.waiting))
	for _, w := range g.waiting {
		out = append(out, w.Waiter)
	}
	return out
}

// await waits for a response at the gate and returns it.
func (g *gates) await(ctx context.Context, name string) (Waiter, error) {
	for {
		g.mu.Lock()
		came := g.came
		i := slices.IndexFunc(g.waiting, func(w *waiter) bool { return w.Gate == name })
		if i >= 0 {
			w := g.waiting[i].Waiter
			g.mu.Unlock()
			return w, nil
		}
		g.mu.Unlock()
		select {
		case <-came:
		case <-ctx.Done():
			return Waiter{}, ctx.Err()
		}
	}
}
