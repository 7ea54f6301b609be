package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// hostsOf returns a pool's hosts; none if there is no pool.
func hostsOf(ctx context.Context, c client.Client, pool string) (hosts []hostNow, err error) {
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

// A hostNow is the part of a pool's view of a host that maintenance reads.
type hostNow struct {
	Name      string             `json:"name"`
	CheckedAt time.Time          `json:"checked_at"`
	Spec      *protocol.HostSpec `json:"spec"`
	Health    *struct {
		State string `json:"state"`
	} `json:"health"`
	// Folders tells of the newest look at the sessions' folders there.
	Folders *struct {
		At time.Time `json:"at"`
	} `json:"folders"`
}

func (h hostNow) lookedAt() time.Time {
	if h.Folders == nil {
		return time.Time{}
	}
	return h.Folders.At
}

func (h hostNow) quarantined() bool { return h.Health != nil && h.Health.State == "quarantined" }
