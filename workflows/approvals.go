package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// asked makes an approval of a request that codex waits for.
func (s *session) asked(r activities.Request) {
	now := workflow.Now(s.ctx)
	s.st.ApprovalN++
	s.st.Approvals = append(s.st.Approvals, approvalState{
		N: s.st.ApprovalN, Turn: s.st.TurnN, Request: r,
		AskedAt: now, Expires: now.Add(s.opt.Expiry), State: ApprovalOpen,
	})
	s.st.UpdatedAt = now
	s.answerFromBefore(s.st.approval(s.st.ApprovalN))
}

// decide records a decision and queues it for codex.
func (s *session) decide(a *approvalState, d Decision) {
	a.Decision, a.Delivery = &d, decidedHere
	if a.State == ApprovalOpen {
		a.State = ApprovalDecided
	}
	if d.Scope == "session" && d.Outcome == string(activities.Accept) {
		if s.st.Grants == nil {
			s.st.Grants = map[string]string{}
		}
		s.st.Grants[a.Request.Digest] = d.By
	}
	s.track(SendID(s.id, a.N), string(activities.SendDecision), a.Turn, decidedHere)
	s.st.Sends = append(s.st.Sends, pendingSend{Approval: a.N, Send: activities.Send{
		ID: SendID(s.id, a.N), Kind: activities.SendDecision,
		RPC: a.Request.RPC, Incarnation: a.Request.Incarnation, RequestKind: a.Request.Kind,
		Outcome: activities.Outcome(d.Outcome), Turn: a.Turn,
		ForSession: d.Scope == "session" && slices.Contains(a.Request.Offered, "accept_for_session"),
	}})
	s.note(activities.Note{Type: activities.EntryDecision, Turn: a.Turn,
		Text: fmt.Sprintf("%s %s", d.Outcome, s.approvalID(a.N)),
		Data: map[string]string{"approval": s.approvalID(a.N), "outcome": d.Outcome, "by": d.By,
			"reason": d.Reason, "scope": d.Scope, "digest": a.Request.Digest}})
}

// expire declines what nobody decided in time.
func (s *session) expire() {
	now := workflow.Now(s.ctx)
	for _, a := range s.st.open() {
		if now.Before(a.Expires) {
			continue
		}
		a.State = ApprovalExpired
		s.decide(a, Decision{Outcome: string(activities.Decline), By: "expiry", At: now, Scope: "once",
			Reason: fmt.Sprintf("nobody decided within %s", s.opt.Expiry)})
	}
}

// setAlarm sets the alarm for the approval that expires next.
func (s *session) setAlarm() {
	var next time.Time
	for _, a := range s.st.open() {
		if next.IsZero() || a.Expires.Before(next) {
			next = a.Expires
		}
	}
	if !next.IsZero() {
		s.alarm.set(next)
	}
}

func (s *session) approvalID(n int) string { return s.id + "." + strconv.Itoa(n) }

// checkDecide says why a decision cannot be taken; nil when it can.
func (s *session) checkDecide(d Decide) (*approvalState, error) {
	name, ok := strings.CutPrefix(d.Approval, s.id+".")
	n, err := strconv.Atoi(name)
	if !ok || err != nil || n < 1 {
		return nil, refuse(RefusedState, "decide %.100q: it is no approval of session %s (its approvals are %s.1, %s.2, …)", d.Approval, s.id, s.id, s.id)
	}
	a := s.st.approval(n)
	switch {
	case a == nil && n > s.st.ApprovalN:
		return nil, refuse(RefusedNotFound, "decide %s: session %s has asked only %d so far", d.Approval, s.id, s.st.ApprovalN)
	case a == nil:
		return nil, refuse(RefusedState, "decide %s: decided long ago (see the transcript)", d.Approval)
	case d.Digest == "":
		return nil, refuse(RefusedBadInput, "decide %s: the digest of what was asked is missing (`ctl approval show %s` has it)", d.Approval, d.Approval)
	case d.Digest != a.Request.Digest:
		return nil, refuse(RefusedState, "decide %s: the digest is not that of what was asked (%s…): look at it again", d.Approval, a.Request.Digest[:min(12, len(a.Request.Digest))])
	case a.State == ApprovalVoid:
		return nil, refuse(RefusedState, "decide %s: codex does not ask for this any more (%s)", d.Approval, a.Why)
	case a.State == ApprovalExpired:
		return nil, refuse(RefusedState, "decide %s: it expired at %s and was declined", d.Approval, a.Expires.UTC().Format(time.RFC3339))
	case a.State == ApprovalOpen && !workflow.Now(s.ctx).Before(a.Expires): // its timer is a little late
		return nil, refuse(RefusedState, "decide %s: it expired at %s", d.Approval, a.Expires.UTC().Format(time.RFC3339))
	case a.State == ApprovalOpen && s.ends() != nil:
		return nil, s.ends()
	case a.State != ApprovalOpen:
		return nil, refuse(RefusedState, "decide %s: already decided: %s by %s", d.Approval, a.Decision.Outcome, a.Decision.By)
	}
	if err := short([]text{{"reason", d.Reason, maxReason}, {"by", d.By, maxWord}}); err != nil {
		return nil, refuse(RefusedBadInput, "decide %s: %v", d.Approval, err)
	}
	if given(d.Answers) || given(d.Grant) {
		return nil, refuse(RefusedBadInput, "decide %s: a %s takes neither answers nor a grant", d.Approval, a.Request.Kind)
	}
	switch d.Outcome {
	case "accept", "decline", "cancel":
	case "answer", "grant":
		return nil, refuse(RefusedBadInput, "decide %s: a %s is not answered with %q", d.Approval, a.Request.Kind, d.Outcome)
	default:
		return nil, refuse(RefusedBadInput, "decide %s: outcome %.100q is none of accept, decline, cancel", d.Approval, d.Outcome)
	}
	word := d.Outcome
	switch d.Scope {
	case "", "once":
	case "session":
		if d.Outcome != "accept" {
			return nil, refuse(RefusedBadInput, "decide %s: only an accept can hold for the session", d.Approval)
		}
		if _, known := s.st.Grants[a.Request.Digest]; !known && len(s.st.Grants) >= maxGrants {
			return nil, refuse(RefusedState, "decide %s: session %s keeps %d accepted asks already: accept it once", d.Approval, s.id, maxGrants)
		}
		word = "accept_for_session"
	default:
		return nil, refuse(RefusedBadInput, "decide %s: scope %.100q is none of once, session", d.Approval, d.Scope)
	}
	if word != "decline" && !slices.Contains(a.Request.Offered, word) {
		return nil, refuse(RefusedState, "decide %s: %s is not offered (%s are)", d.Approval, word, strings.Join(a.Request.Offered, ", "))
	}
	return a, nil
}

func given(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "{}":
		return false
	}
	return true
}

func (s *session) takeDecide(d Decide) (Approval, error) {
	a, err := s.checkDecide(d)
	if err != nil {
		return Approval{}, err
	}
	scope := d.Scope
	if scope == "" {
		scope = "once"
	}
	s.decide(a, Decision{Outcome: d.Outcome, By: d.By, At: workflow.Now(s.ctx), Reason: d.Reason, Scope: scope})
	return s.approvalView(a), nil
}

func (s *session) approvalView(a *approvalState) Approval {
	r := a.Request
	changes := r.Changes
	if changes == nil {
		changes = []activities.Change{}
	}
	return Approval{
		ID: s.approvalID(a.N), Session: s.id, Turn: a.Turn, Kind: string(r.Kind), Summary: r.Summary,
		Command: r.Command, CWD: r.CWD, Reason: r.Reason, Changes: changes, Digest: r.Digest,
		Offered: r.Offered, Truncated: r.Truncated, AskedAt: a.AskedAt, ExpiresAt: a.Expires,
		State: a.State, Decision: a.Decision, Delivery: a.Delivery, VoidReason: a.Why, Earlier: a.Earlier,
	}
}
