package batches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/spend"
	"fairlead.dev/fairlead/internal/store"
)

// A recordSweep deletes records that only their session reads: outcomes of calls of teams'
// tools, instructions, and what workers count as the session's use of models. It deletes the records of a session when Temporal did not know the
// session at two times, a day apart, and nothing was written for the session for a week. A
// sweep of owned blobs has the same rule. Only blobs that were listed before Temporal was asked
// are deleted. So a new session with the same id keeps its own: calls have other ids, and new
// instructions are looked for.
type recordSweep struct {
	store *store.Store
	ask   func(context.Context, owned.Owner) (there bool, err error)
	alone func(context.Context) error
	now   time.Time
	most  int
}

// missedRecords is the family of the marks of sessions that were not known.
const missedRecords = "records-missed/"

type sessionRecords struct {
	blobs  []store.Info
	newest time.Time
	missed *store.Info
}

func (s recordSweep) run(ctx context.Context, out *TidyStoreResult) error {
	of, err := s.look(ctx)
	if err != nil || len(of) == 0 {
		return err
	}
	if err := s.alone(ctx); err != nil {
		return ctx.Err() // the sweep of what is owned has reported it
	}
	var ids []string
	for id := range of {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := s.sweep(ctx, id, of[id], out); err != nil {
			return fmt.Errorf("tidy the records of session %s: %w", id, err)
		}
	}
	return nil
}

func (s recordSweep) look(ctx context.Context) (map[string]*sessionRecords, error) {
	of := map[string]*sessionRecords{}
	for _, family := range slices.Concat(records.OwnFamilies, []string{spend.SessionCells, missedRecords}) {
		all, err := s.store.List(ctx, family)
		if err != nil {
			return nil, err
		}
		for _, info := range all {
			id, _, _ := strings.Cut(strings.TrimPrefix(info.Key, family), "/")
			if family == spend.SessionCells {
				// The name of the account is the session's id and the time of its start.
				if id = id[:max(0, strings.LastIndexByte(id, '.'))]; id == "" {
					continue
				}
			}
			r := of[id]
			if r == nil {
				r = &sessionRecords{}
				of[id] = r
			}
			if family == missedRecords {
				r.missed = &info
				continue
			}
			r.blobs = append(r.blobs, info)
			if info.ModTime.After(r.newest) {
				r.newest = info.ModTime
			}
		}
	}
	return of, nil
}

// sweep takes the next step for a session.
func (s recordSweep) sweep(ctx context.Context, id string, r *sessionRecords, out *TidyStoreResult) error {
	if len(r.blobs) > 0 && s.now.Sub(r.newest) < owned.Unbegun {
		return nil
	}
	there, err := s.ask(ctx, owned.Owner{Kind: owned.Session, ID: id})
	mark := missedRecords + id
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		out.Problems = append(out.Problems, fmt.Sprintf("the records of session %.100s stay: %v", id, err))
		return nil
	case there && r.missed == nil:
		return nil
	case there, len(r.blobs) == 0:
		return s.gone(ctx, mark)
	case r.missed == nil:
		return s.store.Put(ctx, mark, nil)
	case s.now.Sub(r.missed.ModTime) < owned.Apart:
		return nil
	case out.Records >= s.most:
		out.Left++
		return nil
	}
	for _, b := range r.blobs {
		now, err := s.store.Stat(ctx, b.Key)
		if errors.Is(err, store.ErrNotFound) || err == nil && !now.ModTime.Equal(b.ModTime) {
			continue // of a new session with the same id
		}
		if err == nil {
			err = s.gone(ctx, b.Key)
		}
		if err != nil {
			return err
		}
		out.Records++
	}
	return s.gone(ctx, mark)
}

func (s recordSweep) gone(ctx context.Context, key string) error {
	if err := s.store.Delete(ctx, key); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}
