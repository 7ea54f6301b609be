package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/cmd/internal/apiflows"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/workflows/newer"
)

// seriesOf returns name{label="value",…} → value for what a registry has.
func seriesOf(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// Whoever reads the metrics never waits for Temporal, gets no number that is old, and has it asked
// once a minute.
func TestNumbersOfTheNamespaceAreAskedForOnlyWhileSomebodyReadsThem(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	two, asked, failing := 2, 0, false
	f := newFleetMetrics(ctx, func(context.Context) (apiflows.Counts, error) {
		asked++
		if failing {
			return apiflows.Counts{}, errors.New("Temporal is away")
		}
		return apiflows.Counts{
			Sessions: map[string]int64{"running": 3}, Approvals: &two, Oldest: now.Add(-time.Minute),
			Zones: []apiflows.ZoneCounts{{Zone: "eu", Slots: 8, Used: 5, Waiting: 1, WaitingSince: now.Add(-30 * time.Second), Hosts: map[string]int{"ready": 2}, Unclean: 1, Notices: map[string]int{"pending": 4}}},
			Seeds: map[string]int{"healthy": 1}, Unsaved: 1, UnsavedSince: now.Add(-2 * time.Minute),
		}, nil
	}, slog.New(slog.DiscardHandler))
	f.now = func() time.Time { return now }
	r := prometheus.NewRegistry()
	r.MustRegister(f)

	if got := seriesOf(t, r); len(got) != 1 || got["fairlead_fleet_failures_total{}"] != 0 {
		t.Errorf("before Temporal was asked: %v", got)
	}
	f.Wait()
	now = now.Add(10 * time.Second)
	got := seriesOf(t, r)
	for name, want := range map[string]float64{
		"fairlead_fleet_age_seconds{}": 10, "fairlead_sessions{state=running}": 3, "fairlead_approvals_open{}": 2, "fairlead_approval_oldest_seconds{}": 70,
		"fairlead_pool_slots{zone=eu}": 8, "fairlead_pool_slots_used{zone=eu}": 5, "fairlead_pool_waiting{zone=eu}": 1, "fairlead_pool_waiting_oldest_seconds{zone=eu}": 40,
		"fairlead_hosts{state=ready,zone=eu}": 2, "fairlead_hosts_unclean{zone=eu}": 1, "fairlead_notices{state=pending,zone=eu}": 4,
		"fairlead_seeds{health=healthy}": 1, "fairlead_seeds_unsaved{}": 1, "fairlead_seed_unsaved_oldest_seconds{}": 130, "fairlead_fleet_failures_total{}": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, %v; want %v", name, v, ok, want)
		}
	}
	if len(got) != 15 || asked != 1 {
		t.Errorf("asked %d times: %v", asked, got)
	}

	failing, now = true, now.Add(fleetEvery)
	seriesOf(t, r)
	f.Wait()
	if got := seriesOf(t, r); got["fairlead_fleet_failures_total{}"] != 1 || got["fairlead_fleet_age_seconds{}"] != 0 || asked != 2 {
		t.Errorf("with Temporal away, asked %d times: %v", asked, got)
	}
	if _, ok := seriesOf(t, r)["fairlead_approvals_open{}"]; ok {
		t.Error("a number that is not known is given")
	}

	cancel()
	now = now.Add(fleetOld + time.Second)
	if got := seriesOf(t, r); len(got) != 1 {
		t.Errorf("old numbers are given: %v", got)
	}
	f.Wait()
	if asked != 2 {
		t.Errorf("asked after its end")
	}
}

// docs/reference/metrics.md has a row for each metric, with its labels, and no other.
func TestEachMetricHasItsRowInTheReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, d := range definitions {
		labels := "–"
		if len(d.labels) > 0 {
			labels = "`" + strings.Join(d.labels, "`, `") + "`"
		}
		want = append(want, "| `"+d.name+"` | "+d.kind+" | "+labels+" | "+d.help+" |")
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `fairlead_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the rows are not those of the metrics. They should be:\n%s", strings.Join(want, "\n"))
	}
}

// What a worker counts has the kinds and the labels that its definition has.
func TestMetricsAreServedAsTheyAreDefined(t *testing.T) {
	m := &metrics{shared: &shared{registry: prometheus.NewRegistry(), series: map[string]*series{}}}
	m.shared.registry.MustRegister(m.shared)
	m.runs("v1", "0.169.0", "default")
	dialed, begin, asked := m.dialed(), m.meter(), m.asked()
	for _, err := range []error{nil, hostexec.ErrAuth, hostexec.ErrHostKeyChanged, hostexec.ErrFlood, errors.New("no route")} {
		dialed(time.Second, err)
	}
	pump := begin("RunPump")
	begin("CheckHost")("unreachable")
	asked(site.ModelRequest{Seed: "team", Tenant: "default", Money: 2_500_000,
		Outcome: gateway.Outcome{Kind: gateway.KindCompleted, Attempts: 3, Rebuilt: "its end", FirstByte: time.Second, Total: 2 * time.Second, Usage: &gateway.Usage{Input: 5, Output: 7}}})
	m.sdk()
	m.stored()(store.AskedOK)
	if got := seriesOf(t, m.shared.registry); got["fairlead_refused_signals{}"] != 0 || len(got) < 20 {
		t.Errorf("before the first event: %v", got)
	}
	m.WithTags(map[string]string{"workflow_type": "Session"}).Counter(payload.SignalsRefused).Inc(1)
	m.WithTags(map[string]string{"kind": "activity"}).Counter(newer.Metric).Inc(1)
	got := seriesOf(t, m.shared.registry)
	for name, want := range map[string]float64{
		"fairlead_build_info{codex=0.169.0,version=v1,zone=default}": 1, "fairlead_pumps{}": 1, "fairlead_activities{}": 1, "fairlead_activity_failures_total{kind=unreachable}": 1,
		"fairlead_ssh_dials_total{outcome=ok}": 1, "fairlead_ssh_dials_total{outcome=auth}": 1, "fairlead_ssh_dials_total{outcome=host_key}": 1,
		"fairlead_ssh_dials_total{outcome=flood}": 1, "fairlead_ssh_dials_total{outcome=unreachable}": 1,
		"fairlead_model_retries_total{}": 2, "fairlead_model_rebuilt_total{}": 1, "fairlead_model_tokens_total{direction=input,estimated=false}": 5,
		"fairlead_model_money_total{seed=team,tenant=default}": 2.5,
		"fairlead_refused_signals{}":                           1, "fairlead_left_to_newer{kind=activity}": 1, "fairlead_left_to_newer{kind=workflow}": 0,
		"fairlead_store_requests_total{outcome=ok}": 1, "fairlead_store_requests_total{outcome=unreachable}": 0, "fairlead_model_requests_total{outcome=auth}": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, %v; want %v; of %v", name, v, ok, want, got)
		}
	}
	if pump(""); seriesOf(t, m.shared.registry)["fairlead_pumps{}"] != 0 {
		t.Error("a pump that ended is counted")
	}
	for name := range got {
		defined(name[:strings.Index(name, "{")]) // panics if it is not
	}
}

// Whoever may make seeds does not make Prometheus keep a series for each of them.
func TestTheSeriesOfMoneyAreBounded(t *testing.T) {
	m := &metrics{shared: &shared{registry: prometheus.NewRegistry(), series: map[string]*series{}}}
	asked := m.asked()
	for i := range 3 * mostNames {
		asked(site.ModelRequest{Seed: fmt.Sprintf("s%d", i), Tenant: "default", Money: protocol.Unit})
	}
	asked(site.ModelRequest{Seed: "s0", Tenant: "default", Money: protocol.Unit})
	n, sum, all := 0, 0.0, seriesOf(t, m.shared.registry)
	for name, value := range all {
		if strings.HasPrefix(name, "fairlead_model_money_total{") {
			n, sum = n+1, sum+value
		}
	}
	if n != mostNames+1 || sum != 3*mostNames+1 {
		t.Errorf("%d series with %v in all", n, sum)
	}
	if first, rest := all["fairlead_model_money_total{seed=s0,tenant=default}"], all["fairlead_model_money_total{seed=_other,tenant=default}"]; first != 2 || rest != 2*mostNames {
		t.Errorf("%v for the first seed, %v for those without a label of their own", first, rest)
	}
}
