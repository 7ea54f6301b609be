package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/stack"
)

// A weight is what the first worker uses at one moment.
type weight struct {
	at          time.Time
	pid         int
	memory      int64 // bytes in RAM
	heap        int64 // bytes of objects that live
	files       int
	goroutines  int // without those of the SDK's cache of workflows
	connections int // of all workers, to the host
}

func (w weight) String() string {
	return fmt.Sprintf("%d MiB, %d files, %d goroutines, %d connections", w.memory>>20, w.files, w.goroutines, w.connections)
}

// weigh looks at the first worker.
func (s *soak) weigh(ctx context.Context) (weight, error) {
	w := weight{at: time.Now()}
	info, err := stack.Read(s.lab.State)
	if err != nil {
		return w, err
	}
	for _, one := range info.Workers {
		if one.Name == "worker" {
			w.pid = one.PID
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.pid))
	if err != nil {
		return w, fmt.Errorf("the files of the first worker: %w", err)
	}
	m, err := lab.Scrape(ctx, s.metrics)
	if err != nil {
		return w, err
	}
	cached, err := lab.CachedGoroutines(ctx, s.metrics)
	if err != nil {
		return w, err
	}
	w.connections, err = s.sshd.Connections()
	w.memory, w.heap, w.files, w.goroutines = lab.Resident(w.pid), int64(m["go_memstats_heap_alloc_bytes"]), len(files), int(m["go_goroutines"])-cached
	return w, err
}

// A watch weighs the first worker again and again.
type watch struct {
	stop    context.CancelFunc
	wg      sync.WaitGroup
	samples []weight
}

const watchEvery = 10 * time.Second

func (s *soak) watch(ctx context.Context, began time.Time) *watch {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{stop: stop}
	w.wg.Go(func() {
		told := began
		for {
			if scenario.Sleep(ctx, watchEvery); ctx.Err() != nil {
				return
			}
			// While workers are replaced, the first one may not answer.
			now, err := s.weigh(ctx)
			if err != nil {
				continue
			}
			w.samples = append(w.samples, now)
			if time.Since(told) > s.lasts/20 {
				told = time.Now()
				s.say("%s %s", told.UTC().Format("15:04:05"), now)
			}
		}
	})
	return w
}

func (w *watch) end() []weight {
	w.stop()
	w.wg.Wait()
	return w.samples
}

// growth returns by what part memory grew in ten minutes, as the line through the samples shows
// that lies closest to them.
func growth(samples []weight) float64 {
	if len(samples) < 2 {
		return 0
	}
	var sumX, sumY, sumXX, sumXY float64
	for _, s := range samples {
		x, y := s.at.Sub(samples[0].at).Minutes()/10, float64(s.memory)
		sumX, sumY, sumXX, sumXY = sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	n := float64(len(samples))
	if n*sumXX == sumX*sumX {
		return 0
	}
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX) / (sumY / n)
}

// warm returns the samples of each process of the first worker, without those of its first ten
// minutes, or of its first third if that is shorter.
func warm(samples []weight) (out [][]weight) {
	for len(samples) > 0 {
		end := slices.IndexFunc(samples, func(w weight) bool { return w.pid != samples[0].pid })
		if end < 0 {
			end = len(samples)
		}
		half := samples[:end]
		skip := min(10*time.Minute, half[len(half)-1].at.Sub(half[0].at)/3)
		from := slices.IndexFunc(half, func(w weight) bool { return w.at.Sub(half[0].at) >= skip })
		out = append(out, half[from:])
		samples = samples[end:]
	}
	return out
}
