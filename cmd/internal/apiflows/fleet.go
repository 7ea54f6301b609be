package apiflows

import (
	"context"
	"slices"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Hosts implements httpapi.Fleet.
func (b *Backend) Hosts(ctx context.Context, zone string) ([]protocol.HostView, error) {
	t, err := b.in(zone)
	if err != nil {
		return nil, err
	}
	return t.Hosts(ctx, zone)
}

// Host implements httpapi.Fleet.
func (b *Backend) Host(ctx context.Context, zone, name string) (h protocol.HostView, err error) {
	t, err := b.in(zone)
	if err != nil {
		return h, err
	}
	return t.Host(ctx, "show host "+name, zone, name)
}

// CheckHost implements httpapi.Fleet. The check goes on if it takes longer than a request may.
func (b *Backend) CheckHost(ctx context.Context, zone, name string) (out protocol.CheckHostResult, err error) {
	t, err := b.in(zone)
	if err != nil {
		return out, err
	}
	t.Side.Begin()
	out, err = t.CheckHost(ctx, zone, name)
	if errkind.ExitCode(err) == errkind.ExitTimeout {
		err = errkind.TimedOut("%v", err).Hinted("the check goes on: ask again, and the same one is waited for").Because(err)
	}
	return out, err
}

// SetHost implements httpapi.Fleet.
func (b *Backend) SetHost(ctx context.Context, key, zone string, in protocol.SetHost) (v protocol.DrainView, err error) {
	t, err := b.in(zone)
	if err != nil {
		return v, err
	}
	doing := "let new sessions onto host " + in.Name
	asked := in // who asks is no part of the request
	if in.Drain != nil {
		doing = "drain host " + in.Name
		drain := *in.Drain
		drain.By = b.by(ctx)
		in.Drain = &drain
	}
	id, err := b.again(ctx, t, key, protocol.UpdateSetHost, in.Name, doing, []any{zone, asked})
	if err != nil {
		return v, err
	}
	v.Left = []protocol.Stayer{}
	if v.HostView, err = t.SetHost(ctx, doing, zone, id, in); err == nil && in.Drain != nil {
		v.Left = t.Stayers(ctx, v.HostView)
	}
	return v, err
}

// Pools implements httpapi.Fleet.
func (b *Backend) Pools(ctx context.Context) ([]protocol.PoolView, error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	return t.Pools(ctx)
}

// Pool implements httpapi.Fleet.
func (b *Backend) Pool(ctx context.Context, zone string) (v protocol.PoolView, err error) {
	t, err := b.in(zone)
	if err != nil {
		return v, err
	}
	return t.Pool(ctx, zone)
}

// Seeds implements httpapi.Fleet.
func (b *Backend) Seeds(ctx context.Context, pool string, may func(string) bool) ([]protocol.SeedView, error) {
	t, err := b.conn()
	if err != nil {
		return nil, err
	}
	list, err := t.AllSeeds(ctx, "list seeds", func(v protocol.SeedView) bool {
		return may(v.Name) && (pool == "" || slices.Contains(v.Pools, pool))
	})
	for i := range list {
		t.FreshenAccount(ctx, &list[i])
	}
	return list, err
}

// Seed implements httpapi.Fleet.
func (b *Backend) Seed(ctx context.Context, name string) (v protocol.SeedView, err error) {
	t, err := b.conn()
	if err != nil {
		return v, err
	}
	if v, err = t.Seed(ctx, name); err == nil {
		t.FreshenAccount(ctx, &v)
		t.FreshenGateway(ctx, &v)
	}
	return v, err
}
