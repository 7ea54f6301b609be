package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// When codex's process dies, decisions die with it: those that never reached
// it, and those that did and whose effect nobody saw. When the same is asked
// again (the digest says so), an earlier decision means this:
//
//	never written, accepted or declined by a person → it serves, once, for as long as its question would have been open
//	never written, cancelled                        → asked anew: it was to end a turn that has ended
//	never written, expired                          → asked anew: nobody had decided
//	never written, answered, granted in part        → asked anew, and shown: what a person said was said to that question
//	sent or acknowledged                            → asked anew, since it may have had its effect
//	accepted for the session                        → answered by the session, as any such ask
//
// In every case the new approval names the earlier one. The memory of it goes
// once the same ask was decided within a turn that was not cut off.
type earlierDecision struct {
	EarlierDecision
	Digest  string    `json:"digest"`
	Turn    int       `json:"turn"`
	Expired bool      `json:"expired,omitempty"` // nobody decided
	Until   time.Time `json:"until"`             // how long it may serve
}

// serves says whether an earlier decision answers the same ask of today.
func (e *earlierDecision) serves(now time.Time, offered []string) bool {
	return e.State == ApprovalDecided && !e.Expired && now.Before(e.Until) &&
		(e.Outcome == string(activities.Decline) || e.Outcome == string(activities.Accept) && slices.Contains(offered, e.Outcome))
}

// keepDecisions remembers the decisions of a turn that is cut off.
func (s *session) keepDecisions() {
	for _, a := range s.st.Approvals {
		if a.Turn != s.st.TurnN || a.Decision == nil {
			continue
		}
		state := ApprovalState(s.reached(a))
		switch state {
		case ApprovalDecided, ApprovalSent, ApprovalAcknowledged:
		default:
			continue // codex withdrew the question, or would not have the answer
		}
		s.st.keepEarlier(earlierDecision{
			EarlierDecision: EarlierDecision{Approval: s.approvalID(a.N), Outcome: a.Decision.Outcome, By: a.Decision.By, At: a.Decision.At, State: state}.with(*a.Decision),
			Digest:          a.Request.Digest, Turn: a.Turn, Expired: a.State == ApprovalExpired, Until: a.Expires,
		})
	}
}

// maxEarlierGiven bounds what was given with one of them, for a person to see.
const maxEarlierGiven = 1 << 10

// with adds what was answered or granted, where that is short.
func (e EarlierDecision) with(d Decision) EarlierDecision {
	if encoded(d.Answers)+len(d.Grant) <= maxEarlierGiven {
		e.Answers, e.Grant = d.Answers, d.Grant
	}
	return e
}

// keepEarlier keeps one decision for each digest: the newest, but of one turn
// rather that which may have had its effect.
func (st *sessionState) keepEarlier(e earlierDecision) {
	if old := st.earlier(e.Digest); old != nil && old.Turn == e.Turn && old.State != ApprovalDecided && e.State == ApprovalDecided {
		return
	}
	st.forgetEarlier(e.Digest)
	st.Earlier = append(st.Earlier, e)
	if n := len(st.Earlier) - maxEarlier; n > 0 {
		st.Earlier = st.Earlier[n:]
	}
}

func (st *sessionState) earlier(digest string) *earlierDecision {
	for i := range st.Earlier {
		if st.Earlier[i].Digest == digest {
			return &st.Earlier[i]
		}
	}
	return nil
}

func (st *sessionState) forgetEarlier(digest string) {
	st.Earlier = slices.DeleteFunc(st.Earlier, func(e earlierDecision) bool { return e.Digest == digest })
}

// forgetDecided forgets what was decided anew in a turn that ended by itself.
func (s *session) forgetDecided() {
	for _, a := range s.st.Approvals {
		if a.Turn == s.st.TurnN && a.State == ApprovalAcknowledged {
			s.st.forgetEarlier(a.Request.Digest)
		}
	}
}

// answerFromBefore looks whether a new ask has its answer already: from one that
// holds for the session, or from one that a process of codex took with it.
func (s *session) answerFromBefore(a *approvalState) {
	now := workflow.Now(s.ctx)
	e := s.st.earlier(a.Request.Digest)
	if e != nil {
		was := e.EarlierDecision
		a.Earlier = &was
	}
	// What was accepted for the session is answered by us, also after codex
	// has forgotten it with its process.
	by, granted := s.st.Grants[a.Request.Digest]
	switch {
	case granted && slices.Contains(a.Request.Offered, "accept") && s.mayServe(by):
		s.decide(a, Decision{Outcome: string(activities.Accept), By: by, At: now, Scope: "session", Reason: "accepted earlier for this session"})
	case e != nil && e.serves(now, a.Request.Offered) && s.mayServe(e.By):
		d := Decision{Outcome: e.Outcome, By: e.By, At: now, Scope: "once", Reason: fmt.Sprintf("decided earlier as %s, never delivered", e.Approval)}
		s.st.forgetEarlier(a.Request.Digest)
		s.decide(a, d)
	}
}
