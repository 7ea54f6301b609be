package main

// A definition describes one of our metrics. docs/reference/metrics.md has them all.
type definition struct {
	name   string
	kind   string // gauge, counter or histogram
	labels []string
	help   string
}

// definitions are all metrics of a worker beside those of Temporal's SDK, of Go and of the process.
// Each label takes few values: no name of a session, of a host or of a person is one, and of seeds and
// tenants a bounded number.
var definitions = []definition{
	{"fairlead_build_info", "gauge", []string{"version", "codex", "zone"}, "Always 1; the labels say what runs."},
	{"fairlead_ready", "gauge", nil, "1 while the worker takes work."},
	{"fairlead_pumps", "gauge", nil, "Activities that follow codex in this worker: one for each session that works here."},
	{"fairlead_activities", "gauge", nil, "Activities that run in this worker, pumps included."},
	{"fairlead_activity_slots", "gauge", []string{"class"}, "Activity slots of this worker for each class: `pumps`, `watches`, `bulk`, `commands` or `short`."},
	{"fairlead_activity_slots_used", "gauge", []string{"class"}, "Those in use."},
	{"fairlead_activity_sent_back_total", "counter", []string{"class"}, "Activities that this worker gave back because their class had no free slot."},
	{"fairlead_activity_failures_total", "counter", []string{"kind"}, "Failed attempts at activities, by the kind of error."},
	{"fairlead_ssh_connections", "gauge", nil, "Open SSH connections to hosts."},
	{"fairlead_ssh_dials_total", "counter", []string{"outcome"}, "Attempts to connect to a host: ok, auth, host_key, flood or unreachable."},
	{"fairlead_ssh_dial_seconds", "histogram", nil, "Time until a connection to a host was usable."},
	{"fairlead_event_lag_seconds", "histogram", nil, "Age of codex's events when the worker took them, by the clocks of host and worker."},
	{"fairlead_store_requests_total", "counter", []string{"outcome"}, "Requests to the store: ok, missing, taken, unreachable or failed."},
	{"fairlead_live_topics", "gauge", nil, "Sessions and commands held in memory for viewers."},
	{"fairlead_access_file_broken", "gauge", nil, "1 while the access file cannot be used and the last good one is in force. Only with authority: required."},
	{"fairlead_notification_rules_broken", "gauge", nil, "1 while the notification rules cannot be used and the last good ones are in force. Only with notifications."},
	{"fairlead_credential_broken", "gauge", []string{"credential"}, "1 while the newest content of a credential's files cannot be used and the former one is in force, by the key of the config; `models` is the config itself, whose section `models` is read again."},
	{"fairlead_left_to_newer", "counter", []string{"kind"}, "Tasks left to newer workers: workflow or activity."},
	{"fairlead_refused_signals", "counter", nil, "Signals that workflows refused, because they prove no right."},

	{"fairlead_model_requests_total", "counter", []string{"outcome"}, "Requests of codex to model gateways, by how they ended."},
	{"fairlead_model_retries_total", "counter", nil, "Attempts of model gateways beyond the first of each request."},
	{"fairlead_model_fallbacks_total", "counter", nil, "Requests to model gateways that did not go to the first provider of their seed."},
	{"fairlead_model_rebuilt_total", "counter", nil, "Answers of providers to which a model gateway added a part."},
	{"fairlead_model_tokens_total", "counter", []string{"direction", "estimated"}, "Tokens of requests to model gateways; estimated if the provider did not tell."},
	{"fairlead_model_money_total", "counter", []string{"seed", "tenant"}, "What requests to model gateways cost by the prices of the configuration, in its currency. A worker names the first 100 seeds and the first 100 tenants that it sees; the others are `_other`."},
	{"fairlead_egress_connections_total", "counter", []string{"outcome"}, "Connections that programs of sessions asked for through the worker, by how they ended."},
	{"fairlead_egress_bytes_total", "counter", []string{"direction"}, "Bytes that programs of sessions sent and received through the worker."},
	{"fairlead_model_first_byte_seconds", "histogram", nil, "From codex's request at a model gateway to the first byte for codex."},
	{"fairlead_model_total_seconds", "histogram", nil, "From codex's request at a model gateway to the end of the answer, of requests whose answer began."},

	{"fairlead_fleet_age_seconds", "gauge", nil, "Age of the numbers of the whole namespace that this worker gives."},
	{"fairlead_fleet_failures_total", "counter", nil, "Times when this worker could not learn all numbers of the namespace."},
	{"fairlead_sessions", "gauge", []string{"state"}, "Sessions that run, by state."},
	{"fairlead_approvals_open", "gauge", nil, "Open approvals."},
	{"fairlead_approval_oldest_seconds", "gauge", nil, "Age of the oldest open approval; 0 if there is none."},
	{"fairlead_pool_slots", "gauge", []string{"zone"}, "Slots of a zone's hosts."},
	{"fairlead_pool_slots_used", "gauge", []string{"zone"}, "Slots that sessions have."},
	{"fairlead_pool_waiting", "gauge", []string{"zone"}, "Sessions that wait for a slot."},
	{"fairlead_pool_waiting_oldest_seconds", "gauge", []string{"zone"}, "How long the session that waits longest has waited; 0 if none waits."},
	{"fairlead_hosts", "gauge", []string{"zone", "state"}, "Hosts of a zone, by state."},
	{"fairlead_hosts_unclean", "gauge", []string{"zone"}, "Ended sessions that may have left a credential on a host of the zone."},
	{"fairlead_seeds", "gauge", []string{"health"}, "Seeds by health."},
	{"fairlead_seeds_unsaved", "gauge", nil, "Logins that codex rotated and no worker has saved yet."},
	{"fairlead_seed_unsaved_oldest_seconds", "gauge", nil, "How long the first of them has been unsaved; 0 if none is."},
	{"fairlead_notices", "gauge", []string{"zone", "state"}, "Notices of a zone's outbox: those that are pending now, and all others since the outbox began."},
}

// defined returns the definition of a metric. It panics if there is none, so that no metric is
// without a line in the reference.
func defined(name string) definition {
	for _, d := range definitions {
		if d.name == name {
			return d
		}
	}
	panic("metric " + name + " is not defined")
}
