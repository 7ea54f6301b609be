package outages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/alarm"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/protocol"
)

// faulty are the alerts whose faults the test below brings about.
var faulty = []string{"FairleadApprovalWaits", "FairleadHostKeyRefused", "FairleadHostUnhealthy", "FairleadNotificationRulesBroken", "FairleadQueueWaits", "FairleadSeedUnhealthy", "FairleadStoreFails"}

// eventual are metrics that begin with an event, or need something that the test's stack has not.
var eventual = []string{"fairlead_model_tokens_total", "fairlead_model_money_total", "fairlead_access_file_broken", "temporal_workflow_task_execution_failed"}

// Real faults last, and the alerts on what the real worker serves fire. The faults are mended, and
// the alerts clear.
func TestAlertsFireUnderRealFaultsAndClear(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "notify.yaml")
	const good, bad = "channels:\n  hook: {kind: webhook, url: \"https://127.0.0.1:9/\", secret_file: s}\nrules:\n  - {name: fleet, events: [batch.ended], to: [\"channel:hook\"]}\n", "rules: [{"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	c := newCrowd(t, true, fmt.Sprintf("notifications: %q\n", rules))
	ctx := e2e.Within(t)
	run := func(code int, args ...string) {
		t.Helper()
		if r := c.Ctl(ctx, nil, args...); r.Code != code {
			t.Fatalf("want exit %d: %v", code, r)
		}
	}
	storage := filepath.Join(c.State, "store")
	scraped := func() alarm.Scrape {
		t.Helper()
		text, err := fetch(ctx, "http://"+c.metrics+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		s, err := alarm.Parse(text, "worker-1:9090")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	value := func(s alarm.Scrape, name string, labels ...string) float64 {
		for series, v := range s.Values {
			if strings.HasPrefix(series, name+"{") && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
				return v
			}
		}
		return -1
	}
	store := func(s alarm.Scrape) float64 {
		return value(s, "fairlead_store_requests_total", `outcome="unreachable"`)
	}
	keys := func(s alarm.Scrape) float64 { return value(s, "fairlead_ssh_dials_total", `outcome="host_key"`) }

	// An approval is open.
	c.wait("asks")
	// A login may be in use elsewhere.
	home := filepath.Join(c.Dir, "home")
	login := scriptedauth.Serve(t).Login(scriptedauth.Account{})
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(filepath.Join(home, "auth.json"), login.AuthJSON(), 0o600)); err != nil {
		t.Fatal(err)
	}
	run(0, "seed", "capture", "taken", "--host", "crowded", "--codex-home", home)
	// A host is away, and a session waits for it.
	away, err := c.AddHost(ctx, "away", hosttest.Options{}, "--label", "away=1")
	if err != nil {
		t.Fatal(err)
	}
	if err := away.Stop(); err != nil {
		t.Fatal(err)
	}
	if r := c.Ctl(ctx, nil, "host", "check", "away"); r.Code == 0 {
		t.Fatalf("a check of a host that is away: %v", r)
	}
	run(0, "session", "start", "--label", "away=1", "--seed", "team", "--sandbox", "danger-full-access", "--id", "queued")
	e2e.Until(t, "the host to be in quarantine", func() (bool, error) {
		var v protocol.HostView
		err := c.JSON(ctx, &v, "host", "show", "away")
		return v.State == protocol.HealthQuarantined, err
	})
	c.becomes("queued", protocol.Queued)
	// A host has another's key.
	run(0, "host", "add", "another", c.host.User()+"@"+c.host.Address(), "--host-key", away.HostKey(), "--identity", c.host.Identity(), "--root", filepath.Join(c.Dir, "another"))
	// The rules have a mistake.
	write(bad)
	// All of this is seen, and goes on. A check of a host needs the store, so that comes last.
	check := func() { c.Ctl(ctx, nil, "host", "check", "another") }
	check()
	var faults, later alarm.Scrape
	e2e.Until(t, "the faults to be counted", func() (bool, error) {
		faults = scraped()
		return keys(faults) > 0 && value(faults, "fairlead_notification_rules_broken") == 1 && value(faults, "fairlead_approvals_open") == 1 && value(faults, "fairlead_seeds", `health="suspect"`) == 1 &&
			value(faults, "fairlead_hosts", `state="quarantined"`) >= 1 && value(faults, "fairlead_pool_waiting_oldest_seconds") > 0, nil
	})
	e2e.Until(t, "the host to show another's key again", func() (bool, error) {
		check()
		return keys(scraped()) > keys(faults), nil
	})
	// The store's disk is gone.
	if err := os.Rename(storage, storage+" away"); err != nil {
		t.Fatal(err)
	}
	back := func() error { return os.Rename(storage+" away", storage) }
	t.Cleanup(func() { _ = back() })
	e2e.Until(t, "requests to the store to fail", func() (bool, error) {
		c.Ctl(ctx, nil, "snapshot", "list")
		later = scraped()
		return store(later) > store(faults), nil
	})

	// All is mended.
	write(good)
	if err := back(); err != nil {
		t.Fatal(err)
	}
	open, err := lab.Lines[protocol.Approval](ctx, c.Lab, "approval", "list", "--session", "asks")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range open {
		run(0, "approval", "decline", a.ID)
	}
	run(0, "seed", "delete", "taken")
	run(0, "host", "remove", "another")
	if err := away.Start(ctx); err != nil {
		t.Fatal(err)
	}
	c.becomes("queued", protocol.Idle)
	var mended alarm.Scrape
	e2e.Until(t, "the numbers to be as before", func() (bool, error) {
		mended = scraped()
		return value(mended, "fairlead_notification_rules_broken") == 0 && value(mended, "fairlead_approvals_open") == 0 && value(mended, "fairlead_seeds", `health="suspect"`) <= 0 &&
			value(mended, "fairlead_hosts", `state="quarantined"`) <= 0 && value(mended, "fairlead_pool_waiting") == 0, nil
	})

	var h alarm.History
	h.Between(90, faults, later)
	h.FiresOf(faulty, faulty...)
	h.As(60, mended)
	h.FiresOf(faulty)
	h.Try(t)

	// What dashboards and alerts ask for is there, but for what begins with an event that did not happen here.
	panels, err := alarm.Dashboards(filepath.Join(e2e.Repo, "deploy", "observability"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range panels {
		for _, q := range p.Queries {
			for _, u := range alarm.Uses(q) {
				if !slices.Contains(later.Names, u.Metric) && !slices.Contains(eventual, u.Metric) {
					t.Errorf("dashboard %q, panel %q: the worker does not serve %s", p.Dashboard, p.Title, u.Metric)
				}
			}
		}
	}

	// What no worker serves any more is missed.
	if err := c.Down(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(ctx, "http://"+c.metrics+"/metrics"); err == nil {
		t.Fatal("a worker that was stopped serves metrics")
	}
	var gone alarm.History
	none := alarm.Scrape{Values: map[string]float64{}}
	noWorker := []string{"FairleadNoWorker"}
	gone.As(10, mended)
	gone.FiresOf(noWorker)
	gone.As(20, none)
	gone.FiresOf(noWorker, noWorker...)
	gone.Try(t)
}
