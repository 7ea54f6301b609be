package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/fairlead/cmd/internal/apiflows"
	"fairlead.dev/fairlead/internal/config"
)

const (
	// fleetEvery is how often the numbers are asked for, while somebody reads metrics.
	fleetEvery = time.Minute
	// fleetWait bounds asking for them.
	fleetWait = 45 * time.Second
	// fleetOld is the age at which numbers are no longer given.
	fleetOld = 5 * time.Minute
)

// fleetMetrics are the metrics of the whole namespace. A worker asks Temporal for the numbers only
// while somebody reads its metrics, once in fleetEvery. A reader gets the numbers of the last time
// at once, and none from a worker that has just started.
type fleetMetrics struct {
	ctx context.Context
	ask func(context.Context) (apiflows.Counts, error)
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	asked    time.Time
	asking   bool
	counts   apiflows.Counts
	at       time.Time // of counts; zero if there are none
	failures float64
	waits    sync.WaitGroup
}

func newFleetMetrics(ctx context.Context, ask func(context.Context) (apiflows.Counts, error), log *slog.Logger) *fleetMetrics {
	return &fleetMetrics{ctx: ctx, ask: ask, log: log, now: time.Now}
}

// Describe implements prometheus.Collector. Which series there are is not known beforehand.
func (f *fleetMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f *fleetMetrics) Collect(out chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if !f.asking && f.ctx.Err() == nil && now.Sub(f.asked) >= fleetEvery {
		f.asking, f.asked = true, now
		f.waits.Go(f.refresh)
	}
	send := func(name string, value float64, labels ...string) {
		d := defined(name)
		kind := prometheus.GaugeValue
		if d.kind == "counter" {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, d.help, d.labels, nil), kind, value, labels...)
	}
	send("fairlead_fleet_failures_total", f.failures)
	if f.at.IsZero() || now.Sub(f.at) > fleetOld {
		return
	}
	c := f.counts
	since := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return max(0, now.Sub(t).Seconds())
	}
	send("fairlead_fleet_age_seconds", since(f.at))
	for state, n := range c.Sessions {
		send("fairlead_sessions", float64(n), state)
	}
	if c.Approvals != nil {
		send("fairlead_approvals_open", float64(*c.Approvals))
		send("fairlead_approval_oldest_seconds", since(c.Oldest))
	}
	for _, z := range c.Zones {
		send("fairlead_pool_slots", float64(z.Slots), z.Zone)
		send("fairlead_pool_slots_used", float64(z.Used), z.Zone)
		send("fairlead_pool_waiting", float64(z.Waiting), z.Zone)
		send("fairlead_pool_waiting_oldest_seconds", since(z.WaitingSince), z.Zone)
		send("fairlead_hosts_unclean", float64(z.Unclean), z.Zone)
		for state, n := range z.Hosts {
			send("fairlead_hosts", float64(n), z.Zone, state)
		}
		for state, n := range z.Notices {
			send("fairlead_notices", float64(n), z.Zone, state)
		}
	}
	if c.Seeds != nil {
		for health, n := range c.Seeds {
			send("fairlead_seeds", float64(n), health)
		}
		send("fairlead_seeds_unsaved", float64(c.Unsaved))
		send("fairlead_seed_unsaved_oldest_seconds", since(c.UnsavedSince))
	}
}

func (f *fleetMetrics) refresh() {
	ctx, cancel := context.WithTimeout(f.ctx, fleetWait)
	defer cancel()
	at := f.now()
	counts, err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking = false
	if f.ctx.Err() != nil {
		return
	}
	f.counts, f.at = counts, at
	if err != nil {
		f.failures++
		f.log.Warn("metrics: not all numbers of the namespace are known", "err", err)
	}
}

// ofFleet serves the metrics of the namespace, unless conf says otherwise, until ctx ends. The
// function that it returns waits for the end.
func (m *metrics) ofFleet(ctx context.Context, conf config.Metrics, ask func(context.Context) (apiflows.Counts, error), log *slog.Logger) (wait func()) {
	if conf.Listen == "" || !conf.Fleet {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	f := newFleetMetrics(ctx, ask, log)
	m.shared.registry.MustRegister(f)
	return func() { cancel(); f.Wait() }
}

// Wait returns when nothing is asked any more. The context of newFleetMetrics must have ended.
func (f *fleetMetrics) Wait() { f.waits.Wait() }
