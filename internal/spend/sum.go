package spend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

const (
	// readers are how many cells are read at a time.
	readers = 16
	// oldAfter is after how long without a write a cell is not read again until it is written. It is
	// far more than clocks differ, and than the times of a store are coarse.
	oldAfter = 24 * time.Hour
)

// An oldCell was not written for long when it was read. Most processes that ever used an account
// are gone.
type oldCell struct {
	written time.Time
	cell
}

// sum adds the cells of the other processes. Of requests, those of the minute count.
func (p *purse) sum(ctx context.Context, minute int64) (all cell, err error) {
	for range 8 {
		if all, err = p.sumOnce(ctx, minute); !errors.Is(err, errMoved) {
			break
		}
	}
	return all, err
}

func (p *purse) sumOnce(ctx context.Context, minute int64) (all cell, err error) {
	folds := !p.until.IsZero()
	listed, err := p.l.list(ctx, p.prefix, folds)
	if err != nil {
		return cell{}, err
	}
	if listed.top != p.foldedAt {
		f, err := p.l.fold(ctx, listed.top)
		if err != nil {
			return cell{}, err
		}
		p.folded, p.foldedAt = f, listed.top
	}
	p.due = folds && listed.due(p.folded, p.l.now())
	all.Amount = p.folded.Amount
	cells := listed.all
	if len(cells) > maxCells {
		return cell{}, fmt.Errorf("%d processes have cells below %s, at most %d are read", len(cells), p.prefix, maxCells)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu   sync.Mutex // of all, bad and old
		bad  error
		wait sync.WaitGroup
		old  = map[string]oldCell{}
		free = make(chan struct{}, readers)
	)
	add := func(key string, c cell) {
		all.Amount = all.plus(c.beyond(p.folded.Folded[strings.TrimPrefix(key, p.prefix)]))
		if c.Minute == minute {
			all.Requests += c.Requests
		}
	}
	for _, info := range cells {
		if info.Key == p.key {
			continue
		}
		if o, ok := p.old[info.Key]; ok && o.written.Equal(info.ModTime) {
			mu.Lock()
			old[info.Key] = o
			add(info.Key, o.cell)
			mu.Unlock()
			continue
		}
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			before := time.Now()
			c, err := p.l.read(ctx, info.Key)
			mu.Lock()
			defer mu.Unlock()
			if folds && errors.Is(err, store.ErrNotFound) {
				err = errMoved
			}
			if err != nil {
				if bad == nil {
					bad = err
				}
				cancel()
				return
			}
			add(info.Key, c)
			if !info.ModTime.IsZero() && before.Sub(info.ModTime) > oldAfter {
				old[info.Key] = oldCell{info.ModTime, c}
			}
		})
	}
	wait.Wait()
	if bad != nil {
		return cell{}, bad
	}
	p.old = old
	return all, nil
}

func (l *Ledger) read(ctx context.Context, key string) (c cell, err error) {
	if err := ctx.Err(); err != nil {
		return cell{}, err
	}
	data, err := l.blobs.Get(ctx, key)
	if err != nil {
		return cell{}, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return cell{}, fmt.Errorf("%s is no cell of a budget: %w", key, err)
	}
	return c, nil
}
