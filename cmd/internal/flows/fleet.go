package flows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/batchfile"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Hosts lists a zone's hosts. A zone that never had a worker has no inventory and no hosts,
// which is no error.
func (t *Conn) Hosts(ctx context.Context, zone string) ([]protocol.HostView, error) {
	var hosts []protocol.HostView
	err := t.Ask(ctx, "list hosts", protocol.PoolID(zone), protocol.QueryHosts, &hosts)
	if NoInventory(err) {
		t.Side.Note("no worker has served zone %s yet: it has no hosts", cmp.Or(zone, "default"))
		return nil, nil
	}
	return hosts, err
}

// NoInventory reports whether err means that the zone has no host pool.
func NoInventory(err error) bool {
	var none *serviceerror.NotFound
	return errors.As(err, &none)
}

// Host returns a host as the host pool knows it.
func (t *Conn) Host(ctx context.Context, doing, zone, name string) (protocol.HostView, error) {
	var h protocol.HostView
	if err := errkind.CheckName("host name", name); err != nil {
		return h, err
	}
	err := t.Ask(ctx, doing, protocol.PoolID(zone), protocol.QueryHost, &h, name)
	if NoInventory(err) {
		err = errkind.NotFound("%s: zone %s has no hosts: no worker has served it yet", doing, cmp.Or(zone, "default")).
			Hinted("`ctl status` shows the workers and their zones").Because(err)
	}
	return h, addressed(doing, h, err)
}

// addressed refuses an answer about a host that does not say where the host is: Temporal gives
// what a worker answered, and anybody may run one.
func addressed(doing string, h protocol.HostView, err error) error {
	if err == nil && h.Spec == nil {
		return errkind.Failed("%s: the worker that answered does not say where the host is", doing).
			Hinted("bring the workers of its zone up to date; `ctl status` shows them")
	}
	return err
}

// HostTask runs a short workflow on a host, or joins the running one with this id, and
// waits for its end.
func (t *Conn) HostTask(ctx context.Context, doing, zone, id, kind string, in, out any) error {
	run, err := t.Start(ctx, doing, client.StartWorkflowOptions{
		ID: id, TaskQueue: protocol.TaskQueueOf(zone),
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            doing,
	}, kind, in)
	if err != nil {
		return err
	}
	err = t.Result(ctx, doing, run, 30*time.Minute, out)
	return t.TaskFailure(doing, err)
}

// Pool queries a zone's host pool.
func (t *Conn) Pool(ctx context.Context, zone string) (v protocol.PoolView, err error) {
	err = t.Ask(ctx, "show zone "+cmp.Or(zone, "default"), protocol.PoolID(zone), protocol.QueryPool, &v)
	return v, NoZone(zone, err)
}

// NoZone explains the error for a zone without a host pool.
func NoZone(zone string, err error) error {
	if NoInventory(err) {
		return errkind.NotFound("no worker has ever served zone %s", cmp.Or(zone, "default")).Hinted("`ctl pool list` shows the zones there are; the first worker of a zone makes it").Because(err)
	}
	return err
}

// Zones lists the zones that ever had a worker.
func (t *Conn) Zones(ctx context.Context) ([]string, error) {
	infos, err := t.List(ctx, "list zones", fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", protocol.TypeHostPool), 1000)
	var zones []string
	for _, info := range infos {
		zones = append(zones, strings.TrimPrefix(info.GetExecution().GetWorkflowId(), "pool/"))
	}
	slices.Sort(zones)
	return zones, err
}

// SeedPool checks that the pool exists and has a seed.
func (t *Conn) SeedPool(ctx context.Context, name string) error {
	var v protocol.SeedPoolView
	err := t.Ask(ctx, "find seed pool "+name, protocol.SeedPoolID(name), protocol.QuerySeedPool, &v)
	if errkind.ExitCode(err) == errkind.ExitNotFound || err == nil && len(v.Seeds) == 0 {
		err = errkind.NotFound("find seed pool %s: no seed is in it", name).Hinted("`ctl seed set NAME --pool %s` puts one in", name)
	}
	return err
}

// Seed queries a seed.
func (t *Conn) Seed(ctx context.Context, name string) (protocol.SeedView, error) {
	var v protocol.SeedView
	if err := errkind.CheckName("seed name", name); err != nil {
		return v, err
	}
	err := t.Ask(ctx, "show seed "+name, protocol.SeedID(name), protocol.QuerySeed, &v)
	if err == nil && v.Deleted {
		err = errkind.NotFound("show seed %s: it does not exist", name).Hinted("`ctl seed list` shows those there are")
	}
	return v, err
}

// KnownZone refuses a zone that never had a worker, where a session would wait for ever. It
// allows the default zone, whose first worker may be starting.
func (t *Conn) KnownZone(ctx context.Context, doing, zone string) error {
	name := protocol.ZoneOf(protocol.TaskQueueOf(zone))
	if name == protocol.ZoneOf(protocol.TaskQueueOf("")) {
		return nil
	}
	bctx, cancel := t.Bounded(ctx, AnswerWait)
	defer cancel()
	_, err := t.DescribeWorkflowExecution(bctx, protocol.PoolID(zone), "")
	var gone *serviceerror.NotFound
	if !errors.As(err, &gone) {
		return t.Explain(bctx, doing, err)
	}
	zones, lerr := t.Zones(bctx)
	if lerr != nil {
		return lerr
	}
	hint := "check the zone; a worker's config names its own"
	if near := batchfile.Meant(name, zones); len(near) > 0 {
		hint = "is " + strings.Join(near, " or ") + " meant?"
	} else if n := len(zones); n > 0 {
		const most = 12
		hint = "there are " + strings.Join(zones[:min(n, most)], ", ")
		if n > most {
			hint += ", …: `ctl pool list` shows them all"
		}
	}
	return errkind.NotFound("%s: no worker has ever served zone %q", doing, name).Hinted("%s", hint).Because(err)
}
