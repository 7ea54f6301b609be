package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// dropped is how long the network is silent: longer than the detection takes.
const dropped = 60 * time.Second

// measureDrop drops every packet of the host's port in both directions, as a
// firewall does that has lost a connection's state.
func measureDrop(ctx context.Context, o *options) (err error) {
	r, err := startRecovering(ctx, o, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close(context.WithoutCancel(ctx))) }()
	var noticed, again series
	for range o.drops {
		n, a, err := r.drop(ctx)
		if err != nil {
			return err
		}
		noticed, again = append(noticed, n...), append(again, a...)
	}
	noticed.against("silent drop, until it is noticed", 45*time.Second)
	again.against("its end, until text flows again", 15*time.Second)
	return nil
}

func (r *recovering) drop(ctx context.Context) (noticed, again series, err error) {
	mend, err := r.lab.Host("web-1").Drop(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, mend()) }()
	t := time.Now()
	for _, id := range r.ids {
		at, err := r.noticed(ctx, id, t.Add(dropped))
		if err != nil {
			return nil, nil, err
		}
		noticed = append(noticed, at.Sub(t))
	}
	select {
	case <-time.After(time.Until(t.Add(dropped))):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if err := mend(); err != nil {
		return nil, nil, err
	}
	t = time.Now()
	if err := r.flowing(ctx, t); err != nil {
		return nil, nil, err
	}
	for _, v := range r.viewers {
		v.mu.Lock()
		again = append(again, v.after(t).Sub(t))
		v.at = nil
		v.mu.Unlock()
	}
	return noticed, again, nil
}

// noticed returns when the pump's attempt failed, according to the server.
func (r *recovering) noticed(ctx context.Context, id string, late time.Time) (time.Time, error) {
	for time.Now().Before(late) {
		d, err := r.c.DescribeWorkflowExecution(ctx, protocol.SessionID(id), "")
		if err != nil {
			return time.Time{}, err
		}
		for _, a := range d.GetPendingActivities() {
			if a.GetLastFailure() != nil && a.GetAttempt() > 1 && time.Since(a.GetLastAttemptCompleteTime().AsTime()) < time.Until(late)+dropped {
				if at := a.GetLastAttemptCompleteTime().AsTime(); at.After(late.Add(-dropped)) {
					return at, nil
				}
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
	return time.Time{}, fmt.Errorf("session %s noticed nothing within %v", id, dropped)
}
