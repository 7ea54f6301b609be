package hostexec

import "context"

// attachesAtOnce bounds the attachments to one host that are made at a time. Each starts
// half a dozen processes on the host. If hundreds were made at once, none would be ready
// before the heartbeat of its activity times out.
const attachesAtOnce = 8

// A gate limits the number of callers that are inside at a time. Callers enter in any
// order.
type gate chan struct{}

func newGate() gate { return make(gate, attachesAtOnce) }

// EnterAttach waits for a place. If it fails, nothing began.
func (g gate) EnterAttach(ctx context.Context) (leave func(), err error) {
	select {
	case g <- struct{}{}:
		return func() { <-g }, nil
	case <-ctx.Done():
		return nil, unreachable(context.Cause(ctx))
	}
}
