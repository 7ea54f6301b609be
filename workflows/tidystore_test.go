package workflows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/workflows/care"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

type tidied struct {
	*real
	dir string
	set *activities.Set
}

func newTidied(t *testing.T) *tidied {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + dir, Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	r := newReal(t)
	r.store = st
	namespace, err := batches.NamespaceID(t.Context(), r.c, client.DefaultNamespace)
	if err == nil {
		err = owned.Use(t.Context(), st, namespace)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.work()
	return &tidied{r, dir, activities.New(site.Deps{Temporal: r.c, Store: st, Namespace: namespace})}
}

// tidy makes everything in the store older by later, and deletes blobs that nobody has
// needed for long enough.
func (r *tidied) tidy(later time.Duration) (out batches.TidyStoreResult) {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(path, time.Time{}, info.ModTime().Add(-later))
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	for {
		run := r.tidyOnce()
		out.Deleted += run.Deleted
		out.Blobs += run.Blobs
		out.Bytes += run.Bytes
		out.Marked += run.Marked
		out.Records += run.Records
		if len(run.Problems) == 0 {
			return out
		}
		if !slices.ContainsFunc(run.Problems, isLate) || r.t.Context().Err() != nil {
			r.t.Fatalf("%+v", run)
		}
	}
}

func (r *tidied) tidyOnce() (out batches.TidyStoreResult) {
	r.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(r.set.Batch.TidyStore)
	v, err := env.ExecuteActivity(r.set.Batch.TidyStore)
	if err == nil {
		err = v.Get(&out)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// isLate reports whether a problem of TidyStore is that the server did not answer in time.
// What it concerns stays then until the next run.
func isLate(problem string) bool {
	return strings.Contains(problem, context.DeadlineExceeded.Error())
}

func (r *tidied) tidies() {
	r.t.Helper()
	for range 2 {
		r.tidy(owned.Unbegun)
	}
}

func (r *tidied) has(key string) bool {
	r.t.Helper()
	there, err := r.store.Exists(r.t.Context(), key)
	if err != nil {
		r.t.Fatal(err)
	}
	return there
}

// forgotten makes Temporal forget a workflow, as it does after the retention
// period.
func (r *tidied) forgotten(id string) {
	r.t.Helper()
	_, err := r.c.WorkflowService().DeleteWorkflowExecution(r.t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.until(id+" is forgotten", func() bool {
		_, err := r.c.DescribeWorkflowExecution(r.t.Context(), id, "")
		var gone *serviceerror.NotFound
		return errors.As(err, &gone)
	})
}

// The blobs that a batch or a schedule put into the store stay as long as Temporal knows
// the batch or schedule, even if it has ended, and as long as sessions exist that began
// with these blobs. Then the blobs are deleted.
func TestWhatBatchesAndSchedulesLeftInTheStoreGoesWithWhoeverNeedsIt(t *testing.T) {
	r := newTidied(t)
	id := r.batch("tidy", protocol.BatchSpec{Window: 2}, "hello", "long hello")
	end := r.batchEnd(id)
	if end.View.Done != 2 || len(end.State.Parts) == 0 {
		t.Fatalf("the batch ended with %+v", end)
	}
	page, results := end.Spec.Pages[0].Blob, end.State.Parts[0].Blob

	name := "tidy-" + protocol.KeyDigest(r.zone)[:12]
	first := r.kept(owned.Owner{Kind: owned.Schedule, ID: name}.NewFolder(), owned.Messages, "long good night")
	schedule, err := r.c.ScheduleClient().Create(t.Context(), client.ScheduleOptions{
		ID: protocol.ScheduleID(name), Spec: client.ScheduleSpec{Calendars: []client.ScheduleCalendarSpec{{Year: []client.ScheduleRange{{Start: 2099}}}}},
		Action: &client.ScheduleWorkflowAction{ID: protocol.ScheduleID(name), Workflow: protocol.TypeFire, TaskQueue: r.queue, Args: []any{schedule.FireInput{Schedule: name, Session: &session.Input{
			Options: session.Options{Zone: r.zone, Host: "web-1", Origin: protocol.OriginSchedule(name)}, First: &protocol.Message{ID: "first", Blob: first, Chars: 10},
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := scheduled{r.real, name, schedule}
	r.tidies()
	if !r.has(first) {
		t.Fatal("a schedule that has yet to begin something lost what it begins with")
	}
	s.trigger(0)
	fire, session := s.fired(1)
	r.becomes(session, protocol.Idle)
	r.tidies()
	if !r.has(page) || !r.has(results) || !r.has(first) {
		t.Fatal("what Temporal knows lost what can be asked of it")
	}

	// Temporal forgets the batch, but still knows one of its sessions. The schedule is
	// deleted, but the session that it started still runs.
	r.forgotten(protocol.BatchID(id))
	if err := schedule.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := r.tidy(owned.Unbegun); out.Marked != 1 || out.Deleted > 0 || !r.has(results) {
		t.Errorf("the first time that the batch is gone: %+v", out)
	}
	if out := r.tidy(owned.Apart); out.Deleted != 1 || out.Blobs != 1 || out.Bytes == 0 || r.has(results) || !r.has(page) || !r.has(first) {
		t.Errorf("a day later: %+v", out)
	}
	r.close(session)
	if _, err := s.ends(fire); err != nil {
		t.Errorf("the firing ended with %v", err)
	}
	r.tidies()
	if !r.has(page) || !r.has(first) {
		t.Error("what an ended session began with is gone while it can be asked")
	}
}

func TestAFiringWithoutWhatItBeginsWithSaysSo(t *testing.T) {
	r := newTidied(t)
	name := "late-" + protocol.KeyDigest(r.zone)[:12]
	none := owned.In(owned.Owner{Kind: owned.Schedule, ID: name}.NewFolder(), owned.Messages) + "/" + strings.Repeat("0", 64)
	id := protocol.ScheduleID(name) + "-2026-01-31T22:30:00Z"
	r.start(id, protocol.TypeFire, schedule.FireInput{Schedule: name, Session: &session.Input{Options: session.Options{Zone: r.zone, Host: "web-1"}, First: &protocol.Message{ID: "first", Blob: none, Chars: 10}}})
	err := r.c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "not kept in the store") {
		t.Errorf("it ended with %v", err)
	}
	var gone *serviceerror.NotFound
	if _, err := r.c.DescribeWorkflowExecution(t.Context(), protocol.SessionID(protocol.FiredID(name, time.Date(2026, 1, 31, 22, 30, 0, 0, time.UTC))), ""); !errors.As(err, &gone) {
		t.Errorf("a session was begun: %v", err)
	}
}

// Maintenance of the store reports what it did, and which entries stay because a question
// was not answered.
func TestMaintenanceTidiesTheStore(t *testing.T) {
	env := newEnvironment()
	env.RegisterActivityWithOptions(func() (batches.TidyStoreResult, error) {
		return batches.TidyStoreResult{Folders: 3, Deleted: 1, Blobs: 2, Bytes: 10, Problems: []string{"session.s.x stays: no answer"}}, nil
	}, activity.RegisterOptions{Name: "TidyStore"})
	env.ExecuteWorkflow(care.Maintenance, care.MaintenanceInput{Store: true})
	var out care.MaintenanceResult
	if err := env.GetWorkflowResult(&out); err != nil || out.Store == nil || out.Store.Blobs != 2 || len(out.Problems) != 1 || out.Snapshots != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRecordsOfToolCallsInstructionsAndCountsGoWithTheirSession(t *testing.T) {
	r := newTidied(t)
	gone, there := r.session("gone", session.Options{}), r.session("there", session.Options{})
	keys := func(id string) []string {
		return []string{"instructions/" + id, "modelbodies/" + id + "/29991103t120000.000000z-20261103t120000.000000z-abcdefgh", "toolcalls/" + id + "/call_1", "toolcalls/" + id + "/call_1.begun",
			"spend/session." + id + ".19ad4c1/all/w1.2026-11-30", "spend/session." + id + ".19ad4c1/all/fold.0000000001"}
	}
	for _, id := range []string{gone, there} {
		r.becomes(id, protocol.Idle)
		for _, key := range keys(id) {
			if err := r.store.Put(t.Context(), key, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		r.close(id)
	}
	r.tidies()
	for _, key := range append(keys(gone), keys(there)...) {
		if !r.has(key) {
			t.Errorf("%s is deleted, although Temporal knows the session", key)
		}
	}
	// A body whose time is over goes, although Temporal knows the session.
	over := "modelbodies/" + there + "/20261103t120000.000000z-20261102t120000.000000z-abcdefgh"
	if err := r.store.Put(t.Context(), over, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	r.forgotten(protocol.SessionID(gone))
	r.tidy(0) // marks
	if r.has(over) {
		t.Error("a body whose time is over is left")
	}
	if !r.has(keys(gone)[0]) {
		t.Error("the records are deleted when Temporal does not know the session for the first time")
	}
	out := r.tidy(owned.Apart)
	if out.Records != 6 {
		t.Errorf("%d records were deleted, want 6", out.Records)
	}
	for _, key := range keys(gone) {
		if r.has(key) {
			t.Errorf("%s is left", key)
		}
	}
	for _, key := range keys(there) {
		if !r.has(key) {
			t.Errorf("%s is deleted", key)
		}
	}
	if r.has("records-missed/" + gone) {
		t.Error("the mark of a session without records is left")
	}
}
