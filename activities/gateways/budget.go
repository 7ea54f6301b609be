package gateways

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/spend"
)

// A bounded is an account of a session's requests, with what bounds it now.
type bounded struct {
	account spend.Account
	limits  spend.Limits
	// money says that only money is counted.
	money bool
}

// free reports whether nothing bounds the use. The use is counted all the same.
func (b bounded) free() bool {
	return b.limits.Tokens == 0 && b.limits.Money == 0 && b.limits.Rate == 0
}

// countPatience is how long a request that nothing bounds waits for its count.
const countPatience = 5 * time.Second

// A meter keeps a session's requests within budgets. It is the gateway.Meter of a Gate.
type meter struct {
	site *site.Site

	shared []spend.Account // the seed's and the tenant's

	mu      sync.Mutex
	session spend.Account  // guarded by mu, like all below; no name: nothing of the session is counted
	limit   protocol.Money // the session's; 0 means none
	counts  bool           // something was counted for the session
	minute  int64          // since 1970, in which the session began its newest request
	begun   int64          // the session's requests in that minute
	tokens  tokens
}

// tokens are those of a session. A session has one worker at a time, so its bound needs no store. used
// is the number that codex reported, with what this worker's gateway counted after that.
type tokens struct{ limit, used, held int64 }

// hold changes what a request keeps for itself, from some tokens to another number.
func (m *meter) hold(some, to int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &m.tokens
	if to > some && t.limit > 0 && t.used+t.held-some+to > t.limit {
		return &gateway.BudgetError{Kind: gateway.KindTokenBudget, Message: fmt.Sprintf("the session has used %d of the %d tokens that it may use, and this request needs more than the rest", t.used, t.limit)}
	}
	t.held += to - some
	return nil
}

// told records the number of tokens that codex reports for the session.
func (m *meter) told(used int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens.used = max(m.tokens.used, used)
}

// newMeter returns nil if this worker counts nothing.
func newMeter(s *site.Site, in Opening) *meter {
	if s.Spending == nil {
		return nil
	}
	m := &meter{site: s}
	m.shared = []spend.Account{{Kind: spend.Seed, Name: in.Seed.Name}, {Kind: spend.Tenant, Name: cmp.Or(in.Tenant, protocol.DefaultTenant)}}
	m.change(in)
	return m
}

// change takes what the next pump says.
func (m *meter) change(in Opening) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.limit = spend.Account{Kind: spend.Session, Name: in.Account}, in.Money
	m.tokens.limit, m.tokens.used = in.Tokens, max(m.tokens.used, in.Used)
}

// accounts returns what bounds the session now: a budget may change while the session runs.
func (m *meter) accounts(now spend.Tariff) (all []bounded) {
	m.mu.Lock()
	session, limit := m.session, m.limit
	m.mu.Unlock()
	if session.Name != "" {
		all = append(all, bounded{session, spend.Limits{Money: limit}, true})
	}
	for _, of := range m.shared {
		if limits, ok := now.Budgets[of]; ok {
			all = append(all, bounded{account: of, limits: limits})
		}
	}
	return all
}

var kinds = map[string]gateway.Kind{spend.Session: gateway.KindBudget, spend.Seed: gateway.KindSeedBudget, spend.Tenant: gateway.KindTenantBudget}

func overOf(e *spend.OverError) error {
	return &gateway.BudgetError{Kind: kinds[e.Account.Kind], Message: e.Error()}
}

// holds are those of one request.
type holds struct {
	m     *meter
	price spend.Price
	model string
	all   []held
	own   int64 // of the session's tokens
}

type held struct {
	*spend.Hold
	money bool
	// free says that nothing bounds the account; late that the store did not answer in the stream.
	free, late bool
}

func (h held) part(a spend.Amount) spend.Amount {
	if h.money {
		a.Tokens = 0
	}
	return a
}

// Begin implements gateway.Meter.
func (m *meter) Begin(ctx context.Context, model string, expected gateway.Usage) (gateway.Running, error) {
	if err := m.pace(ctx); err != nil {
		return nil, err
	}
	for {
		h, err := m.begin(ctx, model, expected)
		var over *spend.OverError
		var rate *spend.RateError
		switch {
		case errors.As(err, &over):
			return nil, overOf(over)
		case errors.As(err, &rate):
			if err := m.await(ctx, rate.Until); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		return h, nil
	}
}

// pace waits until the session may begin one more request. The session has one worker at a time, so
// the count needs no store.
func (m *meter) pace(ctx context.Context) error {
	for {
		now, rate := m.site.Now(), m.site.Tariff().SessionRate
		if m.paced(now.Unix()/60, rate) {
			return nil
		}
		if err := m.await(ctx, now.Truncate(time.Minute).Add(time.Minute)); err != nil {
			return err
		}
	}
}

// paced counts a request if the session may begin it in the given minute.
func (m *meter) paced(minute, rate int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if minute != m.minute {
		m.minute, m.begun = minute, 0
	}
	if rate > 0 && m.begun >= rate {
		return false
	}
	m.begun++
	return true
}

// await waits until the next minute of the clock has begun.
func (m *meter) await(ctx context.Context, until time.Time) error {
	t := time.NewTimer(max(until.Sub(m.site.Now()), 10*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *meter) begin(ctx context.Context, model string, expected gateway.Usage) (_ *holds, err error) {
	tariff := m.site.Tariff()
	price, known := tariff.Prices.Of(model)
	h := &holds{m: m, price: price, model: model}
	defer func() {
		if err != nil {
			h.End(gateway.Usage{})
		}
	}()
	if err := h.holdOwn(expected); err != nil {
		return nil, err
	}
	for _, b := range m.accounts(tariff) {
		if b.limits.Money > 0 && !known && !tariff.Unpriced {
			return nil, &gateway.BudgetError{Kind: kinds[b.account.Kind], Message: fmt.Sprintf("the %s has a budget in money, and model %q has no price (models.prices in the configuration of the workers)", b.account.Kind, model)}
		}
		one := held{money: b.money, free: b.free()}
		want := one.part(h.cost(expected))
		if want == (spend.Amount{}) {
			continue // it costs nothing
		}
		if one.Hold, err = m.take(ctx, b, want); err != nil {
			return nil, err
		}
		if one.Hold != nil {
			h.all = append(h.all, one)
		}
	}
	return h, nil
}

// take returns nil if nothing bounds the account and the store does not answer: the request goes
// on and is not counted.
func (m *meter) take(ctx context.Context, b bounded, want spend.Amount) (*spend.Hold, error) {
	if b.account.Kind == spend.Session {
		m.mu.Lock()
		m.counts = true
		m.mu.Unlock()
	}
	if !b.free() {
		return m.site.Spending.Take(ctx, b.account, b.limits, want)
	}
	short, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	hold, err := m.site.Spending.Take(short, b.account, b.limits, want)
	if err != nil && ctx.Err() == nil {
		m.site.Logger.Warn("a request is not counted, which nothing bounds", "account", b.account.String(), "error", err)
		return nil, nil
	}
	return hold, err
}

func (h *holds) cost(u gateway.Usage) spend.Amount {
	return spend.Amount{Tokens: u.Input + u.Output, Money: h.price.Of(u.Input, u.Cached, u.Output)}
}

func (h *holds) holdOwn(u gateway.Usage) error {
	to := max(h.own, u.Input+u.Output)
	if err := h.m.hold(h.own, to); err != nil {
		return err
	}
	h.own = to
	return nil
}

// Grow implements gateway.Running.
func (h *holds) Grow(ctx context.Context, sofar gateway.Usage) error {
	if err := h.holdOwn(sofar); err != nil {
		return err
	}
	for i := range h.all {
		one := &h.all[i]
		if one.late {
			continue // the request is counted at its end
		}
		err := one.grow(ctx, one.part(h.cost(sofar)))
		var over *spend.OverError
		if errors.As(err, &over) {
			return overOf(over)
		}
		if err != nil && one.free {
			one.late = true
			h.m.site.Logger.Warn("a stream that nothing bounds is counted at its end", "error", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *held) grow(ctx context.Context, to spend.Amount) error {
	if h.free {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, countPatience)
		defer cancel()
	}
	return h.Grow(ctx, to)
}

// End implements gateway.Running.
func (h *holds) End(used gateway.Usage) {
	h.m.mu.Lock()
	h.m.tokens.held -= h.own
	h.m.tokens.used += used.Input + used.Output
	h.m.mu.Unlock()
	h.own = 0
	for _, one := range h.all {
		one.Hold.End(one.part(h.cost(used)))
	}
}

// spent returns the money that the session has used, as all workers count it. It returns 0 if
// the session has no budget and nothing was counted.
func (m *meter) spent(ctx context.Context) (protocol.Money, error) {
	if m == nil {
		return 0, nil
	}
	m.mu.Lock()
	session, idle := m.session, m.limit == 0 && !m.counts
	m.mu.Unlock()
	if session.Name == "" || idle {
		return 0, nil
	}
	used, err := m.site.Spending.Used(ctx, session, spend.Ever)
	return used.Money, err
}
