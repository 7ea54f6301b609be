package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// A heldPool has hosts on which nobody can list or read a tree until the pool is
// released.
type heldPool struct {
	site.HostPool
	release chan struct{}

	mu    sync.Mutex
	begun map[string]bool // guarded by mu: sessions whose trees were asked for
}

type heldHost struct {
	hostexec.Host
	pool *heldPool
}

func (p *heldPool) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := p.HostPool.Host(spec)
	return &heldHost{h, p}, err
}

func (h *heldHost) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	// its work folder, or its CODEX_HOME, in its room
	session, err := os.Readlink(path.Join(path.Dir(path.Dir(c.Args[0])), "holder"))
	if err != nil {
		return nil, err
	}
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

// ways returns functions that keep a session's work at its end in different ways, each
// for a session of its own.
func (b *bed) ways() map[string]func() (string, error) {
	closes := func(discard bool) func() (string, error) {
		k := b.worked(fmt.Sprintf("closes-%v", discard))
		in := k.closing()
		in.Discard = discard
		return func() (string, error) {
			out, err := k.close(in)
			return out.Archive, kit.Failing{}.Failure(b.t.Context(), "close", err)
		}
	}
	wipes := func(discard bool) func() (string, error) {
		k := b.worked(fmt.Sprintf("left-%v", discard))
		in := k.leave(discard)
		return func() (string, error) {
			out, err := k.wipe(in, knows(inquiry.SeedNow{}))
			return out.Archive, err
		}
	}
	comes := b.worked("comes")
	comes.claim.Generation++
	in := places.PrepareSessionInput{Claim: comes.next(), Seed: comes.seed, Sandbox: "danger-full-access"}
	return map[string]func() (string, error){
		"close": closes(false), "close and discard": closes(true), "wipe": wipes(false), "wipe and discard": wipes(true),
		"come": func() (string, error) {
			out, err := comes.prepare(in)
			return out.Left, err
		},
	}
}

// Snapshots of ended sessions and of leftovers wait in the same lines as those of
// running sessions. So a batch whose sessions all end at once does not overload a
// worker.
func TestManyThatEndAtOnceAreKeptAFewAtATime(t *testing.T) {
	b := newBed(t, readyHost(t))
	ways := b.ways()
	pool := &heldPool{HostPool: b.pool, release: make(chan struct{}), begun: map[string]bool{}}
	b.set.site.Pool = pool
	b.set.site.Takes = kit.NewGate(kit.MovesPerWorker, kit.MovesPerHost, 1)
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
	for len(sentAway) < len(ways)-kit.MovesPerHost-1 {
		select {
		case e := <-ended:
			sentAway = append(sentAway, e)
		case <-time.After(patience):
			t.Fatalf("%d keep what they found, %d wait, and %+v were sent away", pool.working(), b.set.site.Takes.Waits(), sentAway)
		}
	}
	await(t, "the others to begin, or to wait", func() bool {
		return pool.working() == kit.MovesPerHost && b.set.site.Takes.Waits() == 1
	})
	close(pool.release)
	for range kit.MovesPerHost + 1 {
		if e := <-ended; e.err != nil || e.kept == "" {
			t.Errorf("%s: kept %q, %v", e.way, e.kept, e.err)
		}
	}
	for _, e := range sentAway {
		if e.kept != "" || kindOfError(e.err) != protocol.ErrTypeBusy || appError(t, e.err).NonRetryable() {
			t.Errorf("%s was sent away with %q, %v", e.way, e.kept, e.err)
		}
		if kept, err := ways[e.way](); err != nil || kept == "" {
			t.Errorf("%s again: kept %q, %v", e.way, kept, err)
		} else if _, err := snapshots.Read(t.Context(), b.store, kept); err != nil {
			t.Errorf("%s: %v", e.way, err)
		}
	}
}

// A caller that is cancelled while it waits leaves its line. It has done nothing that
// cannot be repeated.
func TestWhoWaitsToKeepAnEndedSessionCanBeCalledBack(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.worked("called")
	g := kit.NewGate(1, 1, 1)
	b.set.site.Takes = g
	done, err := g.Enter(t.Context(), b.spec)
	if err != nil {
		t.Fatal(err)
	}
	in := k.closing()
	in.Discard = true
	hide := k.hides()
	ctx, callBack := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := places.CloseSession(ctx, b.set.Place.Site, in, 1, hide)
		ended <- err
	}()
	await(t, "it to wait", func() bool { return g.Waits() == 1 })
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
