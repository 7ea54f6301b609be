package spend

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// A dated store says of its cells when they were written, and counts how they are read.
type dated struct {
	*memory
	mu      sync.Mutex
	written map[string]time.Time
	reads   int
	now     int // reads under way
	most    int
	pair    chan struct{} // of two readers, each waits for the other; nil: nobody waits
}

func (d *dated) List(ctx context.Context, prefix string) ([]store.Info, error) {
	all, err := d.memory.List(ctx, prefix)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range all {
		all[i].ModTime = d.written[all[i].Key]
	}
	return all, err
}

func (d *dated) Get(ctx context.Context, key string) ([]byte, error) {
	d.mu.Lock()
	d.reads++
	d.now++
	d.most = max(d.most, d.now)
	pair := d.pair
	d.mu.Unlock()
	if _, err := d.memory.Get(ctx, key); pair != nil && err == nil {
		select {
		case pair <- struct{}{}:
		case <-pair:
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
	return d.memory.Get(ctx, key)
}

func (d *dated) put(t *testing.T, n int, tokens int, at time.Time) {
	t.Helper()
	key := fmt.Sprintf("%sall/dead%d", team.prefix(), n)
	if err := d.memory.Put(t.Context(), key, fmt.Appendf(nil, `{"tokens":%d}`, tokens)); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written[key] = at
}

func TestCellsOfDeadProcessesAreReadOnceAndSeveralAtATime(t *testing.T) {
	d := &dated{memory: &memory{at: map[string][]byte{}}, written: map[string]time.Time{}, pair: make(chan struct{})}
	now := time.Now()
	for n := range 200 {
		d.put(t, n, 1, now.Add(-48*time.Hour))
	}
	l := process(d, &clock{at: noon})
	if got := used(t, l, Ever).Tokens; got != 200 { // it would wait for ever if one were read at a time
		t.Errorf("%d tokens count as used", got)
	}
	d.mu.Lock()
	if d.most > readers {
		t.Errorf("%d cells were read at a time", d.most)
	}
	d.reads, d.pair = 0, nil
	d.mu.Unlock()
	d.put(t, 7, 101, now)  // it was not dead
	d.put(t, 200, 50, now) // and a new one
	for range 2 {
		if got := used(t, l, Ever).Tokens; got != 350 {
			t.Errorf("%d tokens count as used", got)
		}
	}
	if d.reads != 4 {
		t.Errorf("%d cells were read, two of them may change", d.reads)
	}
	d.put(t, 7, 201, now) // within the same tick of the store's clock
	if got := used(t, l, Ever).Tokens; got != 450 {
		t.Errorf("%d tokens count as used", got)
	}
}
