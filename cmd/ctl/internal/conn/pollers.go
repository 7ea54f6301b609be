package conn

import (
	"context"
	"time"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// WorkerWait bounds one request to a worker's API.
const WorkerWait = 3 * time.Second

// pollerFresh is the largest age of a present worker's last poll. A poll of an idle queue
// takes a minute.
const pollerFresh = 70 * time.Second

func askWorker(ctx context.Context, c *api.Client) (api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, WorkerWait)
	defer cancel()
	return c.Status(ctx)
}

type poller struct {
	api.Identity
	text string
	Seen time.Time
}

// Pollers returns the workers that polled the zone's queue recently, each once.
func (t *Conn) Pollers(ctx context.Context, zone string) ([]poller, error) {
	ctx, cancel := t.App.Bounded(ctx, AnswerWait)
	defer cancel()
	var list []poller
	known := map[string]int{}
	for _, kind := range []enums.TaskQueueType{enums.TASK_QUEUE_TYPE_WORKFLOW, enums.TASK_QUEUE_TYPE_ACTIVITY} {
		d, err := t.DescribeTaskQueue(ctx, protocol.TaskQueueOf(zone), kind)
		if err != nil {
			return nil, t.Explain(ctx, "list the workers", err)
		}
		for _, p := range d.GetPollers() {
			id, ok := api.ParseIdentity(p.GetIdentity())
			seen := p.GetLastAccessTime().AsTime()
			if !ok || time.Since(seen) > pollerFresh {
				continue
			}
			if i, ok := known[p.GetIdentity()]; ok {
				if seen.After(list[i].Seen) {
					list[i].Seen = seen
				}
				continue
			}
			known[p.GetIdentity()] = len(list)
			list = append(list, poller{id, p.GetIdentity(), seen})
		}
	}
	return list, nil
}
