package snapshots

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/tree"
)

// A reading is a stream of files. It gets names while the host still lists the tree, so the
// first content has arrived when the listing ends. Content is processed only then, so that
// one goroutine at a time uses the state of a taking.
type reading struct {
	cancel context.CancelFunc
	names  nameFeed
	begin  chan map[string]*held // the wanted files, once all names are known
	want   map[string]*held      // used by the reading's goroutine only
	done   chan struct{}         // closed when err is valid
	err    error
}

// failed returns the error of a reading that has ended.
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
			// The SDK recovers panics only in an activity's own goroutine, so a panic here
			// would end the worker.
			if p := recover(); p != nil {
				t.taking.spec.Logger.Error("panic while a snapshot was read", "snapshot", t.taking.spec.ID, "tree", t.spec.Name, "panic", p, "stack", string(debug.Stack()))
				r.err = fmt.Errorf("panic while %s was read: %v", t.spec.Dir, p)
			}
		}()
		r.err = tree.Read(ctx, t.host, t.spec.Dir, r.names.all(), func(f *tree.File) error {
			if err := r.await(ctx); err != nil {
				return err
			}
			return t.file(f, r.want)
		}, func(e tree.Entry) error {
			if h := r.want[e.Path]; h != nil {
				t.settle(h, e)
			}
			return nil
		})
	}()
	return r
}

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

// read opens a second stream if the folder was created or replaced between the opening of
// the first one and the listing.
func (t *treeTaking) read(want map[string]*held) error {
	err := t.readOnce(want)
	if errors.Is(err, hostexec.ErrNotExist) {
		err = t.readOnce(want)
	}
	return err
}

func (t *treeTaking) readOnce(want map[string]*held) error {
	if t.reading == nil { // the files of the reading were read, or belong to an earlier window
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

func (t *treeTaking) stopReading() {
	if t.reading == nil {
		return
	}
	t.reading.cancel()
	<-t.reading.done
	t.reading = nil
}

// A nameFeed passes names on as they become known. add never blocks; the window of held
// entries bounds the names.
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
