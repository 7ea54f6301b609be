package live

import (
	"context"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
)

// A Feed receives a session's events in the background.
type Feed struct {
	Events chan api.Event
	Done   chan struct{}
	Seq    int64 // the newest entry received; only the receiver uses it
}

// Had records an event; the receiver calls it for each.
func (f *Feed) Had(ev api.Event) {
	switch ev.Kind {
	case api.KindEntry:
		f.Seq = ev.Entry.Seq
	case api.KindVoid:
		f.Seq = ev.Void - 1
	}
}

// StartFeed follows a session, on any worker, until ctx ends.
func StartFeed(ctx context.Context, a *core.App, t *conn.Conn, session string, from int64) *Feed {
	f := &Feed{Events: make(chan api.Event), Done: make(chan struct{})}
	go func() {
		defer close(f.Done)
		for ctx.Err() == nil {
			c, err := conn.WorkerFor(ctx, a, t, session)
			if err == nil {
				for ev, ferr := range c.Feed(ctx, session, from) {
					if ferr != nil {
						err = ferr
						break
					}
					switch ev.Kind {
					case api.KindEntry:
						from = ev.Entry.Seq + 1
					case api.KindVoid:
						from = ev.Void
					}
					select {
					case f.Events <- ev:
					case <-ctx.Done():
						return
					}
				}
				if err == nil {
					return // the feed has ended
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return f
}
