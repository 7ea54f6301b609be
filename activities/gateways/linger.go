package gateways

import (
	"context"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
)

// Leave is called when a pump ends. The Gate is closed once codex waits for no answer of the
// model, unless the next pump takes it up.
func (g *Gate) Leave() {
	if g == nil {
		return
	}
	if g.gateway.Busy() == 0 {
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
		look := time.NewTicker(lingerLook)
		defer look.Stop()
		for g.gateway.Busy() > 0 && !g.forward.State().Over {
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
	in.Hide.AddText(last)
	return g.renew(ctx, overlap)
}
