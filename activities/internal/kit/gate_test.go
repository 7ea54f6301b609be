package kit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/protocol"
)

// A host whose moves are slow fills neither the places inside nor the places to
// wait, so the moves of other hosts go on.
func TestASlowHostLeavesRoomForTheOthers(t *testing.T) {
	g := NewGate(4, 2, 3)
	enter := func(host string) func() {
		t.Helper()
		done, err := g.Enter(t.Context(), protocol.HostSpec{Name: host})
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
			done, err := g.Enter(context.Background(), protocol.HostSpec{Name: host})
			came <- entered{done, err}
		}()
		await(t, "somebody of "+host+" to wait", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			l := g.lines[KeyOfHost(protocol.HostSpec{Name: host})]
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
	if e := <-behind[2]; !IsBusy(e.err) {
		t.Fatalf("the last one behind the slow host: %v", e.err)
	}
	// Two moves of the slow host wait and none of d, so one of the slow host gives up
	// its place. After that, each has one, and nobody gives up a place.
	d := wait("d", 1)
	if e := <-behind[1]; !IsBusy(e.err) {
		t.Fatalf("the second one behind the slow host: %v", e.err)
	}
	if _, err := g.Enter(t.Context(), protocol.HostSpec{Name: "slow"}); !IsBusy(err) {
		t.Errorf("the host that has its share got in line again: %v", err)
	}
	if _, err := g.Enter(t.Context(), protocol.HostSpec{Name: "e"}); !IsBusy(err) {
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

// Only a limited number of snapshots move at once, and only a few others wait in their
// activity slot.
func TestFewWaitForTheirTurnInASlot(t *testing.T) {
	g := NewGate(1, 1, 1)
	one, err := g.Enter(t.Context(), protocol.HostSpec{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan func())
	go func() {
		done, err := g.Enter(context.Background(), protocol.HostSpec{Name: "a"})
		if err != nil {
			t.Error(err)
		}
		waiting <- done
	}()
	await(t, "somebody to wait", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.wait == 1 })
	if _, err := g.Enter(t.Context(), protocol.HostSpec{Name: "b"}); !IsBusy(err) {
		t.Errorf("entered: %v", err)
	} else if said := appError(t, Failing{Delay: time.Second}.Failure(t.Context(), "close", fmt.Errorf("it stays: %w", err))); said.Type() != protocol.ErrTypeBusy || said.NonRetryable() || said.NextRetryDelay() < 10*time.Second {
		t.Errorf("said to Temporal: %v, %v, again after %v", said.Type(), said, said.NextRetryDelay())
	}
	one()
	(<-waiting)()
	done, err := g.Enter(t.Context(), protocol.HostSpec{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	done()
	if len(g.lines) > 0 || len(g.turns) > 0 || g.inside != 0 || g.wait != 0 {
		t.Errorf("a gate that all have left: %+v", g)
	}
}

// Waiting hosts are served in turn, even if many moves wait for one of them.
func TestHostsPassTheGateInTurn(t *testing.T) {
	g := NewGate(1, 1, 8)
	last, err := g.Enter(t.Context(), protocol.HostSpec{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	passed := make(chan string)
	next := make(chan struct{})
	for i, host := range []string{"a", "a", "a", "b", "c"} {
		go func() {
			done, err := g.Enter(context.Background(), protocol.HostSpec{Name: host})
			if err != nil {
				t.Error(err)
				return
			}
			passed <- host
			<-next
			done()
		}()
		await(t, "it to wait", func() bool { return g.Waits() == i+1 })
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

// await polls until ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func appError(t *testing.T, err error) *temporal.ApplicationError {
	t.Helper()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		t.Fatalf("error %v (%T) is no application error", err, err)
	}
	return app
}
