package snapshots

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"

	"fairlead.dev/fairlead/hostexec"
)

// A reading is a stream of files that the host is asked for while it still
// lists: its channel is opened beside that of the listing, and names are sent as
// they come up, so that the first of the content is there when the listing ends.
// Nothing is done with it before; what comes earlier waits in the channel. So
// everything that a taking consists of is touched by one goroutine at a time.
type reading struct {
	cancel context.CancelFunc
	names  nameFeed
	begin  chan map[string]*held // what is wanted, once all names are known
	want   map[string]*held      // of the reading's goroutine
	done   chan struct{}         // closed at its end, when err is good
	err    error
}

// failed returns what a reading ended with before it was known what is wanted.
func (r *reading) failed() error {
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// ask asks for a file.
func (t *treeTaking) ask(h *held) {
	if t.reading == nil {
		t.reading = t.newReading()
	}
	t.reading.names.add(h.name)
}

func (t *treeTaking) newReading() *reading {
	ctx, cancel := context.WithCancel(t.ctx)
	r := &reading{cancel: cancel, begin: make(chan map[string]*held, 1), done: make(chan struct{})}
	r.names.changed.L = &r.names.mu
	context.AfterFunc(ctx, r.names.end)
	go func() {
		defer close(r.done)
		defer func() {
			// Nobody above us in this goroutine keeps a worker alive, as the SDK does
			// for an activity.
			if p := recover(); p != nil {
				t.taking.spec.Logger.Error("panic while a snapshot was read", "snapshot", t.taking.spec.ID, "tree", t.spec.Name, "panic", p, "stack", string(debug.Stack()))
				r.err = fmt.Errorf("panic while %s was read: %v", t.spec.Dir, p)
			}
		}()
		r.err = hostexec.ReadTree(ctx, t.host, t.spec.Dir, r.names.all(), func(f *hostexec.TreeFile) error {
			if err := r.await(ctx); err != nil {
				return err
			}
			return t.file(f, r.want)
		}, func(e hostexec.TreeEntry) error {
			if h := r.want[e.Path]; h != nil {
				t.settle(h, e)
			}
			return nil
		})
	}()
	return r
}

// await waits until it is known what is wanted.
func (r *reading) await(ctx context.Context) error {
	if r.want != nil {
		return nil
	}
	select {
	case r.want = <-r.begin:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read takes in what was asked for and is wanted, of what is held. Where there
// was no folder when the stream was opened, nothing came, and it is opened anew:
// the folder was listed, so there was none yet, or another one was put in its
// place just then.
func (t *treeTaking) read(want map[string]*held) error {
	err := t.readOnce(want)
	if errors.Is(err, hostexec.ErrNotExist) {
		err = t.readOnce(want)
	}
	return err
}

func (t *treeTaking) readOnce(want map[string]*held) error {
	if t.reading == nil { // they were read before, or are of a window before
		for i := range t.held {
			if h := &t.held[i]; want[h.name] == h {
				t.ask(h)
			}
		}
	}
	r := t.reading
	t.reading = nil
	defer r.cancel()
	r.names.end()
	r.begin <- want
	<-r.done
	return r.err
}

// stopReading gives up a stream that nobody wants any more.
func (t *treeTaking) stopReading() {
	if t.reading == nil {
		return
	}
	t.reading.cancel()
	<-t.reading.done
	t.reading = nil
}

// A nameFeed passes names on that are known one by one. Who adds them never
// waits: what is held bounds how many there are.
type nameFeed struct {
	mu      sync.Mutex
	changed sync.Cond
	names   []string // guarded by mu, like over
	over    bool
}

func (f *nameFeed) add(name string) {
	f.mu.Lock()
	f.names = append(f.names, name)
	f.mu.Unlock()
	f.changed.Signal()
}

func (f *nameFeed) end() {
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	f.changed.Signal()
}

// all gives the names until end was called.
func (f *nameFeed) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			f.mu.Lock()
			for len(f.names) == 0 && !f.over {
				f.changed.Wait()
			}
			names := f.names
			f.names = nil
			f.mu.Unlock()
			if len(names) == 0 {
				return
			}
			for _, name := range names {
				if !yield(name) {
					return
				}
			}
		}
	}
}
