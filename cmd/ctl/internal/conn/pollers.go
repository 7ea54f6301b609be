package conn

import (
	"context"
	"time"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/api"
)

// WorkerWait bounds one request to a worker's API.
const WorkerWait = 3 * time.Second

func askWorker(ctx context.Context, c *api.Client) (api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, WorkerWait)
	defer cancel()
	return c.Status(ctx)
}

type poller = flows.Poller
