package workflows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// recorded returns the records that reached the store, which must be one whole chain up to
// head. Each is there once, however often it was written.
func recorded(t *testing.T, lines []string, head *protocol.AuditHead) []audit.Record {
	t.Helper()
	logs, fault := audit.Sort(lines)
	if fault != nil {
		t.Fatal(fault)
	}
	if len(logs) != 1 {
		t.Fatalf("there are %d chains, want 1", len(logs))
	}
	if fault := logs[0].Verify(head); fault != nil {
		t.Fatal(fault)
	}
	return logs[0].Records
}

// says returns what matters of records, a line each.
func says(records []audit.Record) (out []string) {
	for _, r := range records {
		signed := ""
		if r.Evidence.Signature != "" {
			signed = " signed"
		}
		out = append(out, fmt.Sprintf("%s %s by %q (%s%s) on %s", r.Outcome, r.Verb, r.Principal, r.Source, signed, r.Object))
	}
	return out
}

func (w *world) lastView() (v protocol.SessionView) {
	w.t.Helper()
	if err := w.GetWorkflowResult(&v); err != nil {
		w.t.Fatal(err)
	}
	return v
}

func sameLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the records are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestEachCommandOfASessionIsOnRecordWithItsEvidence(t *testing.T) {
	w := newWorld(t)
	w.guard(team, "ann", "bob")
	w.fake.pumps = append(w.fake.pumps, asks("make"), endsTurn("completed", ""))
	w.at(time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, w.by("ann", protocol.SignalMessage, hello("m1"))))
		w.SignalWorkflow(protocol.SignalInterrupt, protocol.Interrupt{By: "ann"})
		w.SignalWorkflow(protocol.SignalClose, w.by("mallory", protocol.SignalClose, protocol.Close{By: "ann"}))
		w.SignalWorkflow(protocol.SignalClose, w.by("bob", protocol.SignalClose, protocol.Close{}))
	})
	w.at(3*time.Second, func() {
		w.SignalWorkflow(protocol.SignalClose, w.byFor("ann", protocol.SessionID("s2"), protocol.SignalClose, protocol.Close{}))
		w.SignalWorkflow(protocol.SignalClose, w.asAt(w.Now().Add(-25*time.Hour), command.Signal, "ann", protocol.SignalClose, protocol.Close{}))
		accept := w.by("bob", protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: w.approval("s1.1").Digest, Outcome: "accept"})
		w.SignalWorkflow(protocol.SignalDecide, accept)
		w.SignalWorkflow(protocol.SignalDecide, accept)
	})
	w.whenTurn(1, "completed", func() {
		if got := query[protocol.AuditView](w, protocol.QueryAudit); got.Head == nil || got.Head.Seq < 6 {
			t.Errorf("the session tells %+v of its records", got)
		}
		w.takes(w.send(protocol.SignalClose, w.by("ann", protocol.SignalClose, protocol.Close{})))
	})
	w.startBy("ann", session.Options{Tenant: "blue"})
	w.verify()
	records := recorded(t, w.fake.records, w.lastView().Audit)
	sameLines(t, says(records),
		`accepted session.start by "ann" (ssh_key signed) on session/s1`,
		`accepted session.message by "ann" (ssh_key signed) on session/s1`,
		`refused session.interrupt by "" (unix) on session/s1`,
		`refused session.close by "" (ssh_key signed) on session/s1`,
		`refused session.close by "bob" (ssh_key signed) on session/s1`,
		`refused session.close by "" (ssh_key signed) on session/s1`,
		`refused session.close by "" (ssh_key signed) on session/s1`,
		`accepted approval.decide by "bob" (ssh_key signed) on session/s1`,
		`refused approval.decide by "bob" (ssh_key signed) on session/s1`,
		`accepted session.close by "ann" (ssh_key signed) on session/s1`)
	for i, why := range map[int]string{2: "it is not signed", 3: "its signature does not count", 4: "no binding", 5: "its signature does not count", 6: "25h0m0s ago", 8: "its nonce was used"} {
		if i < len(records) && !strings.Contains(records[i].Reason, why) {
			t.Errorf("record %d was refused, because %q, want %q", i, records[i].Reason, why)
		}
	}
	for _, r := range records {
		if (r.Outcome == audit.Refused) != (r.Reason != "") || len(r.Evidence.Args) != 64 {
			t.Errorf("record %d: reason %q, digest of arguments %q", r.Seq, r.Reason, r.Evidence.Args)
		}
		// The worker of this test writes no proofs, which carry the digest for accepted updates.
		update := r.Seq == 2 || r.Seq == 10
		if want := w.access; r.Access != want && !update || update && r.Access != "" {
			t.Errorf("record %d was judged by the access file %q, want %q", r.Seq, r.Access, want)
		}
	}
	if text := strings.Join(w.fake.records, "\n"); strings.Contains(text, "hello") {
		t.Errorf("a record has the text of a message: %s", text)
	}
	if n := len(w.fake.audited); n != 0 {
		t.Errorf("%d activities wrote nothing but records", n)
	}
}

func TestWhatAPolicyDecidesAndWhatBecomesOfALoginIsOnRecord(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := endsTurn("completed", "")(ctx, in)
		for i, outcome := range []protocol.Outcome{protocol.Accept, protocol.Decline} {
			out.Pump.Judged = append(out.Pump.Judged, protocol.Judged{N: i + 1, Turn: 1, Digest: "d", Outcome: outcome, AtMS: 1000, Ruling: protocol.Ruling{Rule: "reads", Reason: "why"}})
		}
		return out, err
	})
	w.at(time.Second, func() { w.takes(w.send(protocol.SignalMessage, hello("m1"))) })
	w.whenTurn(1, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Seed: "team"})
	records := recorded(t, w.fake.records, w.lastView().Audit)
	me := records[0].Principal
	if me == "" {
		t.Error("the user is unknown")
	}
	sameLines(t, says(records),
		fmt.Sprintf(`accepted session.start by %q (unix) on session/s1`, me),
		`accepted credential.lend by "" (workflow) on seed/team`,
		fmt.Sprintf(`accepted session.message by %q (unix) on session/s1`, me),
		`accepted approval.decide by "policy" (policy) on approval/s1.p1`,
		`refused approval.decide by "policy" (policy) on approval/s1.p2`,
		fmt.Sprintf(`accepted session.close by %q (unix) on session/s1`, me),
		`accepted credential.return by "" (workflow) on seed/team`)
	if r := records[3]; r.Reason != "accept, rule reads: why" || r.Evidence.Args != "d" {
		t.Errorf("the verdict is on record as %+v", r)
	}
}

func TestVerdictsThatDidNotReachTheWorkflowAreOnRecordAsLeftOut(t *testing.T) {
	w := newWorld(t)
	numbers := [][]int{{4, 5}, {6, 8}}
	for i := range numbers {
		w.fake.pumps = append(w.fake.pumps, func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
			out, err := endsTurn("completed", "")(ctx, in)
			for _, n := range numbers[i] {
				out.Pump.Judged = append(out.Pump.Judged, protocol.Judged{N: n, Turn: 1, Digest: "d", Outcome: protocol.Accept, AtMS: 1000})
			}
			return out, err
		})
	}
	w.at(time.Second, func() { w.takes(w.send(protocol.SignalMessage, hello("m1"))) })
	w.at(time.Minute, func() { w.takes(w.send(protocol.SignalMessage, hello("m2"))) })
	w.at(2*time.Minute, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	var got []string
	for _, r := range recorded(t, w.fake.records, w.lastView().Audit) {
		if r.Source == audit.Policy {
			got = append(got, r.Object)
		} else if r.Verb == audit.Omitted {
			got = append(got, r.Reason)
		}
	}
	const left = "verdicts %d to %d of policies did not reach the workflow: the transcript has them"
	sameLines(t, got, fmt.Sprintf(left, 1, 3), "approval/s1.p4", "approval/s1.p5", "approval/s1.p6", fmt.Sprintf(left, 7, 7), "approval/s1.p8")
}

func TestARestingSessionWritesItsRecordsByItself(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() {
		if len(w.fake.audited) != 0 {
			t.Error("records did not wait for an activity that runs anyway")
		}
		for i := range 3 {
			w.SignalWorkflow(protocol.SignalInterrupt, protocol.Interrupt{Reason: fmt.Sprint(i)}) // refused
		}
	})
	w.at(30*time.Minute, func() {
		if n := len(w.fake.audited); n != 1 || len(w.fake.audited[0].Lines) != 3 {
			t.Errorf("%d activities wrote records: %+v", n, w.fake.audited)
		}
		for i := range audit.Enough {
			w.SignalWorkflow(protocol.SignalInterrupt, protocol.Interrupt{Reason: fmt.Sprint(i)}) // refused
		}
	})
	w.at(31*time.Minute, func() {
		if n := len(w.fake.audited); n != 2 {
			t.Errorf("%d activities wrote records; many records are written at once", n)
		}
		if head := query[protocol.AuditView](w, protocol.QueryAudit).Head; head.Waiting != 0 {
			t.Errorf("%d records wait", head.Waiting)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
	recorded(t, w.fake.records, w.lastView().Audit)
}

func TestRecordsWaitWhileTheStoreIsAwayAndAreWrittenBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("audit", lostWorker())
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""), endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(2*time.Minute, func() {
		if v := query[protocol.AuditView](w, protocol.QueryAudit); v.Head == nil || v.Head.Waiting != 3 || len(v.Waiting) != 3 {
			t.Errorf("the session tells %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.at(5*time.Minute, func() {
		w.fake.mu.Lock()
		defer w.fake.mu.Unlock()
		delete(w.fake.fails, "audit")
	})
	w.start(session.Options{})
	records := recorded(t, w.fake.records, w.lastView().Audit)
	if len(records) != 4 || len(w.fake.records) != 4 {
		t.Errorf("%d records, written %d times", len(records), len(w.fake.records))
	}
}

func TestRecordsGoOnInTheNextRun(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("audit", lostWorker())
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(time.Minute, func() { w.SignalWorkflow(protocol.SignalInterrupt, protocol.Interrupt{}) })
	w.at(2*time.Minute, func() {
		w.fill()
		w.SignalWorkflow(protocol.SignalInterrupt, protocol.Interrupt{})
	})
	w.start(session.Options{})
	in := carriedAs[session.Input](t, w.continued())
	was := in.Carry.Audit.Seq
	if n := int64(len(in.Carry.Audit.Waiting)); n != was || n < 3 {
		t.Fatalf("%d records are carried over, of %d", n, was)
	}
	w = newWorld(t)
	w.at(time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.ExecuteWorkflow(protocol.TypeSession, in)
	if records := recorded(t, w.fake.records, w.lastView().Audit); int64(len(records)) != was+1 {
		t.Errorf("%d records, want %d", len(records), was+1)
	}
}

func TestARefusedStartIsOnRecord(t *testing.T) {
	w := newWorld(t)
	w.guard(team, "ann", "bob")
	w.startBy("bob", session.Options{Tenant: "blue"})
	sameLines(t, says(recorded(t, w.fake.records, nil)), `refused session.start by "bob" (ssh_key signed) on session/s1`)
}

// TestARefusedUpdateIsOnRecordWithItsWorker tries a session and a pool.
func TestARefusedUpdateIsOnRecordWithItsWorker(t *testing.T) {
	var got []audit.Record
	w := newWorld(t)
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 10 * time.Second, Interceptors: []interceptor.WorkerInterceptor{
		&beginning{tell: w.environment.begins}, authority.Interceptor(nil, authority.Options{Refused: func(r audit.Record) { got = append(got, r) }})}})
	w.at(time.Second, func() {
		w.refuses(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ann"}), protocol.RefusedState)
		w.refuses(w.send(protocol.UpdatePush, protocol.Push{ID: "p", Branch: "b"}), protocol.RefusedState)
	})
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalClose, protocol.Close{})) })
	w.start(session.Options{})
	sameLines(t, says(got), `refused session.interrupt by "" (unix) on session/s1`, `refused session.exec by "" (unix) on session/s1`)
	for _, r := range recorded(t, w.fake.records, w.lastView().Audit) {
		if r.Outcome == audit.Refused {
			t.Errorf("a refused update changed the session: %+v", r)
		}
	}
}
