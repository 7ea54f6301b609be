package conn

import (
	"context"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// TellProgress prints the progress of a workflow's activities. It prints the text that say
// makes from the newest heartbeat, if there is one, and the reason for a retry.
func TellProgress[P comparable](ctx context.Context, t *Conn, id string, say func(P) string) {
	var last P
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		d, err := t.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			continue // the workflow's result will show what is wrong
		}
		for _, p := range d.GetPendingActivities() {
			var now P
			if err := t.Codec.DataConverter().FromPayloads(p.GetHeartbeatDetails(), &now); err == nil && now != last {
				if text := say(now); text != "" {
					last = now
					t.App.Note("%s", text)
				}
			}
			if why := t.Codec.Message(p.GetLastFailure()); why != "" && p.GetAttempt() > 1 {
				t.App.Note("try %d, since the last one failed: %s", p.GetAttempt(), core.OneLine(core.Clean(why), 200))
			}
		}
	}
}
