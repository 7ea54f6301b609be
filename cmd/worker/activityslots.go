package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/activities/slots"
	"fairlead.dev/fairlead/internal/config"
)

// slotsOf returns the activity slots of this worker, and what gives them to the SDK's worker.
func slotsOf(l config.Limits, m *metrics) (*slots.Slots, worker.WorkerTuner, error) {
	s, err := slots.New(slots.Limits{slots.Pumps: l.Pumps, slots.Watches: l.Watches, slots.Bulk: l.Bulk, slots.Commands: l.Commands, slots.Short: l.Short})
	if err != nil {
		return nil, nil, fmt.Errorf("limits: %w", err)
	}
	for _, c := range slots.Classes() {
		gauge := func(name string, of func(slots.Use) int) {
			m.shared.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: defined(name).help, ConstLabels: prometheus.Labels{"class": string(c)}},
				func() float64 { return float64(of(s.Use(c))) }))
		}
		gauge("fairlead_activity_slots", func(u slots.Use) int { return u.Limit })
		gauge("fairlead_activity_slots_used", func(u slots.Use) int { return u.Used })
		d := defined("fairlead_activity_sent_back_total")
		m.shared.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: d.name, Help: d.help, ConstLabels: prometheus.Labels{"class": string(c)}},
			func() float64 { return float64(s.Use(c).SentBack) }))
	}
	tuner, err := s.Tuner()
	return s, tuner, err
}
