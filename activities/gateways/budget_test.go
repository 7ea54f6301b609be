package gateways

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/spend"
	"fairlead.dev/fairlead/internal/store"
)

var errStore = errors.New("the store does not answer")

// A deadStore counts requests and answers none.
type deadStore struct{ asked atomic.Int64 }

func (s *deadStore) Get(context.Context, string) ([]byte, error) {
	s.asked.Add(1)
	return nil, errStore
}
func (s *deadStore) List(context.Context, string) ([]store.Info, error) {
	s.asked.Add(1)
	return nil, errStore
}
func (s *deadStore) Put(context.Context, string, []byte) error {
	s.asked.Add(1)
	return errStore
}
func (s *deadStore) Delete(context.Context, string) error             { return errStore }
func (s *deadStore) CreateOnce(context.Context, string, []byte) error { return errStore }

func meterOf(blobs spend.Blobs, tariff spend.Tariff, money protocol.Money) *meter {
	s := site.NewSite(site.Deps{Spending: spend.NewLedger(blobs, nil), Tariff: func() spend.Tariff { return tariff }, Logger: slog.New(slog.DiscardHandler)})
	return newMeter(s, Opening{Seed: &protocol.SeedRef{Name: "team"}, Account: "abc", Money: money})
}

var prices = spend.Prices{"m1": {Input: 1, Cached: 1, Output: 1}}

var some = gateway.Usage{Input: 1000, Output: 1000}

func TestASessionWithoutABudgetDoesNotNeedTheStore(t *testing.T) {
	t.Parallel()
	st := &deadStore{}
	m := meterOf(st, spend.Tariff{Prices: prices}, 0)
	r, err := m.Begin(t.Context(), "m1", some)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Grow(t.Context(), gateway.Usage{Input: 1000, Output: 5000}); err != nil {
		t.Error(err)
	}
	r.End(some)

	// Without prices nothing is counted.
	st = &deadStore{}
	m = meterOf(st, spend.Tariff{}, 0)
	if r, err = m.Begin(t.Context(), "m1", some); err != nil {
		t.Fatal(err)
	}
	r.End(some)
	if got, err := m.spent(t.Context()); got != 0 || err != nil || st.asked.Load() != 0 {
		t.Errorf("%s spent, %v; the store was asked %d times", got, err, st.asked.Load())
	}
}

func TestASessionWithABudgetNeedsTheStore(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*meter{
		"session": meterOf(&deadStore{}, spend.Tariff{Prices: prices}, protocol.Unit),
		"seed":    meterOf(&deadStore{}, spend.Tariff{Prices: prices, Budgets: map[spend.Account]spend.Limits{{Kind: spend.Seed, Name: "team"}: {Tokens: 1_000_000}}}, 0),
		"rate":    meterOf(&deadStore{}, spend.Tariff{Budgets: map[spend.Account]spend.Limits{{Kind: spend.Seed, Name: "team"}: {Rate: 10}}}, 0),
	} {
		if _, err := m.Begin(t.Context(), "m1", some); !errors.Is(err, errStore) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := meterOf(&deadStore{}, spend.Tariff{Prices: prices}, protocol.Unit).spent(t.Context()); !errors.Is(err, errStore) {
		t.Errorf("what is spent of a budget: %v", err)
	}
}

// A memoryStore is the store of workers.
type memoryStore struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (s *memoryStore) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.all[key]
	if !ok {
		return nil, store.ErrNotFound
	}
	return data, nil
}

func (s *memoryStore) List(_ context.Context, prefix string) (all []store.Info, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.all)) {
		if strings.HasPrefix(key, prefix) {
			all = append(all, store.Info{Key: key, ModTime: time.Now()})
		}
	}
	return all, nil
}

func (s *memoryStore) Put(_ context.Context, key string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[key] = data
	return nil
}

func (s *memoryStore) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
	return nil
}

func (s *memoryStore) CreateOnce(context.Context, string, []byte) error { return errStore }

func TestARequestOverTheRequestsOfAMinuteWaitsAndGoesOn(t *testing.T) {
	const rate = 3
	for name, tariff := range map[string]spend.Tariff{
		"of a seed":    {Budgets: map[spend.Account]spend.Limits{{Kind: spend.Seed, Name: "team"}: {Rate: rate}}},
		"of a session": {SessionRate: rate},
	} {
		t.Run(name, func(t *testing.T) { waitsForTheNextMinute(t, tariff, rate) })
	}
}

// The clock is the one of the bubble: a minute takes no time.
func waitsForTheNextMinute(t *testing.T, tariff spend.Tariff, rate int) {
	synctest.Test(t, func(t *testing.T) {
		blobs := &memoryStore{all: map[string][]byte{}}
		m := meterOf(blobs, tariff, 0)
		defer m.site.Spending.Close(t.Context())
		inMinute := map[int64]int{}
		for range 3 * rate {
			r, err := m.Begin(t.Context(), "m1", some)
			if err != nil {
				t.Fatal(err)
			}
			inMinute[time.Now().Unix()/60]++
			r.End(some)
		}
		for minute, n := range inMinute {
			if n > rate {
				t.Errorf("%d requests began in minute %d", n, minute)
			}
		}
		if len(inMinute) < 3 {
			t.Errorf("%d requests began in %d minutes", 3*rate, len(inMinute))
		}
		// Whoever waits can go away.
		for range rate {
			if r, err := m.Begin(t.Context(), "m1", some); err == nil {
				r.End(some)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			r, err := m.Begin(ctx, "m1", some)
			if errors.Is(err, context.DeadlineExceeded) {
				return
			}
			r.End(some)
		}
		t.Error("no request waited")
	})
}

func TestABudgetThatIsRaisedCountsInSessionsThatRun(t *testing.T) {
	team := spend.Account{Kind: spend.Seed, Name: "team"}
	tariff := spend.Tariff{Budgets: map[spend.Account]spend.Limits{team: {Tokens: 2500}}}
	s := site.NewSite(site.Deps{Spending: spend.NewLedger(&memoryStore{all: map[string][]byte{}}, nil), Tariff: func() spend.Tariff { return tariff }, Logger: slog.New(slog.DiscardHandler)})
	defer s.Spending.Close(t.Context())
	m := newMeter(s, Opening{Seed: &protocol.SeedRef{Name: "team"}})
	ask := func() error {
		r, err := m.Begin(t.Context(), "m1", some)
		if err == nil {
			r.End(some)
		}
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	var over *gateway.BudgetError
	if err := ask(); !errors.As(err, &over) || over.Kind != gateway.KindSeedBudget {
		t.Fatalf("over the budget: %v", err)
	}
	tariff = spend.Tariff{Budgets: map[spend.Account]spend.Limits{team: {Tokens: 5000}}}
	if err := ask(); err != nil {
		t.Errorf("after the budget was raised: %v", err)
	}
}

func TestTheTokensOfASessionAreBoundedBeforeARequestAndWithinAStream(t *testing.T) {
	t.Parallel()
	m := meterOf(&deadStore{}, spend.Tariff{}, 0) // the bound needs no store
	m.change(Opening{Account: "abc", Tokens: 10_000, Used: 3000})
	over := func(what string, err error, used string) {
		t.Helper()
		var e *gateway.BudgetError
		if !errors.As(err, &e) || e.Kind != gateway.KindTokenBudget || !strings.Contains(e.Message, "has used "+used+" of the 10000 tokens") {
			t.Errorf("%s: %v", what, err)
		}
	}
	r, err := m.Begin(t.Context(), "m1", some)
	if err != nil {
		t.Fatal(err)
	}
	other, err := m.Begin(t.Context(), "m1", some)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Grow(t.Context(), gateway.Usage{Input: 1000, Output: 4000}); err != nil {
		t.Errorf("a stream within the budget: %v", err)
	}
	over("a stream beside another request", r.Grow(t.Context(), gateway.Usage{Input: 1000, Output: 4001}), "3000")
	other.End(gateway.Usage{})
	if err := r.Grow(t.Context(), gateway.Usage{Input: 1000, Output: 6000}); err != nil {
		t.Errorf("after the other request had ended: %v", err)
	}
	r.End(gateway.Usage{Input: 1000, Output: 4500})
	over("a request", last(m.Begin(t.Context(), "m1", some)), "8500")

	// codex counts the same request, and then the next pump.
	m.told(8500)
	m.change(Opening{Account: "abc", Tokens: 10_000, Used: 8500})
	r, err = m.Begin(t.Context(), "m1", gateway.Usage{Input: 500, Output: 1000})
	if err != nil {
		t.Fatalf("a request that needs the rest: %v", err)
	}
	r.End(gateway.Usage{})
	m.told(9000)
	over("after codex has told of more", last(m.Begin(t.Context(), "m1", gateway.Usage{Input: 500, Output: 1000})), "9000")
	m.change(Opening{Account: "abc", Tokens: 20_000, Used: 9000})
	if r, err = m.Begin(t.Context(), "m1", some); err != nil {
		t.Fatalf("with a higher budget: %v", err)
	}
	r.End(gateway.Usage{})
}

func last(_ gateway.Running, err error) error { return err }
