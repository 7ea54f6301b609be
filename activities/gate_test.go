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
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Only a limited number of snapshots move at once, and only a few others wait in their
// activity slot.
func TestFewWaitForTheirTurnInASlot(t *testing.T) {
	g := newGate(1, 1, 1)
	one, err := g.enter(t.Context(), protocol.HostSpec{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan func())
	go func() {
		done, err := g.enter(context.Background(), protocol.HostSpec{Name: "a"})
		if err != nil {
			t.Error(err)
		}
		waiting <- done
	}()
	await(t, "somebody to wait", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.wait == 1 })
	if _, err := g.enter(t.Context(), protocol.HostSpec{Name: "b"}); !isBusy(err) {
		t.Errorf("entered: %v", err)
	} else if said := appError(t, failing{delay: time.Second}.failure(t.Context(), "close", fmt.Errorf("it stays: %w", err))); said.Type() != protocol.ErrTypeBusy || said.NonRetryable() || said.NextRetryDelay() < 10*time.Second {
		t.Errorf("said to Temporal: %v, %v, again after %v", said.Type(), said, said.NextRetryDelay())
	}
	one()
	(<-waiting)()
	done, err := g.enter(t.Context(), protocol.HostSpec{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	done()
	if len(g.lines) > 0 || len(g.turns) > 0 || g.inside != 0 || g.wait != 0 {
		t.Errorf("a gate that all have left: %+v", g)
	}
}

// A host whose moves are slow fills neither the places inside nor the places to
// wait, so the moves of other hosts go on.
func TestASlowHostLeavesRoomForTheOthers(t *testing.T) {
	g := newGate(4, 2, 3)
	enter := func(host string) func() {
		t.Helper()
		done, err := g.enter(t.Context(), protocol.HostSpec{Name: host})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	type entered struct {
		done func()
		err  error
	}
	wait := func(host string, n int) chan entered {
		came := make(chan entered, 1)
		go func() {
			done, err := g.enter(context.Background(), protocol.HostSpec{Name: host})
			came <- entered{done, err}
		}()
		await(t, "somebody of "+host+" to wait", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			l := g.lines[keyOfHost(protocol.HostSpec{Name: host})]
			return len(came) > 0 || l != nil && len(l.waiters) == n
		})
		if len(came) > 0 {
			t.Fatalf("somebody of %s does not wait: %v", host, (<-came).err)
		}
		return came
	}
	leave := func(came chan entered) {
		t.Helper()
		e := <-came
		if e.err != nil {
			t.Fatal(e.err)
		}
		e.done()
	}
	slow := []func(){enter("slow"), enter("slow")}
	var behind []chan entered
	for n := range 3 {
		behind = append(behind, wait("slow", n+1))
	}
	// All places to wait are taken, but b needs none, because there is room inside.
	b1, b2 := enter("b"), enter("b")
	// Now there is no room inside. The longest line gives up a place.
	c := wait("c", 1)
	if e := <-behind[2]; !isBusy(e.err) {
		t.Fatalf("the last one behind the slow host: %v", e.err)
	}
	// Two moves of the slow host wait and none of d, so one of the slow host gives up
	// its place. After that, each has one, and nobody gives up a place.
	d := wait("d", 1)
	if e := <-behind[1]; !isBusy(e.err) {
		t.Fatalf("the second one behind the slow host: %v", e.err)
	}
	if _, err := g.enter(t.Context(), protocol.HostSpec{Name: "slow"}); !isBusy(err) {
		t.Errorf("the host that has its share got in line again: %v", err)
	}
	if _, err := g.enter(t.Context(), protocol.HostSpec{Name: "e"}); !isBusy(err) {
		t.Errorf("a place was taken from a host that had only one: %v", err)
	}
	b1()
	leave(c)
	leave(d)
	b2()
	slow[0]()
	leave(behind[0])
	slow[1]()
	if len(g.lines) > 0 || len(g.turns) > 0 || g.inside != 0 || g.wait != 0 {
		t.Errorf("a gate that all have left: %+v", g)
	}
}

// Waiting hosts are served in turn, even if many moves wait for one of them.
func TestHostsPassTheGateInTurn(t *testing.T) {
	g := newGate(1, 1, 8)
	last, err := g.enter(t.Context(), protocol.HostSpec{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	passed := make(chan string)
	next := make(chan struct{})
	for i, host := range []string{"a", "a", "a", "b", "c"} {
		go func() {
			done, err := g.enter(context.Background(), protocol.HostSpec{Name: host})
			if err != nil {
				t.Error(err)
				return
			}
			passed <- host
			<-next
			done()
		}()
		await(t, "it to wait", func() bool { return g.waits() == i+1 })
	}
	last()
	var order string
	for range 5 {
		order += <-passed
		next <- struct{}{}
	}
	if order != "abcaa" {
		t.Errorf("passed in the order %s, want abcaa", order)
	}
}

// A heldPool has hosts on which nobody can list or read a tree until the pool is
// released.
type heldPool struct {
	HostPool
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
	session := path.Base(path.Dir(c.Args[0])) // the parent of its work folder, or of its CODEX_HOME
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

func (g *gate) waits() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait
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

// Snapshots of ended sessions and of leftovers wait in the same lines as those of
// running sessions. So a batch whose sessions all end at once does not overload a
// worker.
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
