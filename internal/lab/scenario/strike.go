package scenario

import (
	"context"
	"sync"
)

// A Strike is one blow of a plan.
type Strike struct {
	// Target is what it strikes. A target is struck by one strike at a time.
	Target string
	// Due returns when the strike is due, or when ctx is done.
	Due func(context.Context)
	// Do strikes, and returns when the blow is over.
	Do func(context.Context)
}

// CarryOut carries out all strikes, each when it is due, and returns when they
// are over. A strike that is slow delays only others of the same target. Each
// is called even if ctx is done.
func CarryOut(ctx context.Context, strikes []Strike) {
	locks := map[string]*sync.Mutex{}
	for _, s := range strikes {
		if locks[s.Target] == nil {
			locks[s.Target] = &sync.Mutex{}
		}
	}
	var wg sync.WaitGroup
	for _, s := range strikes {
		wg.Go(func() {
			s.Due(ctx)
			locks[s.Target].Lock()
			defer locks[s.Target].Unlock()
			s.Do(ctx)
		})
	}
	wg.Wait()
}
