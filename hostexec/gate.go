package hostexec

import "context"

// attachesAtOnce is how many attachments to one host are made at a time. Each
// starts half a dozen processes there: made all at once, hundreds take so long
// that none is done before its worker is taken for dead.
const attachesAtOnce = 8

// A gate lets so many through at a time, in any order.
type gate chan struct{}

// gated is a host with a gate for attachments.
type gated interface{ attaching() gate }

func newGate() gate { return make(gate, attachesAtOnce) }

func (g gate) attaching() gate { return g }

// enter waits for a place; its error means that nothing began.
func (g gate) enter(ctx context.Context) (leave func(), err error) {
	select {
	case g <- struct{}{}:
		return func() { <-g }, nil
	case <-ctx.Done():
		return nil, unreachable(context.Cause(ctx))
	}
}
