package workflows

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

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
	for range 2 { // an attempt may be repeated
		if out := r.claim(first); out.Refused != "" {
			t.Errorf("its own start is refused: %s", out.Refused)
		}
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
	if out := r.claim(in); !strings.Contains(out.Refused, "there is no") {
		t.Errorf("a firing of a schedule that is gone: %q", out.Refused)
	}
}
