package conn

import (
	"context"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

// TellProgress prints what say makes of the newest heartbeats of a workflow's activities,
// and the reasons for retries.
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
			continue // the workflow's result will show why
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
