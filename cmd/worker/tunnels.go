package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// lateHosts gives the API the hosts of this worker's zone once there is a pool of connections.
type lateHosts struct {
	zone     string
	temporal *lateClient
	pool     atomic.Pointer[hostexec.Pool]
}

var _ api.Hosts = (*lateHosts)(nil)

// Zone implements api.Hosts.
func (l *lateHosts) Zone() string { return l.zone }

// Open implements api.Hosts.
func (l *lateHosts) Open(ctx context.Context, name string) (hostexec.Host, error) {
	pool := l.pool.Load()
	if pool == nil {
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Kind: api.ErrStore, Message: errNotReady.Error(), Hint: "try again in a few seconds"}
	}
	v, known, err := l.temporal.host(ctx, name)
	switch {
	case err != nil:
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Kind: api.ErrStore, Message: "ask the inventory for host " + name + ": " + err.Error(), Hint: "try again when a worker of its zone answers"}
	case !known || v.Spec == nil:
		return nil, &api.Error{Status: http.StatusNotFound, Kind: api.ErrNotFound, Message: "there is no host " + name + " in this zone", Hint: "`ctl host list` shows the hosts of a zone"}
	}
	return pool.Host(*v.Spec)
}

// host asks this zone's inventory. known is false if it has no such host.
func (l *lateClient) host(ctx context.Context, name string) (v protocol.HostView, known bool, err error) {
	c := l.c.Load()
	if c == nil {
		return v, false, errNotConnected
	}
	answer, err := (*c).QueryWorkflow(ctx, protocol.PoolID(l.zone), "", protocol.QueryHost, name)
	if err == nil {
		err = answer.Get(&v)
	}
	var none *serviceerror.NotFound
	var refused *serviceerror.QueryFailed // the inventory answers so if it has no such host
	switch {
	case errors.As(err, &none), errors.As(err, &refused):
		return v, false, nil
	case err != nil:
		return v, false, err
	}
	return v, v.Name == name, nil
}

// Host implements api.Objects.
func (l *lateClient) Host(ctx context.Context, name string) (access.Object, bool, error) {
	v, known, err := l.host(ctx, name)
	if known && v.Labels == nil {
		v.Labels = map[string]string{}
	}
	return access.Object{Host: name, HostLabels: v.Labels}, known, err
}
