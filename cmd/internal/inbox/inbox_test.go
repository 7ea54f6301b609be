package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sessions is a Source. Each session has the number of its open approval; 0 means none.
type sessions struct {
	mu    sync.Mutex
	open  map[string]int
	list  []string // what lists have; nil means what is open
	err   error
	lists int
	gates map[string]chan struct{} // a session answers when its gate is closed, however long that is
}

func (s *sessions) Waiting(context.Context) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	looks := map[string]string{}
	for id, n := range s.open {
		if n > 0 && (s.list == nil || slices.Contains(s.list, id)) {
			looks[id] = "a decision" // whichever it is
		}
	}
	return looks, s.err
}

func (s *sessions) Asks(_ context.Context, id string) ([]protocol.Approval, error) {
	s.mu.Lock()
	gate := s.gates[id]
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []protocol.Approval
	for n := 1; n <= s.open[id]; n++ {
		state := protocol.ApprovalOpen
		if n < s.open[id] {
			state = protocol.ApprovalAcknowledged
		}
		list = append(list, protocol.Approval{ID: fmt.Sprintf("%s.%d", id, n), State: state, Digest: "d"})
	}
	return list, nil
}

func (*sessions) Checked(ap protocol.Approval) protocol.Approval {
	ap.DigestCheck = protocol.DigestGiven
	return ap
}

func (s *sessions) set(id string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = n
}

func watch(t *testing.T, s *sessions) *Inbox {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := New(ctx, s, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		cancel()
		b.Wait()
	})
	return b
}

// until waits for a state.
func until(t *testing.T, b *Inbox, from State, ok func(State) bool) State {
	t.Helper()
	for {
		next, err := b.Next(t.Context(), from.Version)
		if err != nil {
			t.Fatal(err)
		}
		if from = next; ok(from) {
			return from
		}
	}
}

// An open approval that follows another one while Temporal's list shows the same is told.
func TestOneApprovalAfterAnotherIsTold(t *testing.T) {
	for _, stirred := range []bool{true, false} {
		s := &sessions{open: map[string]int{"a": 1}}
		b := watch(t, s)
		st := until(t, b, State{}, func(st State) bool { return st.Asks["a"] != "" })
		for n := 2; n < 4; n++ {
			was := st.Asks["a"]
			s.set("a", n)
			if stirred {
				b.Stir("a")
			}
			st = until(t, b, st, func(st State) bool { return st.Asks["a"] != "" && st.Asks["a"] != was })
		}
		s.set("a", 0)
		until(t, b, st, func(st State) bool { return len(st.Asks) == 0 })
	}
}

// A session that has just begun to ask is known before Temporal lists it, and stays known.
func TestAListThatIsLateHidesNothing(t *testing.T) {
	s := &sessions{open: map[string]int{}, list: []string{}}
	b := watch(t, s)
	st := until(t, b, State{}, func(State) bool { return true })
	s.set("a", 1)
	b.Stir("a")
	until(t, b, st, func(st State) bool { return st.Asks["a"] != "" })
	s.mu.Lock()
	before := s.lists
	s.mu.Unlock()
	for after := before; after < before+3; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		after = s.lists
		s.mu.Unlock()
		if !slices.Contains(b.Open(), "a") {
			t.Fatalf("after %d lists without it, it is not known", after-before)
		}
	}
}

// The first state has what all sessions ask.
func TestTheFirstStateIsWhole(t *testing.T) {
	gate := make(chan struct{})
	s := &sessions{open: map[string]int{}, gates: map[string]chan struct{}{"s-3": gate}}
	want := map[string]bool{}
	for i := range 20 {
		s.open[fmt.Sprintf("s-%d", i)] = 1
		want[fmt.Sprintf("s-%d", i)] = true
	}
	b := watch(t, s)
	opens := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(opens)
	first := make(chan State, 1)
	go func() {
		st, _ := b.Next(t.Context(), 0)
		first <- st
	}()
	for n := 0; n < 3; time.Sleep(10 * time.Millisecond) { // nothing is said while one has not answered
		s.mu.Lock()
		n = s.lists
		s.mu.Unlock()
		select {
		case st := <-first:
			t.Fatalf("told before all have answered: %v", st.Asks)
		default:
		}
	}
	opens()
	if st := <-first; !slices.Equal(slices.Sorted(maps.Keys(st.Asks)), slices.Sorted(maps.Keys(want))) {
		t.Errorf("the first state has %v", st.Asks)
	}
}

// While Temporal does not answer, what was known is told as old.
func TestWhatMayBeOldIsToldAsStale(t *testing.T) {
	s := &sessions{open: map[string]int{"a": 1}}
	b := watch(t, s)
	st := until(t, b, State{}, func(st State) bool { return !st.Stale })
	s.mu.Lock()
	s.err = errors.New("no answer")
	s.mu.Unlock()
	st = until(t, b, st, func(st State) bool { return st.Stale })
	if st.Asks["a"] == "" {
		t.Error("what was known is lost")
	}
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	until(t, b, st, func(st State) bool { return !st.Stale && st.Asks["a"] != "" })
}

// Recent returns what is known, and asks nobody. It returns nothing while a session may have changed,
// and nothing while Temporal does not answer.
func TestWhatIsRecentIsKnownWithoutAsking(t *testing.T) {
	gates := map[string]chan struct{}{}
	s := &sessions{open: map[string]int{"a": 3, "b": 1}, gates: gates}
	b := watch(t, s)
	if _, _, known := b.Recent(); known {
		t.Error("it is known before anybody was asked")
	}
	st := until(t, b, State{}, func(st State) bool { return len(st.Asks) == 2 })
	recent := func(want ...string) {
		t.Helper()
		for {
			open, of, known := b.Recent()
			var ids []string
			for _, ap := range open {
				if ap.DigestCheck != protocol.DigestGiven {
					t.Fatalf("%s was not checked", ap.ID)
				}
				ids = append(ids, ap.ID)
			}
			slices.Sort(ids)
			if known && slices.Equal(ids, want) && len(of.Asks) == len(want) {
				return
			}
			select {
			case <-t.Context().Done():
				t.Fatalf("known %t: %q of %v, want %q", known, ids, of.Asks, want)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	recent("a.3", "b.1")

	gate := make(chan struct{})
	s.mu.Lock()
	gates["a"] = gate
	s.open["a"] = 4
	s.mu.Unlock()
	b.Stir("a")
	if open, _, known := b.Recent(); known {
		t.Errorf("while a session has changed, %v is known", open)
	}
	s.mu.Lock()
	gates["a"] = nil
	s.mu.Unlock()
	close(gate)
	recent("a.4", "b.1")

	s.mu.Lock()
	s.err = errors.New("no answer")
	s.mu.Unlock()
	until(t, b, st, func(st State) bool { return st.Stale })
	if open, _, known := b.Recent(); known {
		t.Errorf("while Temporal does not answer, %v is known", open)
	}
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	recent("a.4", "b.1")
}

func TestTheInboxKeepsABoundedNumberOfApprovals(t *testing.T) {
	s := &sessions{}
	b := watch(t, s)
	many := func(n int) []protocol.Approval {
		return slices.Repeat([]protocol.Approval{{ID: "x.1", State: protocol.ApprovalOpen}}, n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one, two := &session{}, &session{}
	b.known["one"], b.known["two"] = one, two
	b.keep(one, many(mostKept-1), time.Now())
	b.keep(two, many(2), time.Now())
	if len(one.open) != mostKept-1 || two.open != nil || two.asks == "" {
		t.Errorf("%d and %d are kept", len(one.open), len(two.open))
	}
	b.keep(two, many(1), time.Now())
	if len(two.open) != 1 {
		t.Errorf("%d are kept, want 1", len(two.open))
	}
}

func TestNobodyIsAskedWhileNobodyWatches(t *testing.T) {
	s := &sessions{open: map[string]int{"a": 1}}
	b := watch(t, s)
	b.Stir("a")
	if open := b.Open(); len(open) > 0 || s.lists > 0 {
		t.Errorf("%d lists, and %v are known", s.lists, open)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Next(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a watcher that left hears %v", err)
	}
}
