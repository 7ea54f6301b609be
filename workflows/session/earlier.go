package session

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// earlierDecision is a decision that was lost with codex's process: it never reached the
// process, or nobody saw its effect. If a later request has the same digest, the decision
// has this meaning:
//
//	never written, accepted or declined by a person → it serves, once, until its request would have expired
//	never written, cancelled                        → asked anew: it was to end a turn that has ended
//	never written, expired                          → asked anew: nobody had decided
//	never written, answered, granted in part        → asked anew: it was for the former request only
//	sent or acknowledged                            → asked anew: it may have had its effect
//	accepted for the session                        → the session answers, as for any such request
//	of high risk, and not declined                  → asked anew
//
// The new approval names the earlier one, which is forgotten when the same request was
// decided in a turn that was not cut off.
type earlierDecision struct {
	protocol.EarlierDecision
	Digest  string    `json:"digest"`
	Turn    int       `json:"turn"`
	Expired bool      `json:"expired,omitempty"` // nobody decided
	Until   time.Time `json:"until"`             // when the decision ceases to serve
}

func (e *earlierDecision) serves(now time.Time, offered []string) bool {
	return e.State == protocol.ApprovalDecided && !e.Expired && now.Before(e.Until) &&
		(e.Outcome == string(protocol.Decline) || e.Outcome == string(protocol.Accept) && slices.Contains(offered, e.Outcome))
}

func (s *approvalsPart) keepDecisions() {
	for _, a := range s.st.Approvals {
		if a.Turn != s.st.TurnN || a.Decision == nil {
			continue
		}
		state := protocol.ApprovalState(s.reached(a))
		switch state {
		case protocol.ApprovalDecided, protocol.ApprovalSent, protocol.ApprovalAcknowledged:
		default:
			continue // codex withdrew the question or refused the answer
		}
		s.st.keepEarlier(earlierDecision{
			EarlierDecision: withDecision(protocol.EarlierDecision{Approval: s.approvalID(a.N), Outcome: a.Decision.Outcome, By: a.Decision.By, At: a.Decision.At, State: state}, *a.Decision),
			Digest:          a.Request.Digest, Turn: a.Turn, Expired: a.State == protocol.ApprovalExpired, Until: a.Expires,
		})
	}
}

// maxEarlierGiven bounds kept answers and grants, in bytes.
const maxEarlierGiven = 1 << 10

// withDecision adds answers and grant if they are short.
func withDecision(e protocol.EarlierDecision, d protocol.Decision) protocol.EarlierDecision {
	if kit.Encoded(d.Answers)+len(d.Grant) <= maxEarlierGiven {
		e.Answers, e.Grant = d.Answers, d.Grant
	}
	return e
}

// keepEarlier keeps the newest decision for each digest. But within one turn, a decision
// that never reached codex does not replace one that may have had its effect.
func (st *State) keepEarlier(e earlierDecision) {
	if old := st.earlier(e.Digest); old != nil && old.Turn == e.Turn && old.State != protocol.ApprovalDecided && e.State == protocol.ApprovalDecided {
		return
	}
	st.forgetEarlier(e.Digest)
	st.Earlier = append(st.Earlier, e)
	if n := len(st.Earlier) - maxEarlier; n > 0 {
		st.Earlier = st.Earlier[n:]
	}
}

func (st *State) earlier(digest string) *earlierDecision {
	for i := range st.Earlier {
		if st.Earlier[i].Digest == digest {
			return &st.Earlier[i]
		}
	}
	return nil
}

func (st *State) forgetEarlier(digest string) {
	st.Earlier = slices.DeleteFunc(st.Earlier, func(e earlierDecision) bool { return e.Digest == digest })
}

// forgetDecided forgets earlier decisions on what was decided anew in a turn that ended by
// itself.
func (s *approvalsPart) forgetDecided() {
	for _, a := range s.st.Approvals {
		if a.Turn == s.st.TurnN && a.State == protocol.ApprovalAcknowledged {
			s.st.forgetEarlier(a.Request.Digest)
		}
	}
}

// answerFromBefore answers a new request from a decision for the session, or from a lost
// one.
func (s *approvalsPart) answerFromBefore(a *approvalState) {
	now := workflow.Now(s.ctx)
	e := s.st.earlier(a.Request.Digest)
	if e != nil {
		was := e.EarlierDecision
		a.Earlier = &was
	}
	// The session repeats an accept for the session, since codex forgets it when its
	// process ends.
	by, granted := s.st.Grants[a.Request.Digest]
	switch {
	case highRisk(a.Request) && (granted || e == nil || e.Outcome != string(protocol.Decline)):
		// Who accepts it proves each time who they are.
	case granted && slices.Contains(a.Request.Offered, "accept") && s.mayServe(by):
		d := protocol.Decision{Outcome: string(protocol.Accept), By: by, At: now, Scope: "session", Reason: "accepted earlier for this session"}
		s.decide(a, d)
		s.recordDecision(a.N, d, a.Request.Digest)
	case e != nil && e.serves(now, a.Request.Offered) && s.mayServe(e.By):
		d := protocol.Decision{Outcome: e.Outcome, By: e.By, At: now, Scope: "once", Reason: fmt.Sprintf("decided earlier as %s, never delivered", e.Approval)}
		s.st.forgetEarlier(a.Request.Digest)
		s.decide(a, d)
		s.recordDecision(a.N, d, a.Request.Digest)
	}
}
