package gateways

import (
	"context"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
)

// busy reports whether codex waits for the model, or a program of the session has a connection.
func (g *Gate) busy() bool { return g.gateway.Busy()+g.egress.Busy() > 0 }

// Leave is called when a pump ends. turn says that a turn goes on. The Gate is closed once codex waits
// for no answer of the model and no program of the session has a connection, unless the next pump takes
// it up. In a turn of a session with a way out, it stays for egressStays at least: commands may run.
func (g *Gate) Leave(turn bool) {
	if g == nil {
		return
	}
	stays := turn && g.egress != nil
	if !stays && !g.busy() {
		g.Close()
		return
	}
	g.lose(nil)
	g.mu.Lock()
	stop := make(chan struct{})
	g.stopped = stop
	g.mu.Unlock()
	if old, loaded := g.site.Gates.Swap(g.key, g); loaded {
		old.(*Gate).Close() // which a newer one has replaced
	}
	go func() {
		over := time.NewTimer(lingerFor)
		defer over.Stop()
		least := time.Now()
		if stays {
			least = least.Add(egressStays)
		}
		look := time.NewTicker(lingerLook)
		defer look.Stop()
		for (g.busy() || time.Now().Before(least)) && !g.forward.State().Over {
			select {
			case <-stop:
				return
			case <-look.C:
				continue
			case <-over.C:
			}
			break
		}
		if g.site.Gates.CompareAndDelete(g.key, g) {
			g.Close()
		}
	}()
}

// CloseLeft closes the Gates that pumps have left, and waits until their requests have ended, so
// that the worker can count them before it stops.
func CloseLeft(ctx context.Context, s *site.Site) {
	var all sync.WaitGroup
	s.Gates.Range(func(_, v any) bool {
		g := v.(*Gate)
		if s.Gates.CompareAndDelete(g.key, g) {
			all.Go(func() { g.settle(ctx) })
		}
		return true
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done(): // a host may not answer
	}
}

func (g *Gate) settle(ctx context.Context) {
	g.mu.Lock()
	close(g.stopped)
	g.stopped = nil
	g.mu.Unlock()
	g.Close()
	look := time.NewTicker(lingerLook / 10)
	defer look.Stop()
	for g.gateway.Busy() > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// takeUp returns the Gate that a pump has left, or nil.
func takeUp(s *site.Site, key lingering) *Gate {
	v, ok := s.Gates.LoadAndDelete(key)
	if !ok {
		return nil
	}
	g := v.(*Gate)
	g.mu.Lock()
	close(g.stopped)
	g.stopped = nil
	g.mu.Unlock()
	if !g.forward.State().Up {
		g.Close()
		return nil
	}
	return g
}

// goOn puts a Gate that was left under the fence of the next pump.
func (g *Gate) goOn(ctx context.Context, fence hostexec.Fence, in Opening) error {
	if err := g.forward.Raise(ctx, fence); err != nil {
		return err
	}
	g.mu.Lock()
	g.fence, g.hide, g.lost = fence, in.Hide, in.Lost
	last := g.token // which codex still has
	g.mu.Unlock()
	g.meter.change(in)
	in.Hide.AddText(last)
	return g.renew(ctx, overlap)
}
