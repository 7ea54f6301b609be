package logins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

const (
	rotateAtOnce = 4  // blobs, each streamed with bounded memory
	RotateNames  = 50 // most keys that a result names
)

// RotateKeys encrypts every blob for the recipients of the worker's config, seeds first,
// the store's own key last. Sessions go on meanwhile. It can be killed and run again. It
// changes nothing if a seed's old identity is missing.
func (s *Activities) RotateKeys(ctx context.Context, in protocol.RotateKeysInput) (protocol.RotateKeysResult, error) {
	r := &rotation{store: s.Site.Store, out: protocol.RotateKeysResult{
		Check: in.Check, Recipients: s.Site.Store.Recipients(), Former: s.Site.Store.Former(), LeftKeys: []string{}, Failures: []protocol.KeyFailure{},
	}}
	if r.out.Former == nil {
		r.out.Former = []string{}
	}
	stop := r.beat(ctx)
	err := r.run(ctx)
	stop()
	if err == nil {
		s.Site.Logger.Info("store's recipients", "check", in.Check, "renewed", r.out.Renewed, "kept", r.out.Kept, "left", r.out.Left, "failed", r.out.Failed)
	}
	return r.out, kit.Failing{}.Failure(ctx, "encrypt the store for its recipients", err)
}

type rotation struct {
	store *store.Store

	mu       sync.Mutex // guards the fields below
	out      protocol.RotateKeysResult
	progress protocol.RotateKeysProgress
}

func (r *rotation) run(ctx context.Context) error {
	seeds, others, err := r.list(ctx)
	if err != nil {
		return err
	}
	if !r.out.Check {
		// Refuse before the first change.
		for _, key := range append([]string{store.OwnKey}, seeds...) {
			if _, err := r.store.Current(ctx, key); errors.Is(err, store.ErrWrongKey) {
				return &kit.TypedError{Kind: protocol.ErrTypeOldIdentity, Err: fmt.Errorf("nothing was changed: %w", err),
					Hint: "bring the identity that it is encrypted for back into the file store.identity of the worker; it can be taken out when the rotation is done"}
			} else if errors.Is(err, store.ErrUnreachable) {
				return err
			}
		}
		for _, keys := range [][]string{seeds, others, {store.OwnKey}} {
			if err := r.each(ctx, "encrypting", len(seeds)+len(others)+1, keys, r.renew); err != nil {
				return err
			}
		}
		// Blobs may have come meanwhile, perhaps from a worker with the old config.
		if seeds, others, err = r.list(ctx); err != nil {
			return err
		}
		r.start()
	}
	r.out.Seeds, r.out.Blobs = len(seeds), len(seeds)+len(others)+1
	all := append(append(seeds, others...), store.OwnKey)
	if err := r.each(ctx, "checking", len(all), all, r.look); err != nil {
		return err
	}
	slices.Sort(r.out.LeftKeys)
	slices.SortFunc(r.out.Failures, func(a, b protocol.KeyFailure) int { return strings.Compare(a.Key, b.Key) })
	r.out.Unneeded = r.out.Left == 0 && r.out.Failed == 0
	return nil
}

func (r *rotation) list(ctx context.Context) (seeds, others []string, err error) {
	found, err := r.store.List(ctx, "")
	for _, info := range found {
		if strings.HasPrefix(info.Key, "seeds/") {
			seeds = append(seeds, info.Key)
		} else {
			others = append(others, info.Key)
		}
	}
	return seeds, others, err
}

func (r *rotation) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.Done = 0
}

// each goes on after a blob that fails, but not if the store cannot be reached.
func (r *rotation) each(ctx context.Context, step string, total int, keys []string, do func(context.Context, string) error) error {
	r.mu.Lock()
	r.progress.Step, r.progress.Total = step, total
	r.mu.Unlock()
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(rotateAtOnce)
	for _, key := range keys {
		if each.Err() != nil {
			break
		}
		g.Go(func() error {
			err := do(each, key)
			if err != nil && (errors.Is(err, store.ErrUnreachable) || each.Err() != nil) {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.progress.Done++
			if err != nil {
				r.fail(key, err)
			}
			return nil
		})
	}
	return errors.Join(g.Wait(), ctx.Err())
}

// fail records a blob's first failure. The caller holds mu.
func (r *rotation) fail(key string, err error) {
	for _, f := range r.out.Failures {
		if f.Key == key {
			return
		}
	}
	r.out.Failed++
	r.progress.Failed = r.out.Failed
	if len(r.out.Failures) < RotateNames {
		r.out.Failures = append(r.out.Failures, protocol.KeyFailure{Key: key, Error: err.Error()})
	}
}

func (r *rotation) renew(ctx context.Context, key string) error {
	did, err := r.store.Rekey(ctx, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch did {
	case store.Renewed:
		r.out.Renewed++
		r.progress.Renewed++
	case store.Kept:
		r.out.Kept++
	case store.Gone:
		r.out.Gone++
	}
	return err
}

func (r *rotation) look(ctx context.Context, key string) error {
	current, err := r.store.Current(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil // deleted meanwhile
	}
	if !current && !errors.Is(err, store.ErrUnreachable) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.out.Left++
		if len(r.out.LeftKeys) < RotateNames {
			r.out.LeftKeys = append(r.out.LeftKeys, key)
		}
	}
	return err
}

func (r *rotation) beat(ctx context.Context) (stop func()) {
	if !activity.IsActivity(ctx) {
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				r.mu.Lock()
				p := r.progress
				r.mu.Unlock()
				activity.RecordHeartbeat(ctx, p)
			}
		}
	}()
	return func() { close(end); <-done }
}
