package main

import (
	"context"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// A watch continuously counts the codex processes on each host.
type watch struct {
	stop    context.CancelFunc
	wg      sync.WaitGroup
	samples int
	most    map[string]int      // by host
	over    map[string][]string // by host: when there were more than slots, and which
}

func (f *fleet) watch(ctx context.Context) *watch {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{stop: stop, most: map[string]int{}, over: map[string][]string{}}
	w.wg.Go(func() {
		for ctx.Err() == nil {
			w.sample(f)
			scenario.Sleep(ctx, 200*time.Millisecond)
		}
	})
	return w
}

func (w *watch) sample(f *fleet) {
	parents := procs()
	w.samples++
	for _, name := range hostNames() {
		h := f.hosts[name]
		first := h.first()
		if first == 0 {
			continue
		}
		found := servers(parents, first)
		w.most[name] = max(w.most[name], len(found))
		if len(found) > slots {
			var which string
			for _, pid := range found {
				which += " " + sessionOf(pid)
			}
			w.over[name] = append(w.over[name], time.Now().UTC().Format("15:04:05.0")+which)
		}
	}
}

func (w *watch) end() {
	w.stop()
	w.wg.Wait()
}
