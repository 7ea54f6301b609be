package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"path/filepath"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/stack"
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
	if opts.ConnectionOptions.TLS, err = l.TLS(); err != nil {
		return nil, err
	}
	c.Use(&opts)
	return client.DialContext(ctx, opts)
}

// TLS returns the configuration of a client of the stack's server.
func (l *Lab) TLS() (*tls.Config, error) {
	info, err := stack.Read(l.State)
	if err != nil {
		return nil, err
	}
	files := info.TLS()
	if files == nil {
		return nil, errors.New("the stack has no certificates")
	}
	return certs.Client(files.CA, files.Cert, files.Key, "127.0.0.1"), nil
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
