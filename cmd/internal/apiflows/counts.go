package apiflows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
)

// Counts are numbers of the whole namespace, for metrics. A number that could not be read is missing.
type Counts struct {
	// Sessions that run, by state.
	Sessions map[string]int64
	// Approvals that are open, and when the oldest of them was asked for; nil if not known.
	Approvals *int
	Oldest    time.Time
	Zones     []ZoneCounts
	// Seeds by health. Unsaved counts those whose login codex rotated and no worker has saved yet,
	// and UnsavedSince says since when the first of them is.
	Seeds        map[string]int
	Unsaved      int
	UnsavedSince time.Time
}

// ZoneCounts are numbers of one zone.
type ZoneCounts struct {
	Zone        string
	Slots, Used int
	// Waiting sessions, and since when the one that waits longest does.
	Waiting      int
	WaitingSince time.Time
	// Hosts by state. Unclean counts sessions that may have left a credential on one.
	Hosts   map[string]int
	Unclean int
	// Notices by state; nil if the zone sends none.
	Notices map[string]int
}

// Counts asks Temporal for the numbers, in about 14 lists and counts and one query for each pool,
// outbox, seed and session with an open approval. It returns what it learned also with an error.
func (b *Backend) Counts(ctx context.Context) (c Counts, err error) {
	t, err := b.conn()
	if err != nil {
		return c, err
	}
	var errs []error
	fail := func(err error) { errs = append(errs, err) }
	c.Sessions = map[string]int64{}
	for _, state := range flows.StateWords() {
		if state == string(protocol.Closed) || state == string(protocol.Failed) {
			continue // these do not run
		}
		n, err := count(ctx, t, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND FairleadState = '%s'", protocol.TypeSession, state))
		if err != nil {
			fail(err)
			c.Sessions = nil // some of the states would look like all
			break
		}
		c.Sessions[state] = n
	}
	zones, err := t.Zones(ctx)
	if err != nil {
		fail(err)
	}
	for _, zone := range zones {
		z, err := zoneCounts(ctx, t, zone)
		if err != nil {
			fail(err)
			continue
		}
		c.Zones = append(c.Zones, z)
	}
	all, err := t.AllSeeds(ctx, "list seeds", func(protocol.SeedView) bool { return true })
	if err != nil {
		fail(err)
	} else {
		c.Seeds = map[string]int{}
	}
	for _, s := range all {
		c.Seeds[s.Health]++
		if s.Rotated != nil {
			c.Unsaved++
			c.UnsavedSince = earlier(c.UnsavedSince, s.Rotated.Since)
		}
	}
	// Each session with an approval is asked, so this comes last: it may take all the time.
	list, err := t.Approvals(ctx, "", false, nil)
	if err != nil {
		fail(err)
		return c, errors.Join(errs...)
	}
	n := len(list)
	c.Approvals = &n
	for _, ap := range list {
		c.Oldest = earlier(c.Oldest, ap.AskedAt)
	}
	return c, errors.Join(errs...)
}

func count(ctx context.Context, t *flows.Conn, query string) (int64, error) {
	res, err := t.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: t.Namespace, Query: query})
	return res.GetCount(), t.Explain(ctx, "count sessions", err)
}

func zoneCounts(ctx context.Context, t *flows.Conn, zone string) (ZoneCounts, error) {
	c := ZoneCounts{Zone: zone, Hosts: map[string]int{}}
	pool, err := t.Pool(ctx, zone)
	if err != nil {
		return c, err
	}
	c.Slots, c.Used, c.Waiting = pool.Slots, pool.Used, pool.Waiting
	for _, w := range pool.Queue {
		c.WaitingSince = earlier(c.WaitingSince, w.Since)
	}
	hosts, err := t.Hosts(ctx, zone)
	if err != nil {
		return c, err
	}
	for _, h := range hosts {
		c.Hosts[h.State]++
		c.Unclean += h.Unclean
	}
	var sent protocol.NoticesView
	switch err := t.Query(ctx, "count notices", protocol.OutboxID(zone), protocol.QueryNotices, &sent, protocol.NoticesQuery{State: protocol.NoticePending}); {
	case err == nil:
		c.Notices = map[string]int{string(protocol.NoticePending): len(sent.Notices)}
		for state, n := range sent.Totals {
			c.Notices[string(state)] = n
		}
	case !flows.NoInventory(err):
		return c, err
	}
	return c, nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
