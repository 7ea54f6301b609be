package inquiry

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// AskAsks asks a session's workflow what the session asks for. In an activity, this is the
// run of the workflow that called it.
func AskAsks(ctx context.Context, c client.Client, session string) (asks protocol.SessionAsks, err error) {
	if c == nil {
		return asks, errors.New("this worker has no connection to Temporal")
	}
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	id, run := protocol.SessionID(session), ""
	if activity.IsActivity(ctx) {
		if at := activity.GetInfo(ctx).WorkflowExecution; at.ID == id {
			run = at.RunID
		}
	}
	v, err := c.QueryWorkflow(ctx, id, run, protocol.QueryAsks)
	if err == nil {
		err = v.Get(&asks)
	}
	return asks, err
}

// HostsOfZone is HostsOf for a zone, with a limit of time; c may be nil.
func HostsOfZone(ctx context.Context, c client.Client, zone string) ([]HostNow, error) {
	if c == nil {
		return nil, errors.New("this worker has no connection to Temporal")
	}
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	return HostsOf(ctx, c, protocol.PoolID(zone))
}
