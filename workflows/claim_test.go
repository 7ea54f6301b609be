package workflows

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

func (r *tidied) claim(in protocol.ClaimStart) (out protocol.StartClaimed) {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(r.set.Batch.ClaimStart)
	v, err := env.ExecuteActivity(r.set.Batch.ClaimStart, in)
	if err == nil {
		err = v.Get(&out)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func TestASignedStartIsClaimedByOneRun(t *testing.T) {
	r := newTidied(t)
	now := time.Now()
	first := protocol.ClaimStart{Workflow: protocol.SessionID("s1"), Run: "run-1", Nonce: "N", At: now}
	again, other, elsewhere := first, first, first
	again.Run, other.Nonce, elsewhere.Workflow = "run-2", "M", protocol.SessionID("s2")
	chain := audit.Chain{Entity: "session/s1/run-1"}
	chain.Add(audit.Record{At: audit.TimeText(now), Source: audit.Unix, Outcome: audit.Accepted})
	first.Audit = chain.Batch()
	again.Audit = first.Audit
	for range 2 { // an attempt may be repeated
		if out := r.claim(first); out.Refused != "" || out.Audited != 1 {
			t.Errorf("its own start: %+v", out)
		}
	}
	if out := r.claim(again); out.Audited != 0 {
		t.Errorf("a start that does not count is on record: %+v", out)
	}
	if all, err := r.store.List(t.Context(), records.AuditPrefix); err != nil || len(all) != 1 {
		t.Errorf("%d blobs of audit records, %v", len(all), err)
	}
	if out := r.claim(again); !strings.Contains(out.Refused, "run-1") || !strings.Contains(out.Refused, "counts once") {
		t.Errorf("a second run: %q", out.Refused)
	}
	for _, in := range []protocol.ClaimStart{other, elsewhere} {
		if out := r.claim(in); out.Refused != "" {
			t.Errorf("%+v is refused: %s", in, out.Refused)
		}
	}
	old := protocol.ClaimStart{Workflow: protocol.SessionID("s3"), Run: "run-3", Nonce: "O", At: now.Add(-5 * 24 * time.Hour)}
	r.claim(old)
	r.tidy(0)
	left, err := r.store.List(t.Context(), "starts/")
	if err != nil || len(left) != 3 {
		t.Errorf("%d claims are left of 3 that may count and one that is too old: %v", len(left), err)
	}
	if out := r.claim(again); out.Refused == "" {
		t.Error("a claim was forgotten that may be needed")
	}
}

func TestWhatIsSignedForAScheduleCountsOnlyForThatSchedule(t *testing.T) {
	r := newTidied(t)
	id := protocol.ScheduleID("claimed-" + protocol.KeyDigest(r.zone)[:12])
	begun := time.Now()
	h, err := r.c.ScheduleClient().Create(t.Context(), client.ScheduleOptions{ID: id, Paused: true,
		Spec:   client.ScheduleSpec{Calendars: []client.ScheduleCalendarSpec{{Year: []client.ScheduleRange{{Start: 2099}}}}},
		Action: &client.ScheduleWorkflowAction{ID: id, Workflow: protocol.TypeFire, TaskQueue: r.queue}})
	if err != nil {
		t.Fatal(err)
	}
	in := protocol.ClaimStart{Workflow: id + "-2099-01-01T00:00:00Z", Run: "run", Nonce: "N", At: begun, Schedule: id}
	for _, run := range []string{"run-1", "run-2"} { // each firing
		in.Run = run
		if out := r.claim(in); out.Refused != "" {
			t.Errorf("a firing is refused: %s", out.Refused)
		}
	}
	changed := in
	changed.Nonce = "of a later signature, with a time of then"
	if out := r.claim(changed); !strings.Contains(out.Refused, "not what it started first") {
		t.Errorf("a schedule whose input was changed: %q", out.Refused)
	}
	in.At = begun.Add(-time.Hour)
	if out := r.claim(in); !strings.Contains(out.Refused, "made it anew") {
		t.Errorf("a schedule with the input of one that is gone: %q", out.Refused)
	}
	if err := h.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	in.At = begun
	if out := r.claim(in); !strings.Contains(out.Refused, "does not exist any more") {
		t.Errorf("a firing of a schedule that is gone: %q", out.Refused)
	}
}

// The name of a host, and its labels, say something only of the machine that the inventory
// has under that name.
func TestATaskOnAHostIsJudgedByTheMachineOfTheInventory(t *testing.T) {
	r := newTidied(t)
	dev := protocol.HostSpec{Name: "dev-1", Address: "dev.example", User: "ops", HostKeys: []string{"SHA256:a"}}
	gate := protocol.HostSpec{Name: "gate", Address: "gate.example", HostKeys: []string{"SHA256:g"}}
	s := site.NewSite(site.Deps{Store: r.store})
	s.AskHosts = func(context.Context) ([]inquiry.HostNow, error) {
		return []inquiry.HostNow{{Name: "dev-1", Spec: &dev, Labels: map[string]string{"env": "dev"}}, {Name: "gate", Spec: &gate}}, nil
	}
	s.Judge = func(q site.Question) string {
		switch {
		case q.Principal == "root", !q.Unknown && q.Principal == "ann" && q.Labels["env"] == "dev", !q.Unknown && q.Principal == "bob" && q.Host == "dev-1":
			return ""
		}
		return "no binding"
	}
	r.set.Batch = batches.New(s)
	prod, viaProd, key := dev, dev, dev // under the name of dev
	prod.Address, key.Identity = "prod.example", "/root/.ssh/other"
	viaProd.Jump = &protocol.HostSpec{Name: "gate", Address: "prod.example", Identity: "/root/.ssh/other"}
	for _, c := range []struct {
		who, kind string
		host      protocol.HostSpec
		want      string
	}{
		{"ann", protocol.TypeExec, dev, ""},
		{"bob", protocol.TypeExec, dev, ""},
		{"eve", protocol.TypeExec, dev, "no binding"},
		{"ann", protocol.TypeExec, gate, "no binding"},
		{"ann", protocol.TypeExec, prod, "another machine"},
		{"bob", protocol.TypeExec, prod, "another machine"},
		{"bob", protocol.TypeExec, key, "another machine"},
		{"bob", protocol.TypeExec, viaProd, "another machine"},
		{"root", protocol.TypeExec, prod, "another machine"}, // it has no right to add hosts by this
		{"root", protocol.TypeExec, protocol.HostSpec{Name: "new", Address: "prod.example"}, "has no host new"},
		{"bob", protocol.TypeCheck, prod, "another machine"},
		{"bob", protocol.TypeProvision, prod, "another machine"},
		{"bob", protocol.TypeCapture, prod, "another machine"},
		{"bob", protocol.TypeLogin, prod, "another machine"},
		{"root", protocol.TypeCheck, prod, ""},
		{"bob", protocol.TypeScan, prod, ""}, // which does not log in
		{"bob", protocol.TypeScan, viaProd, "jump host gate"},
		{"eve", protocol.TypeScan, dev, "no binding"},
	} {
		in := protocol.ClaimStart{Workflow: "w", Run: "r", Nonce: c.who + c.kind + c.host.Address, At: time.Now(),
			Judge: &protocol.JudgeStart{Principal: c.who, Verb: "v", Type: c.kind, Host: c.host}}
		if out := r.claim(in); (out.Refused == "") != (c.want == "") || !strings.Contains(out.Refused, c.want) {
			t.Errorf("%s by %s on %+v: refused %q, want %q", c.kind, c.who, c.host, out.Refused, c.want)
		}
	}
}

// What the store has of a session stays its owner's when Temporal has forgotten it.
func TestAnIDOfASessionIsNotTakenOver(t *testing.T) {
	r := newTidied(t)
	n := 0
	claim := func(o protocol.SessionOwner) string {
		n++
		return r.claim(protocol.ClaimStart{Workflow: protocol.SessionID(o.Session), Run: fmt.Sprint("run-", n), Nonce: fmt.Sprint(n), At: time.Now(), Owns: &o}).Refused
	}
	ann := protocol.SessionOwner{Session: "s1", Owner: "ann", Tenant: "blue", Labels: map[string]string{"team": "blue"}}
	eve, red := ann, ann
	eve.Owner, red.Tenant = "eve", "red"
	for _, c := range []struct {
		who  protocol.SessionOwner
		want string
	}{{ann, ""}, {ann, ""}, {eve, "somebody else"}, {red, "another tenant"}} {
		if got := claim(c.who); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: refused %q, want %q", c.who, got, c.want)
		}
	}
	// A firing's session is started by a workflow and has no nonce.
	eve.Session = "s2"
	if err := r.store.Put(t.Context(), "transcripts/s2/000000000001-1.1.0", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if out := r.claim(protocol.ClaimStart{Workflow: protocol.SessionID("s2"), Run: "r", Owns: &eve}); !strings.Contains(out.Refused, "not on record whose") {
		t.Errorf("data of before there were owners: %q", out.Refused)
	}
}
