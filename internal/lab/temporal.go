package lab

import (
	"context"
	"log/slog"
	"path/filepath"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/internal/payload"
)

// Temporal connects to the stack's server with the stack's payload keys.
func (l *Lab) Temporal(ctx context.Context) (client.Client, error) { return l.dial(ctx, l.Codec) }

// Outsider connects to the stack's server as other programs do, without a key.
func (l *Lab) Outsider(ctx context.Context) (client.Client, error) {
	return l.dial(ctx, func(namespace string) (*payload.Codec, error) { return payload.NewCodec(namespace), nil })
}

// Codec returns a codec with the stack's keys.
func (l *Lab) Codec(namespace string) (*payload.Codec, error) {
	keys, err := payload.LoadKeys(filepath.Join(l.State, "payload.key"))
	if err != nil {
		return nil, err
	}
	return payload.NewCodec(namespace, keys...), nil
}

func (l *Lab) dial(ctx context.Context, codec func(namespace string) (*payload.Codec, error)) (client.Client, error) {
	var st Status
	if err := l.JSON(ctx, &st, "status"); err != nil {
		return nil, err
	}
	c, err := codec(st.Temporal.Namespace)
	if err != nil {
		return nil, err
	}
	opts := client.Options{HostPort: st.Temporal.Address, Namespace: st.Temporal.Namespace,
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	c.Use(&opts)
	return client.DialContext(ctx, opts)
}

// Status is the output of `ctl status`.
type Status struct {
	Temporal struct {
		Address   string `json:"address"`
		Namespace string `json:"namespace"`
		UI        string `json:"ui"`
		PID       int    `json:"pid"`

		PayloadKey    string `json:"payload_key"`
		CodecEndpoint string `json:"codec_endpoint"`
	} `json:"temporal"`
	Workers []struct {
		Identity   string   `json:"identity"`
		PID        int      `json:"pid"`
		TaskQueues []string `json:"task_queues"`
		API        string   `json:"api"`
	} `json:"workers"`
}
