package inquiry

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// HostsOf returns a pool's hosts; none without a pool.
func HostsOf(ctx context.Context, c client.Client, pool string) (hosts []HostNow, err error) {
	v, err := c.QueryWorkflow(ctx, pool, "", "hosts")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return hosts, v.Get(&hosts)
}

// A HostNow is maintenance's view of a host.
type HostNow struct {
	Name      string             `json:"name"`
	CheckedAt time.Time          `json:"checked_at"`
	Labels    map[string]string  `json:"labels"` // that people set
	Spec      *protocol.HostSpec `json:"spec"`
	Health    *struct {
		State string `json:"state"`
	} `json:"health"`
	// Folders is the newest look at the sessions' folders.
	Folders *struct {
		At time.Time `json:"at"`
	} `json:"folders"`
}

// LookedAt returns when Folders were looked at, or zero.
func (h HostNow) LookedAt() time.Time {
	if h.Folders == nil {
		return time.Time{}
	}
	return h.Folders.At
}

func (h HostNow) Quarantined() bool { return h.Health != nil && h.Health.State == "quarantined" }
