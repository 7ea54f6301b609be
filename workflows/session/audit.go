package session

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Records wait in the carried state. Activities that run anyway carry them to the store. If
// none does, an activity of their own writes them: at once if they are many, after
// auditWithin if the session rests, and before the session ends.

// auditWithin is how long records wait while nothing else runs. A timer costs events, so
// it is set only while the session rests, and at most once in this time.
const auditWithin = 15 * time.Minute

type auditState struct {
	Audit audit.Chain `json:"audit,omitzero"`
	// Returning is the generation whose login the session is on record to give back.
	Returning int64 `json:"returning,omitempty"`
	// Verdicts is the number of the verdict of a policy that was put on record last.
	Verdicts int `json:"verdicts,omitempty"`
}

type auditPart struct {
	*core
	ending  *endingPart
	late    *kit.Alarm
	writing workflow.CancelFunc // nil if no activity of ours runs
	hushed  bool                // the run ends
	set     bool                // the alarm is set
	resting bool                // the session waits for something to do
}

// record adds a record. Sessions that began before v0.2 have none.
func (s *core) record(r audit.Record) {
	if !s.audited {
		return
	}
	if s.st.Audit.Entity == "" {
		info := workflow.GetInfo(s.ctx)
		s.st.Audit.Entity = info.WorkflowExecution.ID + "/" + info.FirstRunID
	}
	if r.At == "" {
		r.At = audit.TimeText(workflow.Now(s.ctx))
	}
	if r.Outcome == "" {
		r.Outcome = audit.Accepted
	}
	//workflowcheck:ignore // JSON and digests are pure functions
	s.st.Audit.Add(r)
}

// recordCommand adds the record of a command that was judged.
func (s *core) recordCommand(name, verb string, raw []byte, v authority.Verdict, refused error) {
	if !s.audited {
		return
	}
	//workflowcheck:ignore // JSON, digests and keys are read by pure functions
	r := audit.OfCommand(workflow.GetInfo(s.ctx).WorkflowExecution.ID, name, verb, raw, workflow.Now(s.ctx))
	if r.Principal, r.Access = v.Principal, v.JudgedBy(); !s.admission.Signed {
		r.Principal, r.Source = s.admission.User, audit.Unix
	}
	if refused != nil {
		r.Outcome, r.Reason = audit.Refused, refused.Error()
	}
	if name == protocol.SignalDecide {
		r.Decision = s.decided(raw)
	}
	s.record(r)
}

// decided returns what a command says that decides an approval; nil if it cannot be read. It
// has the approver's signature, if a policy asks for one, and what the person's passkey signed.
func (s *session) decided(raw []byte) *audit.Decision {
	//workflowcheck:ignore // JSON is read by pure functions
	plain, _, err := command.Plain(raw)
	if err != nil {
		return nil
	}
	d, err := kit.Decode[protocol.Decide](plain)
	if err != nil {
		return nil
	}
	out := &audit.Decision{Approval: d.Approval, Digest: d.Digest, Outcome: d.Outcome, Scope: d.Scope}
	i := slices.IndexFunc(s.st.Approvals, func(a approvalState) bool { return s.approvalID(a.N) == d.Approval })
	signed := d.Signature != "" && (len(s.approvals.signing()) > 0 || d.Touched)
	if i < 0 || !signed && d.Passkey == nil {
		return out
	}
	message, err := SignedMessage(s.id, s.st.Approvals[i].AskedAt, d)
	if err != nil {
		return out
	}
	out.Message, out.Passkey = string(message), d.Passkey
	if signed {
		out.Signature = d.Signature
	}
	return out
}

// recordVerdicts adds the records of what policies decided.
func (s *core) recordVerdicts(all []protocol.Judged) {
	if !s.audited {
		return
	}
	if n := len(s.st.Judged); s.st.Verdicts == 0 && n > 0 {
		s.st.Verdicts = s.st.Judged[n-1].N
	}
	for _, j := range all {
		// A session that goes on from another may go on with its numbers.
		if s.st.Verdicts+1 < j.N && (s.st.Verdicts > 0 || s.st.ForkOf == "" && s.opt.From == "") {
			s.record(audit.Record{Source: audit.Workflow, Verb: audit.Omitted, Object: protocol.SessionID(s.id),
				Reason: fmt.Sprintf("verdicts %d to %d of policies did not reach the workflow: the transcript has them", s.st.Verdicts+1, j.N-1)})
		}
		s.st.Verdicts = j.N
		r := audit.Record{At: audit.TimeText(time.UnixMilli(j.AtMS)), Principal: "policy", Source: audit.Policy, Verb: "approval.decide",
			Object: fmt.Sprintf("approval/%s.p%d", s.id, j.N), Reason: kit.Cut(verdictReason(j), kit.MaxReason), Evidence: audit.Evidence{Args: j.Digest}}
		if j.Outcome != protocol.Accept {
			r.Outcome = audit.Refused
		}
		s.record(r)
	}
}

func verdictReason(j protocol.Judged) string {
	text := string(j.Outcome)
	if j.Rule != "" {
		text += ", rule " + j.Rule
	}
	if j.Reason != "" {
		text += ": " + j.Reason
	}
	return text
}

// recordDecision adds the record of a decision that no command brought.
func (s *core) recordDecision(n int, d protocol.Decision, digest string) {
	r := audit.Record{Principal: d.By, Source: audit.Workflow, Verb: "approval.decide", Object: "approval/" + s.approvalID(n),
		Reason: d.Outcome + ": " + d.Reason, Evidence: audit.Evidence{Args: digest}}
	if d.Outcome != string(protocol.Accept) {
		r.Outcome = audit.Refused
	}
	s.record(r)
}

// recordSeed adds the record of a credential event.
func (s *core) recordSeed(verb, why string) {
	if s.st.Seed == nil {
		return
	}
	s.record(audit.Record{Principal: s.opt.By, Source: audit.Workflow, Verb: verb, Object: "seed/" + s.st.Seed.Name,
		Reason: fmt.Sprintf("%s, generation %d, on host %s", why, s.st.Seed.Generation, s.hostName())})
}

// recordReturn records that the session gives its seed back, once for each lease and before
// the activity that removes the login.
func (s *core) recordReturn(why string) {
	if s.st.SeedHeld && s.st.Returning != s.st.Generation {
		s.st.Returning = s.st.Generation
		s.recordSeed(audit.CredentialReturn, why)
	}
}

func (s *core) auditView() protocol.AuditView {
	return protocol.AuditView{Head: s.st.Audit.Newest(), Waiting: s.st.Audit.Waiting}
}

// keepAudit writes records that no other activity carries.
func (s *auditPart) keepAudit(ctx workflow.Context) {
	for {
		due := func() bool { return s.late.Due() || s.st.Audit.Due() && !s.carried() }
		err := workflow.Await(ctx, func() bool { return s.hushed || due() || s.mustSet() })
		if err != nil || s.hushed {
			return
		}
		if !due() {
			s.late.Set(workflow.Now(s.ctx).Add(auditWithin))
			s.set = true
			continue
		}
		if s.late.Off() {
			s.set = false
		}
		b := s.st.Audit.Batch()
		if b == nil {
			continue
		}
		wctx, cancel := workflow.WithCancel(kit.UntilDone(ctx, "write audit records"))
		s.writing = cancel
		out, err := kit.Do(wctx, auditJobs.WriteAudit, *b)
		s.writing = nil
		cancel()
		s.st.Audit.Wrote(out.Seq)
		if err != nil && !s.hushed { // waiting cannot mend it, but another worker may
			s.log.Error("audit records not written", "error", err)
			_, err = workflow.AwaitWithTimeout(ctx, auditWithin, func() bool { return s.hushed })
		}
		if err != nil || s.hushed {
			return
		}
	}
}

// carried reports whether all records that wait are with an activity that runs.
func (s *auditPart) carried() bool { return s.handed == s.st.Audit.Seq }

// mustSet reports whether records wait while the session rests. If a record makes
// the session do something, an activity of that carries the record.
func (s *auditPart) mustSet() bool {
	return s.resting && !s.set && len(s.st.Audit.Waiting) > 0 && (s.still(stepWait) || s.still(stepRest))
}

// rest says that the session waits for something to do, until done is called.
func (s *auditPart) rest() (done func()) {
	s.resting = true
	return func() { s.resting = false }
}

// hushAudit ends an activity before the run ends. The next run writes its records.
func (s *auditPart) hushAudit() error {
	s.hushed = true
	if s.writing != nil {
		s.writing()
	}
	return s.await(func() bool { return s.writing == nil })
}

// finishAudit writes all records before the session ends.
func (s *auditPart) finishAudit() {
	for !s.st.Audit.Empty() {
		if s.hushAudit() != nil {
			return
		}
		s.st.Audit.Settle()
		b := s.st.Audit.Batch()
		err := s.ending.keepWriting("write the audit record", func(ctx workflow.Context, leave func() bool) error {
			out, err := doingUnless(s.core, ctx, leave, auditJobs.WriteAudit, *b)
			if err == nil {
				s.st.Audit.Wrote(out.Seq)
			}
			return err
		})
		if err != nil {
			s.log.Error("last audit records not written", "error", err)
			return
		}
	}
}

// carry returns the records for an activity that runs anyway.
func (s *core) carry() *audit.Batch {
	s.handed = s.st.Audit.Seq
	return s.st.Audit.Batch()
}

// carriedTo takes an activity's report.
func (s *core) carriedTo(seq int64) {
	s.handed = 0
	s.st.Audit.Wrote(seq)
}

// startOf returns the record of a start.
func startOf(ctx workflow.Context, in Input, a admission, refused error) audit.Record {
	//workflowcheck:ignore // JSON, digests and keys are read by pure functions
	raw, err := in.signed()
	if err != nil && refused == nil {
		refused = err // not reached: the input came as JSON
	}
	//workflowcheck:ignore // as above
	r := audit.OfCommand(workflow.GetInfo(ctx).WorkflowExecution.ID, protocol.TypeSession, string(access.SessionStart), raw, workflow.Now(ctx))
	if r.Principal, r.Access = a.Start.Principal, a.Start.JudgedBy(); !a.Signed {
		r.Principal, r.Source = a.User, audit.Unix
	}
	if r.Outcome = audit.Accepted; refused != nil {
		r.Outcome, r.Reason = audit.Refused, refused.Error()
	}
	return r
}

// refusalWithin is how long the workflow of a refused start tries to put that on record.
const refusalWithin = 10 * time.Minute

// recordRefusedStart writes the record of a session that does not begin.
func recordRefusedStart(ctx workflow.Context, r audit.Record) {
	info := workflow.GetInfo(ctx)
	c := audit.Chain{Entity: info.WorkflowExecution.ID + "/" + info.FirstRunID}
	//workflowcheck:ignore // JSON and digests are pure functions
	c.Add(r)
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithScheduleToCloseTimeout(kit.UntilDone(ctx, "write the audit record"), refusalWithin)
	if _, err := kit.Do(ctx, auditJobs.WriteAudit, *c.Batch()); err != nil {
		workflow.GetLogger(ctx).Error("a refused start is not on record", "error", err)
	}
}
