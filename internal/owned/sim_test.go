package owned

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/fairlead/internal/store"
)

// A world is a store and a Temporal, in which one actor takes one step at a time.
type world struct {
	now   time.Time
	blobs map[string]time.Time
	there map[Owner]bool   // the owners that Temporal knows
	needs map[Owner]string // the blob that a started owner needs
	err   func() error     // the error of asking Temporal
}

type actor struct {
	w      *world
	name   string
	wake   chan bool // false: the actor is killed
	parked chan bool // false: the actor has ended
	dead   bool
	since  time.Time // the owner must begin within Unbegun after this time; zero if none is about to begin
}

var errKilled = errors.New("killed")

func (a *actor) park() error {
	if a.dead {
		return errKilled
	}
	a.parked <- true
	if !<-a.wake {
		a.dead = true
		return errKilled
	}
	return nil
}

func (a *actor) Put(_ context.Context, key string, _ []byte) error {
	if err := a.park(); err != nil {
		return err
	}
	a.w.blobs[key] = a.w.now
	return nil
}

func (a *actor) Stat(_ context.Context, key string) (store.Info, error) {
	if err := a.park(); err != nil {
		return store.Info{}, err
	}
	at, ok := a.w.blobs[key]
	if !ok {
		return store.Info{}, store.ErrNotFound
	}
	return store.Info{Key: key, Size: 1, ModTime: at}, nil
}

func (a *actor) List(_ context.Context, prefix string) (found []store.Info, _ error) {
	if err := a.park(); err != nil {
		return nil, err
	}
	for key, at := range a.w.blobs {
		if strings.HasPrefix(key, prefix) {
			found = append(found, store.Info{Key: key, Size: 1, ModTime: at})
		}
	}
	slices.SortFunc(found, func(a, b store.Info) int { return strings.Compare(a.Key, b.Key) })
	return found, a.park() // the list may be outdated when the caller uses it
}

func (a *actor) Delete(_ context.Context, key string) error {
	if err := a.park(); err != nil {
		return err
	}
	delete(a.w.blobs, key)
	return nil
}

func (a *actor) sweep() Sweep {
	return Sweep{
		Store: a, Most: 100, Alone: func(context.Context) error { return nil },
		Ask: func(_ context.Context, o Owner) (bool, error) { return a.w.there[o], a.w.err() },
	}
}

// begin starts an owner in one step: from then on Temporal knows it.
func (a *actor) begin(o Owner, key string) error {
	if err := a.park(); err != nil {
		return err
	}
	a.since = time.Time{}
	a.w.there[o], a.w.needs[o] = true, key
	return nil
}

// Uploads, starts, ends, forks and sweeps take their steps in any order, and any of them
// may be killed. No owner that has begun loses the blob that it began with. When no owner
// is left, no blob is left.
func TestNobodyLosesWhatHeBeganWith(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if was := checks.Value.String(); was == checks.DefValue { // each check takes less than a millisecond
		_ = checks.Value.Set("3000")
		defer checks.Value.Set(was)
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{now: time.Unix(1e9, 0), blobs: map[string]time.Time{}, there: map[Owner]bool{}, needs: map[Owner]string{}}
		failing := rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(rt, "asking fails, of ten")
		w.err = func() error {
			if failing > 0 && rapid.IntRange(0, 9).Draw(rt, "asking fails") < failing {
				return errors.New("no answer")
			}
			return nil
		}
		owner := Owner{Batch, "b"}
		folder := owner.RunFolder("1")
		key := In(folder, Messages) + "/" + strings.Repeat("0", 64)
		ctx := context.Background()
		uploaded := false
		var actors []*actor
		run := func(name string, do func(*actor)) *actor {
			a := &actor{w: w, name: name, wake: make(chan bool), parked: make(chan bool)}
			go func() {
				do(a)
				a.parked <- false
			}()
			if <-a.parked {
				actors = append(actors, a)
			}
			return a
		}
		run("upload", func(a *actor) {
			a.since = w.now
			for range 2 { // twice, like the second page of a batch
				if a.Put(ctx, key, nil) != nil {
					a.since = time.Time{}
					return
				}
				a.since = w.now
				if Kept(ctx, a, folder) != nil {
					a.since = time.Time{}
					return
				}
			}
			if a.begin(owner, key) == nil {
				uploaded = true
			}
		})
		holders := 0
		holding := func(a *actor) {
			o := Owner{Session, fmt.Sprint("s", holders)}
			holders++
			a.since = w.now // the time of its Put, or later
			if rapid.Bool().Draw(rt, "is there already") {
				w.there[o] = true
			}
			if Hold(ctx, a, o, key) != nil {
				a.since = time.Time{}
				return
			}
			_ = a.begin(o, key)
		}
		sweeping := func(a *actor) { _, _ = a.sweep().Run(ctx) }
		check := func() {
			for o, there := range w.there {
				if _, ok := w.blobs[w.needs[o]]; there && w.needs[o] != "" && !ok {
					rt.Fatalf("%s is there, and what it began with is not", o)
				}
			}
		}
		step := func(a *actor, live bool) {
			a.wake <- live
			if !<-a.parked {
				a.since = time.Time{}
				actors = slices.DeleteFunc(actors, func(x *actor) bool { return x == a })
			}
			check()
		}
		finish := func() {
			for len(actors) > 0 {
				step(actors[0], true)
			}
		}
		// Most mistakes are possible at the end of a folder's life.
		switch rapid.IntRange(0, 4).Draw(rt, "begins") {
		case 0:
		case 1, 2, 3:
			finish()
			if rapid.Bool().Draw(rt, "is held") {
				run("hold", holding)
				finish()
			}
			if rapid.Bool().Draw(rt, "has ended") {
				delete(w.there, owner)
			}
			w.now = w.now.Add(Unbegun)
			run("mark", sweeping)
			finish()
			w.now = w.now.Add(Apart)
			run("sweep", sweeping)
			run("sweep", sweeping)
			run("hold", holding)
			run("hold", holding)
		}
		for range rapid.IntRange(10, 60).Draw(rt, "steps") {
			switch what := rapid.IntRange(0, 19).Draw(rt, "what"); {
			case what == 0 && uploaded:
				run("hold", holding)
			case what == 1 || what == 2 && len(actors) < 3:
				run("sweep", sweeping)
			case what == 3:
				for _, o := range []Owner{owner, {Session, "s0"}, {Session, "s1"}} {
					if w.there[o] && rapid.Bool().Draw(rt, "ends") {
						delete(w.there, o)
						break
					}
				}
			case what == 4:
				next := w.now.Add(time.Duration(rapid.IntRange(1, 5*24).Draw(rt, "hours")) * time.Hour)
				for _, a := range actors {
					if last := a.since.Add(Unbegun - time.Minute); !a.since.IsZero() && next.After(last) && last.After(w.now) {
						next = last
					} else if !a.since.IsZero() && !last.After(w.now) {
						next = w.now
					}
				}
				w.now = next
			case len(actors) > 0:
				a := rapid.SampledFrom(actors).Draw(rt, "who")
				lives := rapid.IntRange(0, 40).Draw(rt, "lives") > 0
				for range rapid.IntRange(1, 12).Draw(rt, "at a time") {
					if slices.Contains(actors, a) {
						step(a, lives)
					}
				}
			}
		}
		finish()
		failing = 0
		clear(w.there)
		for range 4 {
			w.now = w.now.Add(Unbegun)
			run("last", sweeping)
			finish()
		}
		delete(w.blobs, clockKey)
		if len(w.blobs) > 0 {
			rt.Fatalf("nobody is there, and %v is", w.blobs)
		}
	})
}
