package lab

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// Temporal connects to the stack's server as any other program would.
func (l *Lab) Temporal(ctx context.Context) (client.Client, error) {
	var st Status
	if err := l.JSON(ctx, &st, "status"); err != nil {
		return nil, err
	}
	return client.DialContext(ctx, client.Options{HostPort: st.Temporal.Address, Namespace: st.Temporal.Namespace,
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
}

// Status is what `ctl status` says.
type Status struct {
	Temporal struct {
		Address   string `json:"address"`
		Namespace string `json:"namespace"`
		UI        string `json:"ui"`
		PID       int    `json:"pid"`
	} `json:"temporal"`
	Workers []struct {
		Identity   string   `json:"identity"`
		PID        int      `json:"pid"`
		TaskQueues []string `json:"task_queues"`
		API        string   `json:"api"`
	} `json:"workers"`
}
