package spend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

const (
	// writeFor is how long after the Monday in its name a cell is written at most.
	writeFor = 10 * 24 * time.Hour
	// foldAfter is how long after that Monday a cell may be folded. Between both, clocks may differ
	// and a write may be under way.
	foldAfter = 21 * 24 * time.Hour
	// quiet is how long nobody wrote a cell that is folded.
	quiet = 7 * 24 * time.Hour
	// foldFrom is how many cells make a fold worth its requests.
	foldFrom = 32
	// foldMost bounds the cells that one fold adds.
	foldMost = 500
	// mostFolded bounds the names of deleted cells that a fold keeps.
	mostFolded = 2000
	foldWait   = 2 * time.Minute
)

// foldPrefix begins the names of folds, before a number of ten digits.
const foldPrefix = "fold."

// A fold is the sum of cells that nobody writes any more. It never changes. A fold with a higher
// number has all that those with lower numbers have, and takes their place.
type fold struct {
	Amount
	// Folded has the cells that count in Amount, with what they had. They are deleted after the
	// fold was written. The names stay for a time: if a late write brings a cell back, only what it
	// has beyond this counts.
	Folded map[string]Amount `json:"folded"`
}

// errLate means that a cell may not be written any more, since it may be folded.
var errLate = errors.New("the request is under way for longer than its part of the budget may change")

// week returns the Monday of a time's week.
func week(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	return time.Date(y, m, d-(int(t.UTC().Weekday())+6)%7, 0, 0, 0, 0, time.UTC)
}

// weekOf returns the Monday in a cell's name. Earlier versions of Fairlead wrote names without one.
func weekOf(name string) (monday time.Time, ok bool) {
	_, day, _ := strings.Cut(name, ".")
	monday, err := time.Parse(time.DateOnly, day)
	return monday, err == nil
}

// cells are what a listing of an account in a period has.
type cells struct {
	prefix string
	all    []store.Info // without folds
	top    string       // key of the fold that counts; empty if there is none
	spent  []string     // keys of folds whose place it took
}

var errMoved = errors.New("cells are folded at the moment")

// list lists cells. It returns errMoved if a fold was written meanwhile: a cell that this fold
// has may then be missing from the listing.
func (l *Ledger) list(ctx context.Context, prefix string, folds bool) (cells, error) {
	all, err := l.blobs.List(ctx, prefix)
	if err != nil || !folds {
		return cells{prefix: prefix, all: all}, err
	}
	out := split(prefix, all)
	again, err := l.blobs.List(ctx, prefix+foldPrefix)
	if err != nil {
		return cells{}, err
	}
	if split(prefix, again).top != out.top {
		return cells{}, errMoved
	}
	return out, nil
}

func split(prefix string, all []store.Info) cells {
	out := cells{prefix: prefix}
	for _, info := range all {
		switch {
		case !strings.HasPrefix(info.Key, prefix+foldPrefix):
			out.all = append(out.all, info)
		case info.Key > out.top:
			if out.top != "" {
				out.spent = append(out.spent, out.top)
			}
			out.top = info.Key
		default:
			out.spent = append(out.spent, info.Key)
		}
	}
	return out
}

// fold reads the fold that counts.
func (l *Ledger) fold(ctx context.Context, key string) (f fold, err error) {
	if key == "" {
		return f, nil
	}
	data, err := l.blobs.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return f, errMoved
	}
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("%s is no sum of cells of a budget: %w", key, err)
	}
	return f, nil
}

// old returns the cells that can be folded. There are none while a worker of an earlier version
// uses the account: it would count a fold and the cells that are not deleted yet.
func (c cells) old(now time.Time) (out []store.Info) {
	for _, info := range c.all {
		monday, ok := weekOf(strings.TrimPrefix(info.Key, c.prefix))
		still := now.Sub(info.ModTime) >= quiet
		if !ok && !still {
			return nil
		}
		if ok && still && now.Sub(monday) >= foldAfter {
			out = append(out, info)
		}
	}
	return out
}

// due reports whether foldAll has something to do.
func (c cells) due(f fold, now time.Time) bool {
	return len(c.spent) > 0 || len(c.old(now)) >= foldFrom || slices.ContainsFunc(c.all, func(info store.Info) bool {
		_, ok := f.Folded[strings.TrimPrefix(info.Key, c.prefix)]
		return ok
	})
}

// foldAll folds the cells of an account without a period, beside requests.
func (l *Ledger) foldAll(ctx context.Context, of Account) {
	if l.unfit.Load() || !l.folding.CompareAndSwap(false, true) {
		return // the next request finds what is left
	}
	defer l.folding.Store(false)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), foldWait)
	defer cancel()
	for {
		more, err := l.foldSome(ctx, of.prefix()+Ever.at(l.now())+"/")
		if errors.Is(err, store.ErrNotExclusive) {
			l.unfit.Store(true)
			l.log.Warn("the store cannot tell which of two writers was first, so counts of budgets are not merged: each start of a worker leaves one more, of at most 10,000", "account", of.String())
			return
		}
		if err != nil && !errors.Is(err, errMoved) {
			l.log.Warn("cells of processes that are gone were not folded", "account", of.String(), "error", err)
		}
		if err != nil || !more {
			return
		}
	}
}

// foldSome deletes what the fold that counts has taken the place of, and writes the next fold. It
// may be killed at any time, and several processes may do it at once: of those that write the
// same number only one succeeds.
func (l *Ledger) foldSome(ctx context.Context, prefix string) (more bool, err error) {
	c, err := l.list(ctx, prefix, true)
	if err != nil {
		return false, err
	}
	f, err := l.fold(ctx, c.top)
	if err != nil {
		return false, err
	}
	for _, key := range c.spent {
		if err := l.blobs.Delete(ctx, key); err != nil {
			return false, err
		}
	}
	here := map[string]bool{}
	for _, info := range c.all {
		name := strings.TrimPrefix(info.Key, prefix)
		had, ok := f.Folded[name]
		if !ok {
			continue
		}
		switch now, err := l.read(ctx, info.Key); {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return false, err
		case !now.within(had):
			here[name] = true // a late write
		default:
			if err := l.blobs.Delete(ctx, info.Key); err != nil {
				return false, err
			}
		}
	}
	old := slices.DeleteFunc(c.old(l.now()), func(info store.Info) bool {
		name := strings.TrimPrefix(info.Key, prefix)
		_, ok := f.Folded[name]
		return ok && !here[name]
	})
	if len(old) < foldFrom {
		return false, nil
	}
	next := fold{Amount: f.Amount, Folded: maps.Clone(f.Folded)}
	if next.Folded == nil {
		next.Folded = map[string]Amount{}
	}
	for _, info := range old[:min(len(old), foldMost)] {
		name := strings.TrimPrefix(info.Key, prefix)
		now, err := l.read(ctx, info.Key)
		if errors.Is(err, store.ErrNotFound) {
			return false, errMoved
		}
		if err != nil {
			return false, err
		}
		had := next.Folded[name]
		next.Amount = next.plus(now.beyond(had))
		next.Folded[name] = now.most(had)
		here[name] = true
	}
	next.forget(here)
	data, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	n, err := numberOf(c)
	if err != nil {
		return false, err
	}
	err = l.blobs.CreateOnce(ctx, fmt.Sprintf("%s%s%010d", prefix, foldPrefix, n+1), data)
	if errors.Is(err, store.ErrExists) {
		return false, errMoved
	}
	return err == nil, err // the next round deletes the cells
}

// numberOf returns the number of the fold that counts.
func numberOf(c cells) (n int64, err error) {
	if c.top == "" {
		return 0, nil
	}
	if _, err := fmt.Sscanf(strings.TrimPrefix(c.top, c.prefix+foldPrefix), "%d", &n); err != nil {
		return 0, fmt.Errorf("%s has no number: %w", c.top, err)
	}
	return n, nil
}

// forget drops the names of the oldest cells that were deleted.
func (f *fold) forget(here map[string]bool) {
	names := slices.SortedFunc(maps.Keys(f.Folded), func(a, b string) int {
		x, _ := weekOf(a)
		y, _ := weekOf(b)
		return x.Compare(y)
	})
	for _, name := range names {
		if len(f.Folded) <= mostFolded {
			return
		}
		if !here[name] {
			delete(f.Folded, name)
		}
	}
}

// move counts what a cell does not have that may not be written any more, in that of this week.
func (p *purse) move(ctx context.Context) error {
	more := p.used.plus(p.held).beyond(p.mine.Amount)
	if more == (Amount{}) {
		return nil
	}
	q, _, err := p.l.enter(ctx, p.of, Ever)
	if err != nil {
		return err
	}
	defer q.leave()
	defer q.later()
	p.used, q.used = p.used.less(more), q.used.plus(more)
	return q.settle(ctx, p.l.isClosed())
}
