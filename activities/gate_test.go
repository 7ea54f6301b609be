package activities

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/snapshots"
)

// Only so many move at once, and of the others only a few keep a slot for that.
func TestFewWaitForTheirTurnInASlot(t *testing.T) {
	g := newGate(2, 1, 1)
	one, err := g.enter(t.Context(), HostSpec{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan func())
	go func() {
		done, err := g.enter(context.Background(), HostSpec{Name: "a"})
		if err != nil {
			t.Error(err)
		}
		waiting <- done
	}()
	await(t, "somebody to wait", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.wait == 1 })
	if _, err := g.enter(t.Context(), HostSpec{Name: "b"}); !isBusy(err) {
		t.Errorf("entered: %v", err)
	} else if said := appError(t, failing{delay: time.Second}.failure(t.Context(), "close", fmt.Errorf("it stays: %w", err))); said.Type() != ErrTypeBusy || said.NonRetryable() || said.NextRetryDelay() < 10*time.Second {
		t.Errorf("said to Temporal: %v, %v, again after %v", said.Type(), said, said.NextRetryDelay())
	}
	one()
	(<-waiting)()
	done, err := g.enter(t.Context(), HostSpec{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	done()
}

// A heldPool is one whose trees nobody gets to list or read as long as it is held.
type heldPool struct {
	HostPool
	release chan struct{}

	mu    sync.Mutex
	begun map[string]bool // guarded by mu: sessions whose trees are asked for
}

type heldHost struct {
	hostexec.Host
	pool *heldPool
}

func (p *heldPool) Host(spec hostexec.Spec) (hostexec.Host, error) {
	h, err := p.HostPool.Host(spec)
	return &heldHost{h, p}, err
}

func (h *heldHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	session := path.Base(path.Dir(c.Args[0])) // of its work folder, or of its CODEX_HOME
	h.pool.mu.Lock()
	h.pool.begun[session] = true
	h.pool.mu.Unlock()
	<-h.pool.release
	return h.Host.Start(ctx, c)
}

func (p *heldPool) working() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.begun)
}

// waits is how many stand before a gate.
func (g *gate) waits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait
}

// ways are how a session's work is kept at its end, each of a session of its own.
func (b *bed) ways() map[string]func() (string, error) {
	closes := func(discard bool) func() (string, error) {
		k := b.worked(fmt.Sprintf("closes-%v", discard))
		in := k.closing()
		in.Discard = discard
		return func() (string, error) {
			out, err := k.close(in)
			return out.Archive, failing{}.failure(b.t.Context(), "close", err)
		}
	}
	wipes := func(discard bool) func() (string, error) {
		k := b.worked(fmt.Sprintf("left-%v", discard))
		in := k.leave(discard)
		return func() (string, error) {
			out, err := k.wipe(in, knows(SeedNow{}))
			return out.Archive, err
		}
	}
	comes := b.worked("comes")
	comes.claim.Generation++
	in := PrepareSessionInput{Claim: comes.next(), Seed: comes.seed, Sandbox: "danger-full-access"}
	return map[string]func() (string, error){
		"close": closes(false), "close and discard": closes(true), "wipe": wipes(false), "wipe and discard": wipes(true),
		"come": func() (string, error) {
			out, err := comes.prepare(in)
			return out.Left, err
		},
	}
}

// Whoever is at the end of a session, or of what one left, stands in the same
// line as those who take snapshots of living ones: a batch that ends at once is
// no more work for a worker than it can hold.
func TestManyThatEndAtOnceAreKeptAFewAtATime(t *testing.T) {
	b := newBed(t, readyHost(t))
	ways := b.ways()
	pool := &heldPool{HostPool: b.pool, release: make(chan struct{}), begun: map[string]bool{}}
	b.set.Sessions.Pool = pool
	b.set.Sessions.takes = newGate(movesPerWorker, movesPerHost, 1)
	type end struct {
		way, kept string
		err       error
	}
	ended := make(chan end, len(ways))
	for way, keep := range ways {
		go func() {
			kept, err := keep()
			ended <- end{way, kept, err}
		}()
	}
	var sentAway []end
	for len(sentAway) < len(ways)-movesPerHost-1 {
		select {
		case e := <-ended:
			sentAway = append(sentAway, e)
		case <-time.After(patience):
			t.Fatalf("%d keep what they found, %d wait, and %+v were sent away", pool.working(), b.set.Sessions.takes.waits(), sentAway)
		}
	}
	await(t, "the others to begin, or to wait", func() bool {
		return pool.working() == movesPerHost && b.set.Sessions.takes.waits() == 1
	})
	close(pool.release)
	for range movesPerHost + 1 {
		if e := <-ended; e.err != nil || e.kept == "" {
			t.Errorf("%s: kept %q, %v", e.way, e.kept, e.err)
		}
	}
	for _, e := range sentAway {
		if e.kept != "" || kindOfError(e.err) != ErrTypeBusy || appError(t, e.err).NonRetryable() {
			t.Errorf("%s was sent away with %q, %v", e.way, e.kept, e.err)
		}
		if kept, err := ways[e.way](); err != nil || kept == "" {
			t.Errorf("%s again: kept %q, %v", e.way, kept, err)
		} else if _, err := snapshots.Read(t.Context(), b.store, kept); err != nil {
			t.Errorf("%s: %v", e.way, err)
		}
	}
}

// Who is called back while he waits goes, and has done nothing that cannot be
// done again.
func TestWhoWaitsToKeepAnEndedSessionCanBeCalledBack(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("called")
	g := newGate(1, 1, 1)
	b.set.Sessions.takes = g
	done, err := g.enter(t.Context(), b.spec)
	if err != nil {
		t.Fatal(err)
	}
	in := k.closing()
	in.Discard = true
	hide := k.hides()
	ctx, callBack := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := b.set.Sessions.close(ctx, in, 1, hide)
		ended <- err
	}()
	await(t, "it to wait", func() bool { return g.waits() == 1 })
	callBack()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	done()
	if left := k.planted(); left == "" {
		t.Error("the credential went before the work was kept")
	}
	if out, err := k.close(in); err != nil || out.Archive == "" || out.Problem != nil {
		t.Errorf("closed again: %+v, %v", out, err)
	}
}
