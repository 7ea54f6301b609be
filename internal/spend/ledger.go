package spend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// Prefix is that of all cells in the store.
const Prefix = "spend/"

// Idle is the time without requests after which a process gives its chunk of an account back.
const Idle = 30 * time.Second

// storeWait bounds what a ledger does in the store while no caller waits for it.
const storeWait = 20 * time.Second

// maxCells bounds the cells of an account in a period.
const maxCells = 10_000

// Blobs are what a ledger needs of the store.
type Blobs interface {
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	List(ctx context.Context, prefix string) ([]store.Info, error)
	// CreateOnce succeeds once for a key, or returns store.ErrNotExclusive.
	CreateOnce(ctx context.Context, key string, data []byte) error
	Delete(ctx context.Context, key string) error
}

// A cell is what one process has reserved of an account in a period; of an account without a period,
// in a week.
type cell struct {
	Amount
	// Requests were reserved in Minute, counted since 1970.
	Minute   int64 `json:"minute,omitempty"`
	Requests int64 `json:"requests,omitempty"`
}

// A Ledger counts what a worker process uses. It is safe for concurrent use.
type Ledger struct {
	blobs  Blobs
	writer string
	now    func() time.Time
	idle   time.Duration
	log    *slog.Logger
	// folding says that cells are folded.
	folding atomic.Bool
	unfit   atomic.Bool // the store cannot keep folds

	mu     sync.Mutex
	purses map[string]*purse // guarded by mu, like all below; by the keys of their cells
	closed bool
}

// NewLedger makes the ledger of a process.
func NewLedger(blobs Blobs, log *slog.Logger) *Ledger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Ledger{blobs: blobs, writer: strings.ToLower(rand.Text()), now: time.Now, idle: Idle, log: log, purses: map[string]*purse{}}
}

// A purse is a process's part of an account in a period.
type purse struct {
	l      *Ledger
	of     Account
	prefix string
	key    string
	until  time.Time // when the cell may not be written any more; zero means never

	lock chan struct{} // has one element while the purse is used, also by those who wait for the store
	mine cell          // as it is in the store at most; guarded by lock, like all below
	// used is by requests that ended, held is for those under way.
	used, held Amount
	begun      int64 // requests in the minute of mine
	others     cell  // the sum of the other cells, as last read
	old        map[string]oldCell
	folded     fold   // as last read
	foldedAt   string // its key
	due        bool   // there is something to fold
	known      bool   // whether the store has a cell of this process from before
	unsure     bool   // the cell in the store may have more than mine: a write failed
	gone       bool   // another purse has taken its place
	back       *time.Timer
}

// enter returns an account's purse with its lock, which leave gives back. isNew says that
// the process had none.
func (l *Ledger) enter(ctx context.Context, of Account, every Period) (p *purse, isNew bool, err error) {
	for {
		prefix := of.prefix() + every.at(l.now()) + "/"
		key, until := prefix+l.writer, time.Time{}
		if every == Ever {
			monday := week(l.now())
			key, until = key+"."+monday.Format(time.DateOnly), monday.Add(writeFor)
		}
		l.mu.Lock()
		if p = l.purses[key]; p == nil {
			p = &purse{l: l, of: of, prefix: prefix, key: key, until: until, lock: make(chan struct{}, 1)}
			l.purses[key] = p
		}
		l.mu.Unlock()
		if err := p.enter(ctx); err != nil {
			return nil, false, err
		}
		if p.gone {
			p.leave()
			continue
		}
		if isNew = !p.known; isNew {
			if err := p.recall(ctx); err != nil {
				p.later()
				p.leave()
				return nil, false, err
			}
		}
		return p, isNew, nil
	}
}

// recall reads the cell that an earlier purse of this process left.
func (p *purse) recall(ctx context.Context) error {
	data, err := p.l.blobs.Get(ctx, p.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return fmt.Errorf("read what was used of the budget of %s: %w", p.of, err)
	default:
		if err := json.Unmarshal(data, &p.mine); err != nil {
			return fmt.Errorf("%s is no cell of a budget: %w", p.key, err)
		}
		p.used, p.begun = p.mine.Amount, p.mine.Requests
	}
	p.known = true
	return nil
}

func (p *purse) enter(ctx context.Context) error {
	select {
	case p.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *purse) leave() { <-p.lock }

// A Hold is a part of a budget that is kept for a request.
type Hold struct {
	p      *purse
	lim    Limits
	amount Amount
}

// Take keeps a part of an account for a request. It returns an *OverError or a *RateError if
// there is not enough.
func (l *Ledger) Take(ctx context.Context, of Account, lim Limits, want Amount) (*Hold, error) {
	p, isNew, err := l.enter(ctx, of, lim.Every)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	err = p.take(ctx, lim, want, true)
	if p.due {
		p.due = false
		go l.foldAll(ctx, of)
	}
	if err != nil {
		p.later()
		return nil, err
	}
	if isNew && lim.Every != Ever {
		go l.tidy(context.WithoutCancel(ctx), of, lim.Every)
	}
	return &Hold{p: p, lim: lim, amount: want}, nil
}

// Grow makes sure that at least so much is held.
func (h *Hold) Grow(ctx context.Context, to Amount) error {
	more := to.less(h.amount).most(Amount{})
	if more == (Amount{}) {
		return nil
	}
	if err := h.p.enter(ctx); err != nil {
		return err
	}
	defer h.p.leave()
	if err := h.p.take(ctx, h.lim, more, false); err != nil {
		return err
	}
	h.amount = h.amount.plus(more)
	return nil
}

// End counts what the request has used, also beyond the limit. It must be called once.
func (h *Hold) End(used Amount) {
	p := h.p
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	_ = p.enter(context.Background()) // never fails
	defer p.leave()
	p.held, p.used = p.held.less(h.amount).most(Amount{}), p.used.plus(used)
	if err := p.settle(ctx, p.l.isClosed()); err != nil {
		p.l.log.Warn("what was used is not counted yet", "account", p.of.String(), "error", err)
	}
	p.later()
}

func (l *Ledger) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// settle writes the cell if it has less than is needed. With exact it gives the rest of the chunk
// back, too: no idle time comes any more.
func (p *purse) settle(ctx context.Context, exact bool) error {
	need, now := p.used.plus(p.held), p.mine
	if exact {
		now.Amount = need
	} else {
		now.Amount = now.most(need)
	}
	if now == p.mine && !(exact && p.unsure) {
		return nil
	}
	err := p.write(ctx, now)
	if errors.Is(err, errLate) {
		return p.move(ctx)
	}
	return err
}

// late reports whether the cell may not be written any more.
func (p *purse) late() bool { return !p.until.IsZero() && !p.l.now().Before(p.until) }

// take is called with the lock.
func (p *purse) take(ctx context.Context, lim Limits, want Amount, begins bool) error {
	minute := p.l.now().Unix() / 60
	if p.mine.Minute != minute {
		p.begun = 0
	}
	need, count := p.used.plus(p.held).plus(want), p.begun
	if begins {
		count++
	}
	enough := func(c cell) bool {
		return need.within(c.Amount) && (lim.Rate == 0 || c.Minute == minute && count <= c.Requests)
	}
	// The limit may be lower than when the chunk was reserved.
	if enough(p.mine) && lim.over(need.plus(p.others.Amount)) == "" {
		p.hold(want, count, minute)
		return nil
	}
	if p.late() {
		return errLate
	}
	if err := p.look(ctx, minute); err != nil {
		return err
	}
	fits := func(c cell) error {
		if what := lim.over(c.plus(p.others.Amount)); what != "" {
			return &OverError{Account: p.of, Bound: what, Used: p.used.plus(p.held).plus(p.others.Amount), Limits: lim, Ends: lim.Every.End(p.l.now())}
		}
		if lim.Rate > 0 && c.Requests+p.others.Requests > lim.Rate {
			return &RateError{Account: p.of, Limit: lim.Rate, Until: time.Unix((minute+1)*60, 0)}
		}
		return nil
	}
	before := p.mine
	least := cell{Amount: need, Minute: minute, Requests: count}
	if err := fits(least); err != nil {
		return err
	}
	more := cell{Amount: need.plus(lim.chunk()), Minute: minute, Requests: count + lim.Rate/16}
	if fits(more) != nil {
		more = least
	}
	if err := p.write(ctx, more); err != nil {
		return err
	}
	err := p.look(ctx, minute)
	if err == nil && fits(more) != nil {
		if err = fits(least); err == nil {
			err = p.write(ctx, least)
		}
	}
	if err != nil {
		// The cell now reserves too much. If this write fails, too, the budget only ends too early.
		before.Amount = before.most(p.used.plus(p.held))
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWait)
		defer cancel()
		if werr := p.write(undo, before); werr != nil {
			p.l.log.Warn("a reservation was not taken back", "account", p.of.String(), "error", werr)
		}
		return err
	}
	p.hold(want, count, minute)
	return nil
}

func (p *purse) hold(want Amount, count, minute int64) {
	p.held = p.held.plus(want)
	if p.mine.Minute == minute {
		p.begun = count
	}
}

// write writes this process's cell. It goes on if ctx is cancelled, since whoever asks may go away
// at any time. A write that ends when the cell may be folded is not relied on.
func (p *purse) write(ctx context.Context, c cell) error {
	if p.late() {
		return errLate
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWait)
	defer cancel()
	if err := p.l.blobs.Put(ctx, p.key, data); err != nil || p.late() {
		// The store has the old cell or this one. Only what both have is reserved for sure.
		p.unsure = true
		p.mine.Amount = p.mine.least(c.Amount)
		switch {
		case p.mine.Minute == c.Minute:
			p.mine.Requests = min(p.mine.Requests, c.Requests)
		case p.mine.Minute > c.Minute:
			p.mine.Minute, p.mine.Requests = c.Minute, c.Requests
		}
		if err == nil {
			err = errLate
		}
		return fmt.Errorf("reserve a part of the budget of %s: %w", p.of, err)
	}
	p.mine, p.unsure = c, false
	return nil
}

// look reads the cells of the other processes.
func (p *purse) look(ctx context.Context, minute int64) error {
	var err error
	p.others, err = p.sum(ctx, minute)
	if err != nil {
		return fmt.Errorf("read what others have used of the budget of %s: %w", p.of, err)
	}
	return nil
}

// later gives the chunk back, and forgets the purse, unless it is used again soon.
func (p *purse) later() {
	if p.held != (Amount{}) {
		return
	}
	if p.back != nil {
		p.back.Reset(p.l.idle)
		return
	}
	p.back = time.AfterFunc(p.l.idle, func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeWait)
		defer cancel()
		p.giveBack(ctx)
	})
}

func (p *purse) giveBack(ctx context.Context) {
	if p.enter(ctx) != nil {
		return
	}
	defer p.leave()
	if p.known {
		if err := p.settle(ctx, true); err != nil {
			p.l.log.Warn("the rest of a reservation was not given back", "account", p.of.String(), "error", err)
			p.later()
			return
		}
	}
	if p.held == (Amount{}) && !p.gone {
		p.gone = true
		p.l.mu.Lock()
		delete(p.l.purses, p.key)
		p.l.mu.Unlock()
	}
}

// Close gives all chunks back. What is held stays counted, until its End.
func (l *Ledger) Close(ctx context.Context) {
	l.mu.Lock()
	l.closed = true
	var all []*purse
	for _, p := range l.purses {
		all = append(all, p)
	}
	l.mu.Unlock()
	for _, p := range all {
		p.giveBack(ctx)
	}
}

// Used returns what all processes have used of an account in this period.
func (l *Ledger) Used(ctx context.Context, of Account, every Period) (Amount, error) {
	p, _, err := l.enter(ctx, of, every)
	if err != nil {
		return Amount{}, err
	}
	defer p.leave()
	defer p.later()
	if err := p.look(ctx, 0); err != nil {
		return Amount{}, err
	}
	return p.used.plus(p.held).plus(p.others.Amount), nil
}

// tidy deletes the cells of an account's earlier periods, except those of the one before.
func (l *Ledger) tidy(ctx context.Context, of Account, every Period) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	now := l.now()
	start := now
	if end := every.End(now); !end.IsZero() {
		start = map[Period]time.Time{Day: end.AddDate(0, 0, -1), Month: end.AddDate(0, -1, 0)}[every]
	}
	keep := []string{of.prefix() + every.at(now) + "/", of.prefix() + every.at(start.Add(-time.Hour)) + "/"}
	cells, err := l.blobs.List(ctx, of.prefix())
	if err != nil {
		l.log.Warn("counts of earlier periods were not deleted", "account", of.String(), "error", err)
		return
	}
	for _, info := range cells {
		name := strings.TrimPrefix(info.Key, of.prefix())
		period, _, _ := strings.Cut(name, "/")
		sameKind := len(period) == len(every.at(now)) && period != "all"
		if !sameKind || strings.HasPrefix(info.Key, keep[0]) || strings.HasPrefix(info.Key, keep[1]) {
			continue
		}
		if err := l.blobs.Delete(ctx, info.Key); err != nil {
			l.log.Warn("a count of an earlier period was not deleted", "key", info.Key, "error", err)
			return
		}
	}
}
