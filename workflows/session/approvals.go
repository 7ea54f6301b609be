package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

type approvalsPart struct {
	*core
	bounds *boundsPart
	parsed []ruling.Ruling
	alarm  *kit.Alarm
}

type decisionState struct {
	Approvals []approvalState   `json:"approvals,omitempty"`
	ApprovalN int               `json:"approval_n"`
	Grants    map[string]string `json:"grants,omitempty"`  // by digest: who accepted the request
	Earlier   []earlierDecision `json:"earlier,omitempty"` // lost with a process; oldest first
	Told      bool              `json:"told,omitempty"`    // codex got secret answers, or will get some
	Forget    []string          `json:"forget,omitempty"`  // secret answers that codex will never get
}

func (s *approvalsPart) asked(r protocol.Request) {
	now := workflow.Now(s.ctx)
	s.st.ApprovalN++
	s.st.Approvals = append(s.st.Approvals, approvalState{
		N: s.st.ApprovalN, Turn: s.st.TurnN, Request: r,
		AskedAt: now, Expires: now.Add(s.expiry()), State: protocol.ApprovalOpen,
	})
	s.st.UpdatedAt = now
	s.noteDelivered(s.st.approval(s.st.ApprovalN))
	if s.st.Running && s.st.Interrupt != nil {
		s.void(s.st.approval(s.st.ApprovalN), "the turn was "+interruptedBy(s.st.Interrupt))
		return
	}
	s.answerFromBefore(s.st.approval(s.st.ApprovalN))
}

func (s *approvalsPart) decide(a *approvalState, d protocol.Decision) {
	if a.Request.Kind == protocol.KindBudget {
		s.bounds.moreDecided(a, d)
		return
	}
	a.Decision, a.Delivery, a.TakenBack = &d, decidedHere, nil
	if a.State == protocol.ApprovalOpen {
		a.State = protocol.ApprovalDecided
	}
	// ForSession is set only if askerDecides: codex then asks nobody again until its
	// process ends. The session remembers the grant in any case.
	if d.Scope == protocol.ScopeSession && d.Outcome == string(protocol.Accept) {
		if s.st.Grants == nil {
			s.st.Grants = map[string]string{}
		}
		s.st.Grants[a.Request.Digest] = d.By
	}
	s.track(protocol.SendID(s.id, a.N), string(conversation.SendDecision), a.Turn, decidedHere)
	s.st.Sends = append(s.st.Sends, pendingSend{Approval: a.N, Send: conversation.Send{
		ID: protocol.SendID(s.id, a.N), Kind: conversation.SendDecision,
		RPC: a.Request.RPC, Incarnation: a.Request.Incarnation, RequestKind: a.Request.Kind, Method: a.Request.Method,
		Outcome: protocol.Outcome(d.Outcome), Turn: a.Turn, Reason: d.Reason,
		ForSession: d.Scope == protocol.ScopeSession && slices.Contains(a.Request.Offered, protocol.AcceptForSession) && s.askerDecides(),
		Answers:    d.Answers, AnswersBlob: d.AnswersBlob, Grant: d.Grant, Verdict: s.verdict(a, d),
	}})
	s.st.Told = s.st.Told || d.AnswersBlob != ""
	s.note(conversation.Note{Type: protocol.EntryDecision, Turn: a.Turn,
		Text: fmt.Sprintf("%s %s", d.Outcome, s.approvalID(a.N)), Data: s.decisionData(a, d)})
}

// forget schedules the deletion of secret answers that codex will never get. Closing
// deletes those beyond the bound.
func (s *approvalsPart) forget(blob string) {
	if blob != "" && len(s.st.Forget) < keepApprovals {
		s.st.Forget = append(s.st.Forget, blob)
	}
}

// decisionData returns a decision's fields for the transcript. Of secret answers it has
// only the questions' ids.
func (s *approvalsPart) decisionData(a *approvalState, d protocol.Decision) map[string]string {
	data := map[string]string{"approval": s.approvalID(a.N), "outcome": d.Outcome, "by": d.By,
		"reason": d.Reason, "scope": d.Scope, "digest": a.Request.Digest}
	if d.Signed {
		data["signed"] = "true"
	}
	if d.StepUp != "" {
		data["step_up"] = d.StepUp
	}
	for _, more := range []struct{ name, text string }{
		{"answers", Shown(d.Answers)}, {"secret", strings.Join(d.Secret, ", ")}, {"grant", string(d.Grant)},
	} {
		if more.text != "" {
			data[more.name] = more.text
		}
	}
	if v := s.verdict(a, d); v != nil {
		data["file"], data["sha256"] = v.Name, v.SHA256
	}
	return data
}

// Shown returns answers as JSON for people to read, or "" if there are none.
func Shown(answers map[string][]string) string {
	if len(answers) == 0 {
		return ""
	}
	//workflowcheck:ignore // JSON is a pure function: map keys are sorted
	text, err := json.Marshal(answers)
	if err != nil {
		return ""
	}
	return string(text)
}

func (s *approvalsPart) expire() {
	now := workflow.Now(s.ctx)
	for _, a := range s.st.Open() {
		if now.Before(a.Expires) {
			continue
		}
		a.State = protocol.ApprovalExpired
		d := protocol.Decision{Outcome: string(protocol.Decline), By: expiredBy, At: now, Scope: "once",
			Reason: fmt.Sprintf("nobody decided within %s", a.Expires.Sub(a.AskedAt))}
		s.decide(a, d)
		s.recordDecision(a.N, d, a.Request.Digest)
	}
}

func (s *approvalsPart) setAlarm() {
	var next time.Time
	for _, a := range s.st.Open() {
		if next.IsZero() || a.Expires.Before(next) {
			next = a.Expires
		}
	}
	if !next.IsZero() {
		s.alarm.Set(next)
	}
}

func (s *approvalsPart) approvalView(a *approvalState) protocol.Approval {
	r := a.Request
	changes, questions := r.Changes, r.Questions
	if changes == nil {
		changes = []protocol.Change{}
	}
	if questions == nil {
		questions = []protocol.Question{}
	}
	v := protocol.Approval{
		ID: s.approvalID(a.N), Session: s.id, Turn: a.Turn, Agent: r.Agent, Kind: string(r.Kind), Summary: r.Summary,
		Command: r.Command, CWD: r.CWD, Reason: r.Reason, Changes: changes, Digest: r.Digest, Digested: r.Digested,
		Network: r.Network, GrantRoot: r.GrantRoot, Permissions: r.Permissions, Questions: questions, URL: r.URL, Server: r.Server, Tool: r.Tool, Args: r.Args, Amendment: r.Amendment,
		Offered: r.Offered, Truncated: r.Truncated, AskedAt: a.AskedAt.UTC(), ExpiresAt: a.Expires,
		State: a.State, Decision: a.Decision, Delivery: a.Delivery, VoidReason: a.Why, Earlier: a.Earlier,
	}
	s.signedView(a, &v)
	return v
}

func (s *approvalsPart) reached(a approvalState) string {
	for _, p := range s.st.Sends {
		if p.Approval == a.N {
			if p.maybe() {
				return SentThere
			}
			return decidedHere
		}
	}
	return a.Delivery
}

// void ends an approval for which codex no longer waits. An expired approval stays expired.
func (s *approvalsPart) void(a *approvalState, why string) {
	if a == nil || a.State == protocol.ApprovalExpired {
		return
	}
	a.State, a.Why = protocol.ApprovalVoid, kit.Cut(why, kit.MaxReason)
	id := s.approvalID(a.N)
	s.note(conversation.Note{Type: protocol.EntryState, Turn: a.Turn, Text: fmt.Sprintf("%s is void: %s", id, a.Why),
		Data: map[string]string{"approval": id, "reason": a.Why}})
}

func (s *approvalsPart) voidOpen(why string) {
	s.st.forgetCalls()
	for _, a := range s.st.Open() {
		if a.Request.Kind == protocol.KindBudget && s.bounds.pauses() && s.st.Close == nil {
			continue // codex does not ask it
		}
		s.void(a, why+" before it was answered")
	}
}

func (s *approvalsPart) withdrawn(rpc json.RawMessage, why string) {
	for _, a := range s.st.Open() {
		if a.Request.Incarnation == s.st.Incarnation && string(a.Request.RPC) == string(rpc) {
			s.void(a, why)
		}
	}
}

func (s *approvalsPart) approvalViews() []protocol.Approval {
	out := make([]protocol.Approval, 0, len(s.st.Approvals))
	for i := range s.st.Approvals {
		out = append(out, s.approvalView(&s.st.Approvals[i]))
	}
	out = append(out, s.judgedViews()...)
	slices.SortStableFunc(out, func(a, b protocol.Approval) int {
		if (a.State == protocol.ApprovalOpen) == (b.State == protocol.ApprovalOpen) {
			return 0
		}
		if a.State == protocol.ApprovalOpen {
			return -1
		}
		return 1
	})
	return out
}
