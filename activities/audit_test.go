package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/audits"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/store"
)

func auditLines(t *testing.T, st *store.Store, below string) (lines []string) {
	t.Helper()
	for line, err := range records.ReadAudit(context.Background(), st, below) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

func refusedSet(n int) audit.Record {
	return audit.Record{At: audit.TimeText(time.Unix(int64(n), 0)), Source: audit.Unix, Verb: "session.set", Object: fmt.Sprint("session/s", n), Outcome: audit.Refused, Reason: "no"}
}

// holds returns the records of the one chain among lines.
func holds(t *testing.T, lines []string) []audit.Record {
	t.Helper()
	logs, fault := audit.Sort(lines)
	if fault != nil || len(logs) != 1 {
		t.Fatalf("%d chains, %v", len(logs), fault)
	}
	if fault := logs[0].Verify(nil); fault != nil {
		t.Error(fault)
	}
	return logs[0].Records
}

func TestAuditRecordsAreWrittenOnceHoweverOftenTheyAreHandedOver(t *testing.T) {
	st, ctx := newStore(t), context.Background()
	c := audit.Chain{Entity: "session/s1/Run_1"} // a part that is no key as it is
	for n := range 3 {
		c.Add(refusedSet(n))
	}
	first := *c.Batch()
	c.Add(refusedSet(3))
	for _, b := range []audit.Batch{first, first, *c.Batch(), first} {
		if err := records.WriteAudit(ctx, st, b); err != nil {
			t.Fatal(err)
		}
	}
	if got := holds(t, auditLines(t, st, "session/s1")); len(got) != 4 {
		t.Errorf("%d records", len(got))
	}
	if n := len(auditLines(t, st, "session/s")); n != 0 {
		t.Errorf("session s has %d lines of session s1", n)
	}

	// Somebody changes what is there: that is found, and the records are there still.
	infos, err := st.List(ctx, records.AuditKeys(c.Entity))
	if err != nil || len(infos) != 2 {
		t.Fatalf("%d blobs, %v", len(infos), err)
	}
	changed := strings.ReplaceAll(strings.Join(first.Lines, "\n")+"\n", "refused", "accepted")
	if err := st.Put(ctx, infos[0].Key, []byte(changed)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := records.WriteAudit(ctx, st, first); !errors.Is(err, records.ErrAuditChanged) {
			t.Errorf("a changed blob: %v", err)
		}
	}
	lines := auditLines(t, st, "session/s1")
	for _, l := range first.Lines {
		if !slices.Contains(lines, l) {
			t.Errorf("%s is not in the store", l)
		}
	}
	if logs, _ := audit.Sort(lines); logs[0].Verify(nil) == nil {
		t.Error("changed records hold")
	}
}

func TestStrangersDoNotCrowdOutTheRefusalsOfPrincipals(t *testing.T) {
	st := newStore(t)
	r := audits.NewRefusals(st, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	for range 500 {
		r.RefusedStranger(audit.Record{Source: audit.Workflow, Verb: audit.APIRequest, Object: "/v1/audit", Outcome: audit.Refused, Reason: "no token"})
	}
	for n := range 20 {
		r.Refused(refusedSet(n))
	}
	cancel()
	<-done
	principals, strangers, omitted := 0, 0, 0
	for _, rec := range holds(t, auditLines(t, st, "worker")) {
		switch {
		case rec.Verb == audit.Omitted:
			omitted++
		case rec.Verb == audit.APIRequest:
			strangers++
		case rec.Outcome == audit.Refused:
			principals++
		}
	}
	if principals != 20 || strangers < 5 || strangers > 15 || omitted == 0 {
		t.Errorf("%d refusals of principals, %d of strangers, and %d counts are on record", principals, strangers, omitted)
	}
}

func TestAWorkerRecordsWhatItRefuses(t *testing.T) {
	st := newStore(t)
	r := audits.NewRefusals(st, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.Refused(refusedSet(0))
	for n := range 500 { // a flood
		r.Refused(refusedSet(n))
	}
	made := refusedSet(501)
	made.Outcome = audit.Accepted
	r.Refused(made) // whatever the flood
	cancel()
	<-done
	got := holds(t, auditLines(t, st, "worker"))
	last := got[len(got)-1]
	if len(got) < 100 || len(got) > 400 || got[0].Principal == "" || !strings.HasPrefix(got[0].Entity, "worker/") {
		t.Errorf("%d records, the first is %+v", len(got), got[0])
	}
	if !slices.ContainsFunc(got, func(r audit.Record) bool { return r.Outcome == audit.Accepted && r.Object == made.Object }) {
		t.Error("the flood keeps out what was accepted")
	}
	if left := 501 - (len(got) - 2); last.Verb != audit.Omitted || !strings.Contains(last.Reason, fmt.Sprintf("0 accepted and %d refused", left)) {
		t.Errorf("%d were left out, and the last record is %+v", left, last)
	}
}
