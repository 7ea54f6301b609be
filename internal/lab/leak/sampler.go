package leak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Sampler continuously searches every process of the machine, as root:
// arguments, environment, name. Hosts and workers of a lab are on one machine,
// so it covers both.
type Sampler struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	any  chan struct{} // closed when something is found
	once sync.Once

	mu      sync.Mutex // guards what follows
	found   map[string]bool
	samples int
	procs   int
}

// Sample starts a Sampler, which runs until Stop.
func (s *Searcher) Sample() *Sampler {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Sampler{cancel: cancel, any: make(chan struct{}), found: map[string]bool{}}
	w.wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			w.look(s)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return w
}

func (w *Sampler) look(s *Searcher) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		for _, file := range []string{"cmdline", "environ", "comm"} {
			data, err := os.ReadFile(filepath.Join(p, file))
			if err != nil {
				continue // it has exited
			}
			for _, f := range s.In(data) {
				name, _ := os.ReadFile(filepath.Join(p, "comm"))
				w.mu.Lock()
				w.found[fmt.Sprintf("%s of %s: %s", file, strings.TrimSpace(string(name)), f)] = true
				w.mu.Unlock()
				w.once.Do(func() { close(w.any) })
			}
		}
	}
	w.mu.Lock()
	w.samples++
	w.procs += len(procs)
	w.mu.Unlock()
}

// Stop stops the Sampler and returns what was found, and how much was searched.
func (w *Sampler) Stop() (found []string, samples, procs int) {
	w.cancel()
	w.wg.Wait()
	for f := range w.found {
		found = append(found, f)
	}
	return found, w.samples, w.procs
}
