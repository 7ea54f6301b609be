package alarm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/realparts"
)

// well is what two workers serve while all is well. The notices that are not pending only grow,
// and one more fails in each minute of the fault, so they stand here as a counter.
const well = `
fairlead_ready 1
fairlead_fleet_age_seconds 20
# TYPE fairlead_fleet_failures_total counter
fairlead_fleet_failures_total 0
fairlead_access_file_broken 0
fairlead_notification_rules_broken 0
fairlead_credential_broken{credential="api.tls"} 0
# TYPE fairlead_left_to_newer counter
fairlead_left_to_newer{kind="workflow"} 0
fairlead_left_to_newer{kind="activity"} 0
# TYPE fairlead_refused_signals counter
fairlead_refused_signals 0
# TYPE fairlead_store_requests_total counter
fairlead_store_requests_total{outcome="ok"} 900
fairlead_store_requests_total{outcome="missing"} 40
fairlead_store_requests_total{outcome="taken"} 2
fairlead_store_requests_total{outcome="unreachable"} 0
fairlead_store_requests_total{outcome="failed"} 0
fairlead_approvals_open 1
fairlead_approval_oldest_seconds 0
# TYPE fairlead_notices counter
fairlead_notices{zone="default",state="pending"} 0
fairlead_notices{zone="default",state="sent"} 50
fairlead_notices{zone="default",state="failed"} 1
fairlead_notices{zone="default",state="unknown"} 0
fairlead_pool_waiting_oldest_seconds{zone="default"} 0
fairlead_hosts{zone="default",state="ready"} 4
fairlead_hosts_unclean{zone="default"} 0
# TYPE fairlead_ssh_dials_total counter
fairlead_ssh_dials_total{outcome="ok"} 60
fairlead_ssh_dials_total{outcome="auth"} 0
fairlead_ssh_dials_total{outcome="host_key"} 0
fairlead_ssh_dials_total{outcome="flood"} 0
fairlead_ssh_dials_total{outcome="unreachable"} 3
fairlead_seeds{health="healthy"} 3
fairlead_seeds_unsaved 0
fairlead_seed_unsaved_oldest_seconds 0
# TYPE fairlead_event_lag_seconds histogram
fairlead_event_lag_seconds_bucket{le="0.1"} 500
fairlead_event_lag_seconds_bucket{le="5"} 510
fairlead_event_lag_seconds_bucket{le="10"} 510
fairlead_event_lag_seconds_bucket{le="+Inf"} 510
fairlead_event_lag_seconds_sum 20
fairlead_event_lag_seconds_count 510
# TYPE fairlead_model_requests_total counter
fairlead_model_requests_total{outcome="completed"} 400
fairlead_model_requests_total{outcome="failed"} 4
fairlead_model_requests_total{outcome="cut"} 0
fairlead_model_requests_total{outcome="auth"} 0
fairlead_model_requests_total{outcome="usage_limit"} 0
fairlead_activity_slots{class="pumps"} 3
fairlead_activity_slots{class="short"} 400
fairlead_activity_slots_used{class="pumps"} 2
fairlead_activity_slots_used{class="short"} 4
temporal_worker_task_slots_available{worker_type="ActivityWorker"} 990
temporal_worker_task_slots_available{worker_type="WorkflowWorker"} 900
# TYPE temporal_request counter
temporal_request{operation="PollWorkflowTaskQueue"} 4000
# TYPE temporal_request_failure counter
temporal_request_failure{operation="QueryWorkflow",status_code="NOT_FOUND"} 12
`

// trials say what each alert's fault does to the first worker's metrics: which lines are as
// given, counters as after one minute.
var trials = []struct {
	alert string
	lines string
}{
	{"FairleadNoWorker", "-"}, // both workers are gone
	{"FairleadWorkerNotReady", `fairlead_ready 0`},
	{"FairleadActivitySlotsFull", `fairlead_activity_slots_used{class="pumps"} 3`},
	{"FairleadTemporalFails", `temporal_request_failure{operation="RespondActivityTaskCompleted",status_code="UNAVAILABLE"} 9`},
	{"FairleadWorkflowTasksFail", `temporal_workflow_task_execution_failed{workflow_type="Session",failure_reason="NonDeterminismError"} 1`},
	{"FairleadLeftToNewer", `fairlead_left_to_newer{kind="workflow"} 2`},
	{"FairleadStoreFails", `fairlead_store_requests_total{outcome="unreachable"} 1`},
	{"FairleadNumbersMissing", `fairlead_fleet_failures_total 1`},
	{"FairleadAccessFileBroken", `fairlead_access_file_broken 1`},
	{"FairleadCredentialBroken", `fairlead_credential_broken{credential="api.tls"} 1`},
	{"FairleadRefusedSignals", `fairlead_refused_signals 1`},
	{"FairleadApprovalWaits", `fairlead_approval_oldest_seconds 30`},
	{"FairleadNotificationRulesBroken", `fairlead_notification_rules_broken 1`},
	{"FairleadNoticesFail", `fairlead_notices{zone="default",state="failed"} 2`},
	{"FairleadQueueWaits", `fairlead_pool_waiting_oldest_seconds{zone="default"} 30`},
	{"FairleadHostUnhealthy", `fairlead_hosts{zone="default",state="quarantined"} 1`},
	{"FairleadHostKeyRefused", `fairlead_ssh_dials_total{outcome="host_key"} 1`},
	{"FairleadSSHFails", `fairlead_ssh_dials_total{outcome="unreachable"} 5`},
	{"FairleadCredentialsLeft", `fairlead_hosts_unclean{zone="default"} 1`},
	{"FairleadEventsLate", "fairlead_event_lag_seconds_bucket{le=\"10\"} 610\nfairlead_event_lag_seconds_bucket{le=\"+Inf\"} 610\nfairlead_event_lag_seconds_count 610"},
	{"FairleadSeedUnhealthy", `fairlead_seeds{health="suspect"} 1`},
	{"FairleadSeedUnsaved", `fairlead_seed_unsaved_oldest_seconds 30`},
	{"FairleadModelRefuses", `fairlead_model_requests_total{outcome="auth"} 1`},
	{"FairleadModelFails", `fairlead_model_requests_total{outcome="cut"} 10`},
}

func parsed(t *testing.T, text, instance string) Scrape {
	t.Helper()
	s, err := Parse(strings.TrimLeft(text, "\n"), instance)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// with returns the text with other lines. A line of a series that is not there is added.
func with(text, lines string) string {
	types := map[string]string{"temporal_workflow_task_execution_failed": "# TYPE temporal_workflow_task_execution_failed counter\n"}
	for line := range strings.SplitSeq(lines, "\n") {
		series := line[:strings.LastIndexByte(line, ' ')+1]
		if at := strings.Index(text, "\n"+series); at >= 0 {
			end := at + 1 + strings.IndexByte(text[at+1:], '\n')
			text = text[:at+1] + line + text[end:]
			continue
		}
		name, _, _ := strings.Cut(series, "{")
		if at := strings.Index(text, "\n"+name+"{"); at >= 0 { // families stay together
			text = text[:at+1] + line + "\n" + text[at+1:]
		} else {
			text += types[name] + line + "\n"
		}
	}
	return text
}

// merged is what both workers serve.
func merged(a, b Scrape) Scrape {
	all := Scrape{Values: map[string]float64{}, Grows: map[string]bool{}}
	for _, s := range []Scrape{a, b} {
		for series, v := range s.Values {
			all.Values[series], all.Grows[series] = v, s.Grows[series]
		}
	}
	return all
}

// Each alert fires under its fault and under no other one, not before its time, and clears.
func TestAlertsFireUnderTheirFaultAloneAndClear(t *testing.T) {
	realparts.Promtool(t)
	alerts, err := Alerts(realparts.Path(t, AlertsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts {
		at := slices.IndexFunc(trials, func(c struct{ alert, lines string }) bool { return c.alert == a.Name })
		if at < 0 {
			t.Errorf("no trial of %s", a.Name)
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			second := parsed(t, well, "worker-2:9090")
			before := merged(parsed(t, well, "worker-1:9090"), second)
			now := Scrape{}
			also := []string{a.Name}
			if lines := trials[at].lines; lines != "-" {
				now = merged(parsed(t, with(well, lines), "worker-1:9090"), second)
			} else {
				also = append(also, "FairleadNumbersMissing") // nobody is there to give them
			}
			var h History
			h.As(35, before)
			h.Fires()
			h.Between(1, before, now)
			if a.For != "0m" && a.Name != "FairleadNoWorker" {
				h.Fires()
			}
			h.Between(99, before, now)
			h.Fires(also...)
			after := before
			if a.Name != "FairleadNoWorker" { // counters go on from where they are
				after = merged(parsed(t, well, "worker-1:9090"), second)
			}
			h.As(60, after)
			h.Fires()
			h.Try(t)
		})
	}
	if len(alerts) < 12 || len(trials) != len(alerts) {
		t.Errorf("%d alerts, and trials of %d", len(alerts), len(trials))
	}
}

// An alert says how bad it is, what is wrong and where to read on. It names metrics and labels that exist.
func TestAlertsAreWhole(t *testing.T) {
	file := realparts.Path(t, AlertsFile)
	alerts, err := Alerts(file)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := Reference(realparts.Path(t, MetricsPage))
	if err != nil {
		t.Fatal(err)
	}
	if len(metrics) < 30 {
		t.Fatalf("%s has only %d metrics: this test does not read them", MetricsPage, len(metrics))
	}
	for _, a := range alerts {
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has severity %q", a.Name, s)
		}
		if a.For == "" || a.Annotations["summary"] == "" || strings.HasSuffix(a.Annotations["summary"], ".") {
			t.Errorf("%s: for %q, summary %q", a.Name, a.For, a.Annotations["summary"])
		}
		page, anchor, _ := strings.Cut(a.Annotations["runbook"], "#")
		text, err := os.ReadFile(realparts.Path(t, page))
		if err != nil || anchor != strings.ToLower(a.Name) {
			t.Errorf("%s: the runbook %q is none: %v", a.Name, a.Annotations["runbook"], err)
			continue
		}
		_, section, ok := strings.Cut(string(text), "\n### "+a.Name+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		if !ok || !strings.Contains(section, "**Meaning.**") || !strings.Contains(section, "**Look at.**") || !strings.Contains(section, "**Do.**") {
			t.Errorf("%s: %s does not say what it means, what to look at and what to do", a.Name, page)
		}
		uses := Uses(a.Expr)
		if len(uses) == 0 {
			t.Errorf("%s names no metric", a.Name)
		}
		for _, u := range uses {
			for _, l := range u.Labels {
				if labels, ok := metrics[u.Metric]; !ok || l != "le" && !slices.Contains(labels, l) {
					t.Errorf("%s: %s has no label %s", a.Name, u.Metric, l)
				}
			}
			if metrics[u.Metric] == nil {
				t.Errorf("%s: there is no metric %s", a.Name, u.Metric)
			}
		}
	}
}

// The file is one that Prometheus takes.
func TestPrometheusTakesTheAlerts(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), realparts.Promtool(t), "check", "rules", "--lint=all", "--lint-fatal", realparts.Path(t, filepath.FromSlash(AlertsFile))).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTheMetricsOfAnExpressionAreFound(t *testing.T) {
	got := Uses(`histogram_quantile(0.9, sum by (le) (rate(fairlead_event_lag_seconds_bucket{zone=~"a_b|c"}[5m]))) > fairlead_ready * go_goroutines`)
	if len(got) != 3 || got[0].Metric != "fairlead_event_lag_seconds" || !slices.Equal(got[0].Labels, []string{"zone"}) || got[1].Metric != "fairlead_ready" || got[2].Metric != "go_goroutines" {
		t.Errorf("found %+v", got)
	}
}
