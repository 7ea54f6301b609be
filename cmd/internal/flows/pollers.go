package flows

import (
	"context"
	"time"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// pollerFresh is the largest age of a present worker's last poll. A poll of an idle queue
// takes a minute.
const pollerFresh = 70 * time.Second

// A Poller is a worker that polled a queue recently.
type Poller struct {
	api.Identity
	Text string // the identity
	Seen time.Time
}

// Pollers returns the workers that polled the zone's queue recently, each once.
func (t *Conn) Pollers(ctx context.Context, zone string) ([]Poller, error) {
	ctx, cancel := t.Bounded(ctx, AnswerWait)
	defer cancel()
	var list []Poller
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
			list = append(list, Poller{id, p.GetIdentity(), seen})
		}
	}
	return list, nil
}
