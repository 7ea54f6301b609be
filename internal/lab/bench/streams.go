package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

const streamRate = 20 // words a second of each session

// measureStreams streams in many stand-in sessions at once. The worker measures
// the lag of each event; all processes share one clock.
func measureStreams(ctx context.Context, o *options) (err error) {
	c, err := startCrowd(ctx, o, o.streams)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	if err := c.gather(ctx, "say 1", protocol.Idle); err != nil {
		return err
	}
	begin := time.Now()
	// All of them must have begun before the first ends.
	long := o.streamed + 5*time.Minute
	// They begin one after another, as with people, not all at once.
	next := time.NewTicker(time.Second / time.Duration(o.ramp))
	defer next.Stop()
	err = each(c.ids, 32, func(id string) error {
		select {
		case <-next.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return c.c.SignalWorkflow(ctx, protocol.SessionID(id), "", protocol.SignalMessage,
			protocol.Message{ID: "stream-" + id, Text: fmt.Sprintf("stream %d/s for %v", streamRate, long), By: "bench"})
	})
	if err != nil {
		return err
	}
	if err := c.streamed(ctx, begin, long-o.streamed); err != nil {
		return err
	}
	before := processorTime()
	first := time.Now()
	m1, err := lab.Scrape(ctx, c.metrics)
	if err != nil {
		return err
	}
	if err := profile(ctx, c.metrics, o.profile, "streams", min(o.streamed/2, 20*time.Second)); err != nil {
		return err
	}
	select {
	case <-time.After(time.Until(first.Add(o.streamed))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d := time.Since(first)
	m2, err := lab.Scrape(ctx, c.metrics)
	if err != nil {
		return err
	}
	took := processorTime().since(before)
	if err := profile(ctx, c.metrics, o.profile, "goroutine", 0); err != nil {
		return err
	}
	st, err := c.status(ctx)
	if err != nil {
		return err
	}
	n := m2[lag+"_count"] - m1[lag+"_count"]
	within := func(bucket string) float64 {
		key := fmt.Sprintf("%s_bucket{le=%q}", lag, bucket)
		return m2[key] - m1[key]
	}
	fmt.Printf("  sessions that stream %d words a second          %d, goal 500; for %v\n", streamRate, len(c.ids), d.Round(time.Second))
	fmt.Printf("  events taken by the worker                     %.0f a second, %.0f%% of what was said\n", n/d.Seconds(), 100*n/(float64(len(c.ids)*streamRate)*d.Seconds()))
	fmt.Printf("  late by more than 0.1 s  %.2f%%, 0.3 s %.2f%%, 0.5 s %.2f%%, 1 s %.3f%% (%.0f events), goal 0; by more than 2 s %.0f\n",
		100*(n-within("0.1"))/n, 100*(n-within("0.3"))/n, 100*(n-within("0.5"))/n, 100*(n-within("1"))/n, n-within("1"), n-within("2"))
	fmt.Printf("  the machine                                    %s\n", took)
	fmt.Printf("  memory of the worker                           %s\n", mib(lab.Resident(st.Workers[0].PID)))
	return nil
}

const lag = "fairlead_event_lag_seconds"

// streamed waits until all sessions stream.
func (c *crowd) streamed(ctx context.Context, begin time.Time, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		// Count the attached pumps and the rate of events over 5 s.
		m1, err := lab.Scrape(ctx, c.metrics)
		if err != nil {
			return fmt.Errorf("wait until all stream: %w", err)
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return fmt.Errorf("not all sessions came to stream within %v", within)
		}
		m2, err := lab.Scrape(ctx, c.metrics)
		if err != nil {
			return err
		}
		attached := 0.0
		for name, v := range m2 {
			if hasAll(name, "temporal_worker_task_slots_used", "ActivityWorker") {
				attached += v
			}
		}
		rate := (m2[lag+"_count"] - m1[lag+"_count"]) / 5
		if int(attached) >= len(c.ids) && rate >= 0.9*float64(len(c.ids)*streamRate) {
			fmt.Printf("  all of them stream after %v\n", time.Since(begin).Round(time.Second))
			return nil
		}
		if c.verbose {
			fmt.Printf("  attached %.0f, %.0f events a second\n", attached, rate)
		}
	}
}

func hasAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
