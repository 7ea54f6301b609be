package spend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// A clock is set by the test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t
}

var noon = time.Date(2026, 11, 30, 12, 0, 10, 0, time.UTC)

func realStore(t *testing.T) *store.Store {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(t.TempDir(), "store"),
		Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// process makes the ledger of one worker process. It never gives a chunk back by itself.
func process(blobs Blobs, c *clock) *Ledger {
	l := NewLedger(blobs, nil)
	l.now, l.idle = c.now, 1000*time.Hour
	return l
}

var team = Account{Kind: Seed, Name: "team"}

func mustTake(t *testing.T, l *Ledger, lim Limits, want Amount) *Hold {
	t.Helper()
	h, err := l.Take(t.Context(), team, lim, want)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func used(t *testing.T, l *Ledger, every Period) Amount {
	t.Helper()
	a, err := l.Used(t.Context(), team, every)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhatProcessesUseIsOneCount(t *testing.T) {
	st, c := realStore(t), &clock{at: noon}
	one, two := process(st, c), process(st, c)
	lim := Limits{Tokens: 10_000, Money: 5 * protocol.Unit}
	h := mustTake(t, one, lim, Amount{Tokens: 4000, Money: protocol.Unit})
	h.End(Amount{Tokens: 3000, Money: protocol.Unit / 2})
	h = mustTake(t, two, lim, Amount{Tokens: 5000, Money: protocol.Unit})
	h.End(Amount{Tokens: 5000, Money: protocol.Unit})
	one.Close(t.Context())
	two.Close(t.Context())
	if got := used(t, process(st, c), Ever); got != (Amount{8000, 1_500_000}) {
		t.Errorf("in all %+v", got)
	}
	_, err := two.Take(t.Context(), team, lim, Amount{Tokens: 2001})
	var over *OverError
	if !errors.As(err, &over) || over.Bound != "tokens" || over.Used.Tokens != 8000 || !strings.Contains(err.Error(), "seed team has used 8000 of the 10000 tokens") {
		t.Errorf("beyond the limit: %v", err)
	}
	if _, err := one.Take(t.Context(), team, lim, Amount{Tokens: 1, Money: 3_500_001}); !errors.As(err, &over) || over.Bound != "money" || !strings.Contains(err.Error(), "1.50 of the 5.00 in money") {
		t.Errorf("beyond the limit in money: %v", err)
	}
	// A refusal takes nothing, and a raised limit counts at once.
	mustTake(t, two, Limits{Tokens: 10_001, Money: lim.Money}, Amount{Tokens: 2001}).End(Amount{Tokens: 2001})
	if got := used(t, one, Ever).Tokens; got != 10_001 {
		t.Errorf("%d tokens in all", got)
	}
}

func TestADeadProcessHasNeverUsedMoreThanItsCellSays(t *testing.T) {
	st, c := realStore(t), &clock{at: noon}
	lim := Limits{Money: 64 * protocol.Unit}
	dead := process(st, c)
	for range 5 {
		mustTake(t, dead, lim, Amount{Money: protocol.Unit}).End(Amount{Money: protocol.Unit / 2})
	}
	h := mustTake(t, dead, lim, Amount{Money: 2 * protocol.Unit})
	if err := h.Grow(t.Context(), Amount{Money: 3 * protocol.Unit}); err != nil {
		t.Fatal(err)
	}
	// It dies here, with a request under way. At least 2.5 were used and 3 were held.
	got := used(t, process(st, c), Ever).Money
	if least, most := 5_500_000*protocol.Money(1), 5_500_000+lim.chunk().Money; got < least || got > most {
		t.Errorf("%s count as used, want %s to %s", got, least, most)
	}
}

func TestWhatARequestUsedBeyondItsHoldIsCounted(t *testing.T) {
	st, c := realStore(t), &clock{at: noon}
	lim := Limits{Tokens: 1000}
	l := process(st, c)
	mustTake(t, l, lim, Amount{Tokens: 900}).End(Amount{Tokens: 5000})
	if got := used(t, process(st, c), Ever).Tokens; got != 5000 {
		t.Errorf("%d tokens count as used", got)
	}
	if _, err := l.Take(t.Context(), team, lim, Amount{Tokens: 1}); err == nil {
		t.Error("a request beyond the limit is permitted")
	}
}

func TestAStreamIsRefusedWhatIsNotThere(t *testing.T) {
	st, c := realStore(t), &clock{at: noon}
	lim := Limits{Tokens: 1000}
	one, two := process(st, c), process(st, c)
	h := mustTake(t, one, lim, Amount{Tokens: 500})
	mustTake(t, two, lim, Amount{Tokens: 300})
	if err := h.Grow(t.Context(), Amount{Tokens: 600}); err != nil {
		t.Fatal(err)
	}
	var over *OverError
	if err := h.Grow(t.Context(), Amount{Tokens: 701}); !errors.As(err, &over) {
		t.Errorf("it grows: %v", err)
	}
	h.End(Amount{Tokens: 650})
	one.Close(t.Context())
	if got := used(t, one, Ever).Tokens; got < 950 || got > 950+lim.chunk().Tokens {
		t.Errorf("%d tokens count as used", got)
	}
}

func TestABudgetBeginsAnewWithItsPeriod(t *testing.T) {
	st, c := realStore(t), &clock{at: noon}
	l := process(st, c)
	lim := Limits{Tokens: 100, Every: Day}
	mustTake(t, l, lim, Amount{Tokens: 100}).End(Amount{Tokens: 100})
	var over *OverError
	_, err := l.Take(t.Context(), team, lim, Amount{Tokens: 1})
	if !errors.As(err, &over) || !over.Ends.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) || !strings.Contains(err.Error(), "which ends at 2026-12-01 00:00 UTC") {
		t.Errorf("%v", err)
	}
	c.set(noon.AddDate(0, 0, 1))
	mustTake(t, l, lim, Amount{Tokens: 100}).End(Amount{Tokens: 100})
	c.set(noon.AddDate(0, 0, 2))
	mustTake(t, l, lim, Amount{Tokens: 1}).End(Amount{Tokens: 1})
	// The process tidies up beside the request.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		cells, err := st.List(t.Context(), Prefix)
		if err != nil {
			t.Fatal(err)
		}
		if len(cells) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("cells of earlier days stay: %+v", cells)
		}
	}
	if end := Month.End(noon); !end.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the month ends at %s", end)
	}
}

func TestRequestsOfAMinuteAreSharedByAllProcesses(t *testing.T) {
	st, c := realStore(t), &clock{at: noon}
	all := []*Ledger{process(st, c), process(st, c), process(st, c)}
	lim := Limits{Rate: 40}
	begin := func() (n int) {
		for {
			refused := 0
			for _, l := range all {
				h, err := l.Take(t.Context(), team, lim, Amount{Tokens: 1})
				var rate *RateError
				switch {
				case err == nil:
					n++
					h.End(Amount{Tokens: 1})
				case errors.As(err, &rate):
					if left := rate.Until.Sub(c.now()); left <= 0 || left > time.Minute {
						t.Errorf("the minute ends in %s", left)
					}
					refused++
				default:
					t.Fatal(err)
				}
			}
			if refused == len(all) {
				return n
			}
		}
	}
	for minute := range 3 {
		c.set(noon.Add(time.Duration(minute) * time.Minute))
		// A process may keep two of a sixteenth that it does not use.
		if n := begin(); n > 40 || n < 34 {
			t.Errorf("minute %d: %d requests began", minute, n)
		}
	}
}

func TestAProcessGivesBackWhatItDoesNotUse(t *testing.T) {
	st, c := realStore(t), &clock{at: noon}
	l := process(st, c)
	l.idle = time.Millisecond
	lim := Limits{Tokens: 64_000}
	mustTake(t, l, lim, Amount{Tokens: 10}).End(Amount{Tokens: 7})
	for deadline := time.Now().Add(time.Minute); used(t, process(st, c), Ever).Tokens != 7; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the chunk stays reserved")
		}
	}
	// It goes on from there.
	mustTake(t, l, lim, Amount{Tokens: 10}).End(Amount{Tokens: 5})
	l.Close(t.Context())
	if got := used(t, process(st, c), Ever).Tokens; got != 12 {
		t.Errorf("%d tokens count as used", got)
	}
}

// A flaky store fails now and then, sometimes after it has done what was asked.
type flaky struct {
	Blobs
	mu  sync.Mutex
	rng *rand.Rand
}

var errStore = errors.New("the store does not answer")

func (f *flaky) fails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(10) == 0
}

func (f *flaky) Put(ctx context.Context, key string, data []byte) error {
	if f.fails() {
		return errStore
	}
	err := f.Blobs.Put(ctx, key, data)
	if f.fails() {
		return errStore
	}
	return err
}

func (f *flaky) List(ctx context.Context, prefix string) ([]store.Info, error) {
	if f.fails() {
		return nil, errStore
	}
	return f.Blobs.List(ctx, prefix)
}

// memory is a store in which everybody sees at once what was written.
type memory struct {
	mu sync.Mutex
	at map[string][]byte
	// written says when, by now; nil for a store that does not say it.
	written map[string]time.Time
	now     func() time.Time
}

func (m *memory) Put(_ context.Context, key string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at[key] = data
	if m.written != nil {
		m.written[key] = m.now()
	}
	return nil
}

func (m *memory) CreateOnce(_ context.Context, key string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.at[key]; ok {
		return store.ErrExists
	}
	m.at[key] = data
	return nil
}

func (m *memory) Get(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.at[key]; ok {
		return data, nil
	}
	return nil, store.ErrNotFound
}

func (m *memory) List(_ context.Context, prefix string) (out []store.Info, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.at {
		if strings.HasPrefix(key, prefix) {
			out = append(out, store.Info{Key: key, ModTime: m.written[key]})
		}
	}
	return out, nil
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.at, key)
	return nil
}

// Workers ask at the same time, die with requests under way, and their store fails. What they
// used never exceeds the limit, and what the cells say is never less than what was used.
func TestNoSetOfProcessesUsesMoreThanTheLimit(t *testing.T) {
	for seed := range uint64(20) {
		m, c := &memory{at: map[string][]byte{}}, &clock{at: noon}
		const limit = 20_000
		lim := Limits{Tokens: limit}
		var mu sync.Mutex
		var spent int64
		var all sync.WaitGroup
		for w := range uint64(6) {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, w))
				blobs := &flaky{Blobs: m, rng: rand.New(rand.NewPCG(seed, 100+w))}
				l := process(blobs, c)
				for range 60 {
					want := 1 + rng.Int64N(300)
					h, err := l.Take(context.Background(), team, lim, Amount{Tokens: want})
					if err != nil {
						continue
					}
					if h.Grow(context.Background(), Amount{Tokens: 2 * want}) == nil {
						want *= 2
					}
					use := rng.Int64N(want + 1)
					mu.Lock()
					spent += use
					mu.Unlock()
					if rng.IntN(20) == 0 {
						l = process(blobs, c) // the process died before it counted this
						continue
					}
					h.End(Amount{Tokens: use})
				}
			})
		}
		all.Wait()
		got, err := process(m, c).Used(t.Context(), team, Ever)
		if err != nil {
			t.Fatal(err)
		}
		if spent > limit || got.Tokens < spent {
			t.Errorf("seed %d: %d tokens were used, the cells say %d, the limit is %d", seed, spent, got.Tokens, limit)
		}
		if spent < limit/4 {
			t.Errorf("seed %d: only %d tokens of %d were used", seed, spent, limit)
		}
	}
}

// A dead store does not answer.
type dead struct{ Blobs }

func (dead) Get(context.Context, string) ([]byte, error)        { return nil, errStore }
func (dead) List(context.Context, string) ([]store.Info, error) { return nil, errStore }
func (dead) Put(context.Context, string, []byte) error          { return errStore }

func TestAStoreThatDoesNotAnswerPermitsNothing(t *testing.T) {
	l := process(dead{}, &clock{at: noon})
	if _, err := l.Take(t.Context(), team, Limits{Tokens: 10}, Amount{Tokens: 1}); !errors.Is(err, errStore) {
		t.Errorf("%v", err)
	}
}

func TestPricesAreFoundByNameOrBeginning(t *testing.T) {
	p := Prices{"gpt-6": {Input: 1, Cached: 0.5, Output: 2}, "gpt-*": {Input: 10}, "gpt-5*": {Input: 20}}
	for model, want := range map[string]float64{"gpt-6": 1, "gpt-6.1": 10, "gpt-5.1": 20} {
		if got, ok := p.Of(model); !ok || got.Input != want {
			t.Errorf("%s: %+v, %v", model, got, ok)
		}
	}
	if _, ok := p.Of("other"); ok {
		t.Error("an unknown model has a price")
	}
	if cost := p["gpt-6"].Of(1000, 400, 10); cost != 600+200+20 {
		t.Errorf("%d millionths", cost)
	}
}

// Whatever a provider says that it used, the account can be read afterwards.
func TestAnAccountIsReadableWhateverWasUsed(t *testing.T) {
	st, c := realStore(t), &clock{at: noon}
	l := process(st, c)
	lim := Limits{Tokens: 1000, Money: protocol.Unit}
	dear := Price{Input: 1e9, Cached: 1e9, Output: 1e9}.Of(1<<60, 1<<59, 1<<60)
	for range 3 {
		mustTake(t, l, Limits{}, Amount{Tokens: 1}).End(Amount{Tokens: 1<<63 - 1, Money: dear})
	}
	l.Close(t.Context())
	if got := used(t, process(st, c), Ever); got.Tokens < 1<<60 || got.Money != protocol.MostMoney {
		t.Errorf("%+v count as used", got)
	}
	for _, l := range []*Ledger{l, process(st, c)} {
		var over *OverError
		if _, err := l.Take(t.Context(), team, lim, Amount{Tokens: 1}); !errors.As(err, &over) {
			t.Errorf("%v", err)
		}
	}
}

// A late store does what it is asked, and says that it failed as often as it is told.
type late struct {
	Blobs
	mu   sync.Mutex
	puts int // that seem to fail from now on
}

func (s *late) Put(ctx context.Context, key string, data []byte) error {
	err := s.Blobs.Put(ctx, key, data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.puts > 0 {
		s.puts--
		return errStore
	}
	return err
}

func TestAWriteThatOnlySeemedToFailChargesNothing(t *testing.T) {
	m, c := &memory{at: map[string][]byte{}}, &clock{at: noon}
	lim := Limits{Tokens: 64_000}
	for _, how := range []string{"closed", "idle"} {
		s := &late{Blobs: m, puts: 1}
		l := process(s, c)
		if how == "idle" {
			l.idle = time.Millisecond
		}
		if _, err := l.Take(t.Context(), team, lim, Amount{Tokens: 500}); !errors.Is(err, errStore) {
			t.Fatal(err)
		}
		if how == "closed" {
			l.Close(t.Context())
		}
		eventually(t, func() bool { return used(t, process(m, c), Ever) == Amount{} }, how+": the reservation stays")
	}
}

// The request's client goes away while its reservation is written.
func TestAReservationIsWrittenThoughTheClientIsGone(t *testing.T) {
	c := &clock{at: noon}
	l := process(gone{&memory{at: map[string][]byte{}}}, c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.now = func() time.Time { return noon }
	h, err := l.Take(context.WithValue(ctx, canceller{}, cancel), team, Limits{Tokens: 100}, Amount{Tokens: 5})
	if err != nil {
		t.Fatal(err)
	}
	h.End(Amount{Tokens: 5})
}

type canceller struct{}

// A gone store cancels the request before it writes.
type gone struct{ Blobs }

func (g gone) Put(ctx context.Context, key string, data []byte) error {
	if cancel, ok := ctx.Value(canceller{}).(context.CancelFunc); ok {
		cancel()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return g.Blobs.Put(ctx, key, data)
}

func TestAPurseThatNothingIsTakenFromIsForgotten(t *testing.T) {
	m, c := &memory{at: map[string][]byte{}}, &clock{at: noon}
	for name, use := range map[string]func(*Ledger) error{
		"asked": func(l *Ledger) error {
			_, err := l.Used(t.Context(), team, Ever)
			return err
		},
		"refused": func(l *Ledger) error {
			_, err := l.Take(t.Context(), team, Limits{Tokens: 10}, Amount{Tokens: 11})
			var over *OverError
			if errors.As(err, &over) {
				return nil
			}
			return fmt.Errorf("taken: %w", err)
		},
		"unknown": func(l *Ledger) error {
			l.blobs = dead{}
			if _, err := l.Used(t.Context(), team, Ever); !errors.Is(err, errStore) {
				return fmt.Errorf("known: %w", err)
			}
			return nil
		},
	} {
		l := process(m, c)
		l.idle = time.Millisecond
		if err := use(l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.purses) == 0
		}, name+": the purse stays")
	}
}

func eventually(t *testing.T, is func() bool, not string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(not)
		}
	}
}

func TestARequestThatEndsAfterItsProcessHasClosedIsCountedExactly(t *testing.T) {
	m, c := &memory{at: map[string][]byte{}}, &clock{at: noon}
	l, lim := process(m, c), Limits{Tokens: 64_000}
	one, two := mustTake(t, l, lim, Amount{Tokens: 5000}), mustTake(t, l, lim, Amount{Tokens: 300})
	l.Close(t.Context())
	if got := used(t, process(m, c), Ever).Tokens; got != 5300 {
		t.Errorf("%d tokens count as used while the requests are under way", got)
	}
	one.End(Amount{Tokens: 7})
	if got := used(t, process(m, c), Ever).Tokens; got != 307 {
		t.Errorf("%d tokens count as used after the first", got)
	}
	two.End(Amount{Tokens: 1})
	if got := used(t, process(m, c), Ever).Tokens; got != 8 {
		t.Errorf("%d tokens count as used", got)
	}
}
