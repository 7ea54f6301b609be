package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/care"
)

// The workers create each Schedule of maintenance once, with the interval of their config.
// They create none if the config says never.
func TestMaintenanceIsScheduledAsTheConfigSays(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir) // other tests have sessions in the home that they share
	address := temporalIn(t, dir)
	c, err := client.NewLazyClient(client.Options{HostPort: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	schedule := c.ScheduleClient().GetHandle(t.Context(), protocol.MaintenanceID)
	ofStore := c.ScheduleClient().GetHandle(t.Context(), protocol.MaintainStoreID)
	ofRest := c.ScheduleClient().GetHandle(t.Context(), protocol.TidyStoreID)
	ofHosts := c.ScheduleClient().GetHandle(t.Context(), protocol.MaintainHostsID(""))
	ofLeftovers := c.ScheduleClient().GetHandle(t.Context(), protocol.MaintainLeftoversID(""))

	worker := func(maintain, prune, check, leftovers string) (stop func()) {
		p := newPlace(t, fmt.Sprintf("temporal: {address: %q}\nseeds: {maintain: %s}\nsnapshots: {prune: %s}\nhosts: {check: %s, leftovers: %s}\n", address, maintain, prune, check, leftovers))
		tidied := regexp.MustCompile(`(?m)^store: \{`) // the store is tidied as often as it is pruned
		config, err := os.ReadFile(p.config)
		if err == nil {
			err = os.WriteFile(p.config, tidied.ReplaceAll(config, []byte("store: {tidy: "+prune+", ")), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		w := runWorker(t, "--config", p.config)
		wait(t, "the worker is ready", func() bool { st, err := p.status(t); return err == nil && st.Ready })
		return func() {
			if err := w.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			<-w.done
		}
	}
	every := func(schedule client.ScheduleHandle) time.Duration {
		t.Helper()
		d, err := schedule.Describe(t.Context())
		if err != nil || len(d.Schedule.Spec.Intervals) != 1 {
			t.Fatalf("the schedule: %+v, %v", d, err)
		}
		return d.Schedule.Spec.Intervals[0].Every
	}

	// runs starts a Schedule's workflow now.
	runs := func(schedule client.ScheduleHandle) (out care.MaintenanceResult) {
		t.Helper()
		if err := schedule.Trigger(t.Context(), client.ScheduleTriggerOptions{}); err != nil {
			t.Fatal(err)
		}
		wait(t, "maintenance was done", func() bool {
			d, err := schedule.Describe(t.Context())
			if err != nil || len(d.Info.RecentActions) == 0 {
				return false
			}
			run := d.Info.RecentActions[0].StartWorkflowResult
			if err := c.GetWorkflow(t.Context(), run.WorkflowID, run.FirstExecutionRunID).Get(t.Context(), &out); err != nil || len(out.Problems) > 0 {
				t.Fatalf("maintenance ended with %+v, %v", out, err)
			}
			return true
		})
		return out
	}

	stop := worker("1h", "24h", "3h", "4h")
	if got, store := every(schedule), every(ofStore); got != time.Hour || store != 24*time.Hour {
		t.Errorf("every %s, and of the store every %s", got, store)
	}
	if out := runs(schedule); out.Snapshots != nil {
		t.Errorf("the one for seeds pruned snapshots: %+v", out)
	}
	if out := runs(ofStore); out.Snapshots == nil || len(out.Snapshots.Snapshots) > 0 {
		t.Errorf("an empty store was pruned: %+v", out)
	}
	if got := every(ofRest); got != 24*time.Hour {
		t.Errorf("what else is in the store is looked at every %s", got)
	}
	if out := runs(ofRest); out.Store == nil || out.Store.Folders != 0 || out.Snapshots != nil {
		t.Errorf("an empty store was tidied: %+v", out)
	}
	if got := every(ofHosts); got != 3*time.Hour {
		t.Errorf("hosts are looked at every %s", got)
	}
	if out := runs(ofHosts); out.Hosts == nil || out.Hosts.Seen != 0 {
		t.Errorf("of hosts there are none, and it found %+v", out.Hosts)
	}
	if got := every(ofLeftovers); got != 4*time.Hour {
		t.Errorf("somebody looks for leftovers every %s", got)
	}
	if out := runs(ofLeftovers); out.Leftovers == nil || out.Leftovers.Hosts != 1 || out.Hosts != nil {
		t.Errorf("there is this machine alone, and it looked at %+v", out.Leftovers)
	}
	stop()
	stop = worker("2h", "1h", "30m", "20m")
	if got, store := every(schedule), every(ofStore); got != 2*time.Hour || store != time.Hour {
		t.Errorf("a worker with another config leaves it at every %s, and of the store every %s", got, store)
	}
	if got := every(ofHosts); got != 30*time.Minute {
		t.Errorf("a worker with another config leaves the hosts' at every %s", got)
	}
	if got := every(ofLeftovers); got != 20*time.Minute {
		t.Errorf("a worker with another config leaves that for leftovers at every %s", got)
	}
	stop()
	stop = worker("0s", "0s", "0s", "0s")
	for _, s := range []client.ScheduleHandle{schedule, ofStore, ofRest, ofHosts, ofLeftovers} {
		var none *serviceerror.NotFound
		if d, err := s.Describe(t.Context()); !errors.As(err, &none) {
			t.Errorf("there is %+v, %v", d, err)
		}
	}
	stop()
}
