package hostexec

import "context"

// attachesAtOnce bounds concurrent attachments to one host. Each starts half a dozen
// processes there. With hundreds at once, none would be ready before the heartbeat of its
// activity times out.
const attachesAtOnce = 8

// A gate limits the callers that are inside. Callers enter in any order.
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
