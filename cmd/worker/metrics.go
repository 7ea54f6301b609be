package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/egress"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/workflows/newer"
)

// metrics serves the SDK's metrics to Prometheus. The SDK uses one metric with different
// tags, which a Prometheus vector refuses, so every combination of tags is a series of its
// own. It is safe for concurrent use.
type metrics struct {
	shared *shared
	health health
	tags   map[string]string
	server *http.Server
	done   chan struct{}
}

var _ client.MetricsHandler = (*metrics)(nil)

type shared struct {
	registry *prometheus.Registry

	mu     sync.Mutex
	series map[string]*series
}

// buckets of every timer, in seconds
var buckets = []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 1000, 10000}

type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	timer bool

	mu     sync.Mutex
	value  float64
	count  uint64
	counts []uint64 // by bucket, not cumulative
}

// serveMetrics serves metrics if the config says where.
func serveMetrics(conf config.Metrics, log *slog.Logger) (*metrics, error) {
	m := &metrics{shared: &shared{registry: prometheus.NewRegistry(), series: map[string]*series{}}, done: make(chan struct{})}
	m.shared.registry.MustRegister(m.shared, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if conf.Listen == "" {
		close(m.done)
		return m, nil
	}
	ln, err := net.Listen("tcp", conf.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", m.health.live)
	mux.HandleFunc("GET /readyz", m.health.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.shared.registry, promhttp.HandlerOpts{}))
	if conf.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	}
	m.server = &http.Server{Handler: guardMetrics(conf, mux), ReadHeaderTimeout: 10 * time.Second}
	log.Info("metrics served", "address", ln.Addr().String())
	go func() {
		defer close(m.done)
		if err := m.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics stopped", "err", err)
		}
	}()
	return m, nil
}

// guardMetrics refuses requests of web pages, which may reach an address that their authors
// cannot. Such a request names another origin, or a host whose name the page's author has led
// to this address. So a host must be an IP address or known. Beyond loopback it may also be a
// name without a dot, such as one in a cluster.
func guardMetrics(conf config.Metrics, next http.Handler) http.Handler {
	known := append([]string{"localhost"}, conf.Hosts...)
	loopback := conf.Loopback()
	if name, err := os.Hostname(); err == nil && !loopback {
		known = append(known, name)
	}
	if host, _, err := net.SplitHostPort(conf.Listen); err == nil {
		known = append(known, host)
	}
	for i := range known {
		known[i] = strings.ToLower(known[i])
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		host = strings.ToLower(host)
		site := r.Header.Get("Sec-Fetch-Site")
		switch {
		case r.Header.Get("Origin") != "", site != "" && site != "none" && site != "same-origin":
			http.Error(w, "these metrics are not for web pages", http.StatusForbidden)
		case net.ParseIP(host) == nil && (loopback || strings.Contains(host, ".")) && !slices.Contains(known, host):
			http.Error(w, "these metrics are not served by this name: add it to metrics.hosts in the worker's config", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (m *metrics) Close() error {
	var err error
	if m.server != nil {
		err = m.server.Close()
	}
	<-m.done
	return err
}

// watch serves a gauge that f tells.
func (m *metrics) watch(name string, f func() float64) {
	m.shared.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: defined(name).help}, f))
}

// counter serves a counter with the labels that are defined for it. A series with one of the
// known values of its only label is there before the first event: Prometheus sees no increase
// in a series that begins with 1.
func (m *metrics) counter(name string, known ...string) *prometheus.CounterVec {
	d := defined(name)
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: d.help}, d.labels)
	for _, value := range known {
		c.WithLabelValues(value)
	}
	m.shared.registry.MustRegister(c)
	return c
}

// sdk makes the series of ours that go through the SDK's handler, before the first event.
func (m *metrics) sdk() {
	m.Counter(payload.SignalsRefused)
	for _, kind := range []string{"workflow", "activity"} {
		m.WithTags(map[string]string{"kind": kind}).Counter(newer.Metric)
	}
}

// stored returns a function that counts requests to the store.
func (m *metrics) stored() func(outcome string) {
	requests := m.counter("fairlead_store_requests_total", store.Outcomes...)
	return func(outcome string) { requests.WithLabelValues(outcome).Inc() }
}

// histogram serves a histogram.
func (m *metrics) histogram(name string, upTo ...float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: defined(name).help, Buckets: upTo})
	m.shared.registry.MustRegister(h)
	return h
}

// runs serves what this worker is.
func (m *metrics) runs(version, codex, zone string) {
	d := defined("fairlead_build_info")
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.labels)
	g.WithLabelValues(version, codex, zone).Set(1)
	m.shared.registry.MustRegister(g)
}

// meter returns a function that is called when an activity of a type begins. It returns one that
// is called with the kind of its error, or with "", when the activity ends.
func (m *metrics) meter() func(activity string) func(kind string) {
	var pumps, all atomic.Int64
	m.watch("fairlead_pumps", func() float64 { return float64(pumps.Load()) })
	m.watch("fairlead_activities", func() float64 { return float64(all.Load()) })
	failures := m.counter("fairlead_activity_failures_total")
	return func(activity string) func(string) {
		count := func(n int64) {
			all.Add(n)
			if activity == "RunPump" {
				pumps.Add(n)
			}
		}
		count(1)
		return func(kind string) {
			count(-1)
			if kind != "" {
				failures.WithLabelValues(kind).Inc()
			}
		}
	}
}

// lag returns a function that records how late codex's events reach a pump.
func (m *metrics) lag() func(time.Duration) {
	h := m.histogram("fairlead_event_lag_seconds", 0.01, 0.03, 0.1, 0.3, 0.5, 1, 2, 5, 10, 30)
	return func(d time.Duration) { h.Observe(max(d, 0).Seconds()) }
}

// dialed returns a function that counts attempts to connect to hosts.
func (m *metrics) dialed() func(time.Duration, error) {
	dials := m.counter("fairlead_ssh_dials_total", "ok", "auth", "host_key", "flood", "unreachable")
	took := m.histogram("fairlead_ssh_dial_seconds", 0.03, 0.1, 0.3, 1, 3, 10, 30)
	return func(d time.Duration, err error) {
		dials.WithLabelValues(dialOutcome(err)).Inc()
		if err == nil {
			took.Observe(d.Seconds())
		}
	}
}

func dialOutcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, hostexec.ErrAuth):
		return "auth"
	case errors.Is(err, hostexec.ErrHostKeyChanged), errors.Is(err, hostexec.ErrHostKeyUnknown):
		return "host_key"
	case errors.Is(err, hostexec.ErrFlood):
		return "flood"
	}
	return "unreachable"
}

// asked returns a function that counts what model gateways do.
func (m *metrics) asked() func(site.ModelRequest) {
	requests, tokens := m.counter("fairlead_model_requests_total", gateway.Kinds()...), m.counter("fairlead_model_tokens_total")
	retries, rebuilt := m.counter("fairlead_model_retries_total").WithLabelValues(), m.counter("fairlead_model_rebuilt_total").WithLabelValues()
	fellBack := m.counter("fairlead_model_fallbacks_total").WithLabelValues()
	first := m.histogram("fairlead_model_first_byte_seconds", 0.05, 0.1, 0.3, 0.5, 1, 2, 5, 10, 30, 60)
	total := m.histogram("fairlead_model_total_seconds", 0.1, 0.3, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
	money := m.counter("fairlead_model_money_total")
	var seeds, tenants names
	return func(o site.ModelRequest) {
		requests.WithLabelValues(string(o.Kind)).Inc()
		retries.Add(float64(max(0, o.Attempts-1)))
		if o.Rebuilt != "" {
			rebuilt.Inc()
		}
		if o.FellBack != "" {
			fellBack.Inc()
		}
		if u := o.Usage; u != nil {
			estimated := strconv.FormatBool(u.Estimated)
			tokens.WithLabelValues("input", estimated).Add(float64(u.Input))
			tokens.WithLabelValues("output", estimated).Add(float64(u.Output))
		}
		if o.FirstByte > 0 {
			first.Observe(o.FirstByte.Seconds())
			total.Observe(o.Total.Seconds())
		}
		if o.Money > 0 {
			money.WithLabelValues(seeds.label(o.Seed), tenants.label(o.Tenant)).Add(float64(o.Money) / float64(protocol.Unit))
		}
	}
}

const (
	// mostNames bounds the values of a label with names that people choose.
	mostNames = 100
	// otherNames is no name of a seed or of a tenant.
	otherNames = "_other"
)

// names are the values of a label: the first names that this worker sees, and otherNames for all
// further ones. It is safe for concurrent use.
type names struct {
	mu   sync.Mutex
	seen map[string]bool // guarded by mu
}

func (n *names) label(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.seen[name]:
	case len(n.seen) >= mostNames:
		return otherNames
	case n.seen == nil:
		n.seen = map[string]bool{name: true}
	default:
		n.seen[name] = true
	}
	return name
}

// carried returns a function that counts what programs of sessions reach through the worker.
func (m *metrics) carried() func(egress.Outcome) {
	conns, size := m.counter("fairlead_egress_connections_total", egress.Kinds()...), m.counter("fairlead_egress_bytes_total", "sent", "received")
	return func(o egress.Outcome) {
		conns.WithLabelValues(string(o.Kind)).Inc()
		size.WithLabelValues("sent").Add(float64(o.Sent))
		size.WithLabelValues("received").Add(float64(o.Received))
	}
}

// WithTags implements client.MetricsHandler.
func (m *metrics) WithTags(tags map[string]string) client.MetricsHandler {
	all := make(map[string]string, len(m.tags)+len(tags))
	for k, v := range m.tags {
		all[k] = v
	}
	for k, v := range tags {
		all[k] = v
	}
	return &metrics{shared: m.shared, tags: all}
}

type (
	counter struct{ *series }
	gauge   struct{ *series }
	timer   struct{ *series }
)

// Counter implements client.MetricsHandler.
func (m *metrics) Counter(name string) client.MetricsCounter {
	return counter{m.shared.get(name, m.tags, prometheus.CounterValue, false)}
}

// Gauge implements client.MetricsHandler.
func (m *metrics) Gauge(name string) client.MetricsGauge {
	return gauge{m.shared.get(name, m.tags, prometheus.GaugeValue, false)}
}

// Timer implements client.MetricsHandler. Its metric is in seconds.
func (m *metrics) Timer(name string) client.MetricsTimer {
	return timer{m.shared.get(name+"_seconds", m.tags, prometheus.UntypedValue, true)}
}

func (c counter) Inc(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value += float64(n)
}

func (g gauge) Update(v float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.value = v
}

func (t timer) Record(d time.Duration) {
	s := d.Seconds()
	i, _ := slices.BinarySearch(buckets, s)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.value += s
	t.count++
	if i < len(t.counts) {
		t.counts[i]++
	}
}

func (sh *shared) get(name string, tags map[string]string, kind prometheus.ValueType, isTimer bool) *series {
	names := make([]string, 0, len(tags))
	for k := range tags {
		// The SDK adds tags of its own, such as the workflow's type. Our metrics have their own labels alone.
		if !strings.HasPrefix(name, "fairlead_") || slices.Contains(defined(name).labels, k) {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	var key strings.Builder
	key.WriteString(name)
	labels := make(prometheus.Labels, len(tags))
	for _, k := range names {
		fmt.Fprintf(&key, "\x00%s\x00%s", k, tags[k])
		labels[plainName(k)] = tags[k]
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.series[key.String()]
	if s == nil {
		s = &series{kind: kind, timer: isTimer, desc: prometheus.NewDesc(plainName(name), "As counted by Temporal's SDK.", nil, labels)}
		if isTimer {
			s.counts = make([]uint64, len(buckets))
		}
		sh.series[key.String()] = s
	}
	return s
}

func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}

// Describe implements prometheus.Collector. The metrics are not known beforehand.
func (sh *shared) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (sh *shared) Collect(out chan<- prometheus.Metric) {
	sh.mu.Lock()
	all := make([]*series, 0, len(sh.series))
	for _, s := range sh.series {
		all = append(all, s)
	}
	sh.mu.Unlock()
	for _, s := range all {
		out <- s.metric()
	}
}

func (s *series) metric() prometheus.Metric {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.timer {
		return prometheus.MustNewConstMetric(s.desc, s.kind, s.value)
	}
	upTo := make(map[float64]uint64, len(buckets))
	var sum uint64
	for i, b := range buckets {
		sum += s.counts[i]
		upTo[b] = sum
	}
	return prometheus.MustNewConstHistogram(s.desc, s.count, s.value, upTo)
}
