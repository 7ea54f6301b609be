package inquiry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// LeftThere is a session that may leave something on a host: it holds a slot, or has a
// folder for its return.
type LeftThere struct {
	Session string `json:"session"`
	Host    string `json:"host"`
	Held    bool   `json:"held,omitempty"`
}

// AskPools asks the pools of all zones.
func AskPools(ctx context.Context, c client.Client) (all []LeftThere, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask the pools what is left on hosts: %w", err)
		}
	}()
	if c == nil {
		return nil, errors.New("this worker has no connection to Temporal")
	}
	var page []byte
	for {
		r, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: "WorkflowType = 'HostPool' AND ExecutionStatus = 'Running'", PageSize: 200, NextPageToken: page})
		if err != nil {
			return nil, err
		}
		for _, x := range r.GetExecutions() {
			left, err := askPool(ctx, c, x.GetExecution().GetWorkflowId(), protocol.QueryLeft)
			if err != nil {
				return nil, err
			}
			all = append(all, left...)
		}
		if page = r.GetNextPageToken(); len(page) == 0 {
			return all, nil
		}
	}
}

func askPool(ctx context.Context, c client.Client, id, query string) (left []LeftThere, err error) {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	v, err := c.QueryWorkflow(ctx, id, "", query)
	if err == nil {
		err = v.Get(&left)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	return left, nil
}

// LeftElsewhere reports whether a session that is cleaned up on a host may have left
// something on another host, or there at another time.
func LeftElsewhere(all []LeftThere, session, host string) bool {
	return slices.ContainsFunc(all, func(l LeftThere) bool { return l.Session == session && !(l.Held && l.Host == host) })
}
