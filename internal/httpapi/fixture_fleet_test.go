package httpapi_test

import (
	"context"
	"encoding/json"
	"time"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/protocol"
)

func host(name string) protocol.HostView {
	return protocol.HostView{Name: name, Address: "10.0.0.1", Port: 22, Slots: 4, Used: 1, State: "ready", Zone: "eu", CheckedAt: &noon, Holders: []string{"s1"},
		Health: &protocol.HostHealth{}, Spec: &protocol.HostSpec{Name: name, Address: "10.0.0.1"}}
}

func (f *fake) Hosts(_ context.Context, zone string) ([]protocol.HostView, error) {
	return []protocol.HostView{host("web-1"), host("web-2")}, f.took("", zone)
}

func (f *fake) Host(_ context.Context, zone, name string) (protocol.HostView, error) {
	return host(name), f.took("", zone)
}

func (f *fake) CheckHost(_ context.Context, zone, name string) (protocol.CheckHostResult, error) {
	return protocol.CheckHostResult{OK: true, Checks: []protocol.Check{{Name: "shell", OK: true, Required: true}}, Facts: map[string]string{"os": "linux"}, CheckedAt: noon}, f.took("", zone)
}

func (f *fake) SetHost(_ context.Context, key, zone string, in protocol.SetHost) (protocol.DrainView, error) {
	return protocol.DrainView{HostView: host(in.Name), Left: []protocol.Stayer{{Session: "s1", State: protocol.Running, Why: "turn 1 runs"}}}, f.took(key, in)
}

func pool(zone string) protocol.PoolView {
	return protocol.PoolView{Zone: zone, Slots: 8, Used: 1, Free: 7, Waiting: 1, Hosts: []protocol.PoolHost{{Name: "web-1", State: "ready", Slots: 4, Used: 1}},
		Queue: []protocol.PoolWaiter{{Position: 1, Session: "s2"}}, Tenants: []protocol.PoolTenant{}, Seeds: []protocol.PoolSeed{}}
}

func (f *fake) Pools(context.Context) ([]protocol.PoolView, error) {
	return []protocol.PoolView{pool("default"), pool("eu")}, f.took("", "pools")
}

func (f *fake) Pool(_ context.Context, zone string) (protocol.PoolView, error) {
	return pool(zone), f.took("", zone)
}

func seed(name string) protocol.SeedView {
	return protocol.SeedView{Name: name, Kind: "chatgpt", Generation: 2, State: protocol.SeedHeld, Health: protocol.Healthy, HeldBy: []string{"s1"}, Epoch: 3, Pools: []string{"logins"},
		Files: []protocol.SeedFile{{Path: "auth.json", Mode: "0600", Digest: digest}}, VerifiedAt: &noon, Holders: []protocol.SeedHolder{{Session: "s1", Epoch: 3, Host: "web-1", Since: noon}},
		Account: &protocol.SeedAccountView{}}
}

func (f *fake) Seeds(_ context.Context, pool string, may func(string) bool) (list []protocol.SeedView, _ error) {
	for _, name := range []string{"other", "team"} {
		if may(name) {
			list = append(list, seed(name))
		}
	}
	return list, f.took("", pool)
}

func (f *fake) Seed(_ context.Context, name string) (protocol.SeedView, error) {
	return seed(name), f.took("", name)
}

func batch(id string) protocol.BatchView {
	return protocol.BatchView{ID: id, State: protocol.BatchRunning, Total: 3, Done: 1, Failed: 1, Running: 1, Window: 20, CreatedAt: noon, ETA: &noon, Kinds: map[string]int{"network": 1},
		Failures: []protocol.BatchFailure{{Item: "web", Session: "s2", Kind: "network", Message: "gone", At: noon, Tries: 1}},
		Sessions: []protocol.BatchSession{{Item: "api", Session: "s1", Try: 1, Since: noon}}, Retry: &protocol.BatchRetry{Attempts: 2}}
}

func (f *fake) ListBatches(_ context.Context, schedule string, limit int, after []byte) ([]protocol.BatchView, []byte, error) {
	return []protocol.BatchView{batch("nightly")}, []byte("x"), f.took(string(after), schedule)
}

func (f *fake) Batch(_ context.Context, id string) (protocol.BatchShown, error) {
	return protocol.BatchShown{BatchView: batch(id), Waiting: []protocol.BatchWaiting{{Session: "s1", Approvals: 1}}}, f.took("", id)
}

func (f *fake) BatchResults(_ context.Context, id string, from, limit int) (list []protocol.BatchResult, _ error) {
	for n := from; n <= 3 && len(list) < limit; n++ {
		list = append(list, protocol.BatchResult{N: n, Item: "api", Session: "s1", Tries: 1, State: protocol.ItemCompleted, Status: "completed", FinalText: "done", StartedAt: noon, EndedAt: noon, Output: json.RawMessage(`{"ok":true}`)})
	}
	return list, f.took("", from)
}

func (f *fake) CancelBatch(_ context.Context, key, id string, in httpapi.Closing) (protocol.BatchView, error) {
	return batch(id), f.took(key, in)
}

func schedule(name string) protocol.ScheduleView {
	return protocol.ScheduleView{Name: name, When: []string{"cron 0 4 * * 6"}, TZ: "UTC", Overlap: "skip", Zone: "default", What: "run the tests", By: "ann", CreatedAt: noon,
		Recent: []protocol.ScheduleFiring{{ID: name + "-1", At: noon, State: "completed", Status: "completed"}}}
}

func (f *fake) Schedules(_ context.Context, may func(string) bool) (list []protocol.ScheduleView, _ error) {
	if v := schedule("weekly"); may(v.By) {
		list = append(list, v)
	}
	return list, f.took("", "schedules")
}

func (f *fake) Schedule(_ context.Context, name string) (protocol.ScheduleView, error) {
	return schedule(name), f.took("", name)
}

func (f *fake) PauseSchedule(_ context.Context, key, name, reason string) error {
	return f.took(key, "pause "+name+" "+reason)
}

func (f *fake) ResumeSchedule(_ context.Context, key, name string) error {
	return f.took(key, "resume "+name)
}

func (f *fake) TriggerSchedule(_ context.Context, key, name, overlap string) (string, error) {
	return name + "-2", f.took(key, overlap)
}

func (f *fake) DeleteSchedule(_ context.Context, name string, stop bool) (protocol.ScheduleDeleted, error) {
	return protocol.ScheduleDeleted{Name: name, Closing: 1}, f.took("", stop)
}

// chain has two records about session s1.
func chain() []string {
	var c audit.Chain
	c.Entity = "session/s1/run"
	for _, verb := range []string{"session.start", "session.message"} {
		c.Add(audit.Record{At: audit.TimeText(noon), Verb: verb, Object: "session/s1", Principal: "ann", Source: audit.Workflow, Outcome: audit.Refused, Reason: "no binding"})
	}
	return c.Waiting
}

func (f *fake) AuditRecords(_ context.Context, of audit.Filter) ([]audit.Log, error) {
	logs, fault := audit.Sort(chain())
	if fault != nil {
		return nil, fault
	}
	return logs, f.took("", of)
}

func (f *fake) VerifyAudit(_ context.Context, of audit.Filter, proofs bool) (audit.Verified, error) {
	v, _ := audit.Check(chain(), nil, nil, audit.Filter{}, nil)
	v.Faults = append(v.Faults, &audit.Fault{Entity: "worker/x", Seq: 3, Reason: "it is missing"})
	return v, f.took("", proofs)
}

func (f *fake) StartBatch(_ context.Context, key, id string, in httpapi.StartBatch) (httpapi.StartedBatch, error) {
	return httpapi.StartedBatch{ID: id, Total: len(in.Items)}, f.took(key, in)
}

func (f *fake) CreateSchedule(_ context.Context, key, name string, in httpapi.NewSchedule) (protocol.ScheduleView, error) {
	return schedule(name), f.took(key, in)
}

func (f *fake) PutHost(_ context.Context, key, zone, name string, in httpapi.NewHost) (protocol.HostView, error) {
	return host(name), f.took(key, in)
}

func (f *fake) RemoveHost(_ context.Context, zone string, in protocol.RemoveHost) (protocol.HostView, error) {
	return host(in.Name), f.took("", in)
}

func (f *fake) SetPool(_ context.Context, key, zone string, in protocol.SetPool) (protocol.PoolView, error) {
	return pool(zone), f.took(key, in)
}

func (f *fake) PausePool(_ context.Context, key, zone string, in protocol.PausePool) (protocol.PoolView, error) {
	return pool(zone), f.took(key, in)
}

func (f *fake) ChangeSeed(_ context.Context, key, name string, msg any) (protocol.SeedView, error) {
	return seed(name), f.took(key, msg)
}

func (f *fake) SetBatch(_ context.Context, key, id string, in httpapi.BatchSettings) (protocol.BatchView, error) {
	return batch(id), f.took(key, in)
}

func (f *fake) RetryBatch(_ context.Context, key, id string, in httpapi.RetryingBatch) (protocol.BatchView, error) {
	return batch(id), f.took(key, in)
}

func (f *fake) BackfillSchedule(_ context.Context, key, name string, in httpapi.Backfill) (httpapi.Backfilled, error) {
	return httpapi.Backfilled{Name: name, Times: []time.Time{noon}}, f.took(key, in)
}
