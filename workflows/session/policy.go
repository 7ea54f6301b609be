package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

// A session may have two policies: its own, and its seed's. Both judge what codex asks for,
// and the stricter ruling counts. The pump's worker judges (see activities/pumps/judge.go). The
// workflow applies what a policy says about people: how long they have to decide, and who
// must sign (policysigned.go).

// keepJudged bounds the number of requests answered by a policy that are kept; the newest
// are kept.
const keepJudged = 20

// policyState holds what the policies need to judge, and what they did.
type policyState struct {
	SeedPolicy   string            `json:"seed_policy,omitempty"`
	SeedAmend    bool              `json:"seed_amend,omitempty"`      // amendments may be offered
	PolicyBroken map[string]string `json:"policies_broken,omitempty"` // by owner: why the policy cannot be used, as a worker reported
	Judged       []protocol.Judged `json:"judged,omitempty"`          // the newest requests that policies answered
	Requesters   []string          `json:"requesters,omitempty"`      // who sent the running turn's messages
	// FormerRequesters are the requesters of the previous turn.
	FormerRequesters []string `json:"former_requesters,omitempty"`
}

// rulings returns the policies that apply now. It parses each text once.
func (s *approvalsPart) rulings() (all []ruling.Ruling) {
	for _, p := range []struct{ of, text string }{{ruling.OfSession, s.opt.Policy}, {ruling.OfSeed, s.st.SeedPolicy}} {
		if p.text == "" {
			continue
		}
		i := slices.IndexFunc(s.parsed, func(r ruling.Ruling) bool { return r.Of == p.of && r.Text == p.text })
		if i < 0 {
			s.parsed = append(slices.DeleteFunc(s.parsed, func(r ruling.Ruling) bool { return r.Of == p.of }), ruling.ReadRuling(p.of, p.text))
			i = len(s.parsed) - 1
		}
		all = append(all, s.parsed[i])
	}
	return all
}

func (s *approvalsPart) policyTexts() (texts []string) {
	for _, r := range s.rulings() {
		texts = append(texts, r.Text)
	}
	return texts
}

func (s *approvalsPart) judged(in *pumps.RunPumpInput) {
	for _, r := range s.rulings() {
		in.Policies = append(in.Policies, site.PolicyRef{Digest: r.Digest, Of: r.Of})
	}
	if len(in.Policies) == 0 {
		return
	}
	in.Pump.Policy = in.Policies[0].Digest
	in.Labels = s.st.Lease.Labels
	in.Requesters = s.st.Requesters
}

func (s *approvalsPart) heardOfPolicy(out pumps.RunPumpResult) {
	for _, of := range []string{ruling.OfSession, ruling.OfSeed} {
		if why := out.PolicyBroken[of]; why != "" && why != s.st.PolicyBroken[of] {
			s.note(conversation.Note{Type: protocol.EntryError, Text: why + ": everything is declined",
				Data: map[string]string{"kind": "policy"}})
		}
	}
	s.st.PolicyBroken = out.PolicyBroken
	s.st.Judged = append(s.st.Judged, out.Pump.Judged...)
	if n := len(s.st.Judged) - keepJudged; n > 0 {
		s.st.Judged = slices.Clone(s.st.Judged[n:])
	}
}

// seedPolicy sets the policy of a seed that was granted. Decisions made under
// another policy no longer apply.
func (s *approvalsPart) seedPolicy(text string) {
	if s.st.SeedPolicy != text && s.st.Begun {
		s.st.Grants, s.st.Earlier = nil, nil
	}
	s.st.SeedPolicy = text
}

// expiry returns how long people have to decide.
func (s *approvalsPart) expiry() time.Duration {
	var least time.Duration
	for _, r := range s.rulings() {
		if r.Expiry > 0 && (least == 0 || r.Expiry < least) {
			least = r.Expiry
		}
	}
	if least > 0 {
		return least
	}
	return s.opt.Expiry
}

// requestedBy records who sent a message that codex works on, because codex asks on behalf
// of the sender. A message that the session itself made changes nothing: it counts as sent
// by those who sent the messages before it.
func (s *approvalsPart) requestedBy(m protocol.Message, begins bool) {
	if strings.HasPrefix(m.ID, s.id+".") {
		return
	}
	if begins {
		s.st.FormerRequesters = s.st.Requesters
	}
	if begins && !s.st.Pump.Restless { // otherwise codex may still work on what they asked for
		s.st.Requesters = nil
	}
	if !slices.Contains(s.st.Requesters, m.By) && len(s.st.Requesters) < maxRequesters {
		s.st.Requesters = append(s.st.Requesters, m.By) // "" is an unknown sender
	}
}

// unknownAsks reports whether some sender on whose behalf codex asks is unknown.
func (s *approvalsPart) unknownAsks() bool {
	return len(s.st.Requesters) == 0 || slices.Contains(s.st.Requesters, "")
}

// maxRequesters bounds how many people may steer one turn if its requesters may not
// decide.
const maxRequesters = 100

// checkRequester refuses a message if requesters may not decide and either its
// sender is unknown or too many people steered the turn already.
func (s *approvalsPart) checkRequester(m protocol.Message) error {
	for _, r := range s.rulings() {
		switch {
		case r.Allowed() == nil || r.RequesterMayDecide:
		case m.By == "":
			return kit.Refuse(protocol.RefusedBadInput, `message %s: say who sends it ("by"): the policy of the %s keeps who asks from deciding`, m.ID, r.Of)
		case len(s.st.Requesters) >= maxRequesters && m.Mode == "steer" && !slices.Contains(s.st.Requesters, m.By):
			return kit.Refuse(protocol.RefusedState, "message %s: too many people steered this turn for the policy of the %s to tell them from who may decide", m.ID, r.Of)
		}
	}
	return nil
}

func (s *approvalsPart) policyViews() (own, seed *protocol.PolicyView) {
	for _, r := range s.rulings() {
		v := r.View(s.st.PolicyBroken[r.Of])
		if r.Of == ruling.OfSession {
			own = v
		} else {
			seed = v
		}
	}
	return own, seed
}

// judgedViews returns the newest requests that a policy answered, in the form of approvals.
// No person was asked to decide them.
func (s *approvalsPart) judgedViews() (all []protocol.Approval) {
	for _, j := range s.st.Judged {
		at := time.UnixMilli(j.AtMS).UTC()
		scope := "once"
		if j.ForSession {
			scope = "session"
		}
		ruling := j.Ruling
		all = append(all, protocol.Approval{
			ID: fmt.Sprintf("%s.p%d", s.id, j.N), Session: s.id, Turn: j.Turn, Kind: string(j.Kind), Summary: j.Summary,
			Changes: []protocol.Change{}, Offered: []string{}, Truncated: true, Digest: j.Digest, AskedAt: at, ExpiresAt: at,
			State: protocol.ApprovalDecided, Ruling: &ruling,
			Decision: &protocol.Decision{Outcome: string(j.Outcome), By: "policy", At: at, Reason: j.Reason, Scope: scope},
		})
	}
	return all
}
