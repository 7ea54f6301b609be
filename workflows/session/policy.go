package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

// Of the policies of the session and of its seed, the stricter ruling counts. The pump's
// worker judges requests (activities/pumps/judge.go). The workflow applies how long people
// have to decide, and who must sign (policysigned.go).

// keepJudged bounds the kept requests that policies answered.
const keepJudged = 20

type policyState struct {
	SeedPolicy string            `json:"seed_policy,omitempty"`
	SeedAmend  bool              `json:"seed_amend,omitempty"`  // amendments may be offered
	SeedBounds *protocol.Ceiling `json:"seed_bounds,omitempty"` // of the seed's sessions
	SeedWay    string            `json:"seed_way,omitempty"`    // the seed's default of credentials
	// ByDefault is how a session that does not say it gets the credential.
	ByDefault    *ChosenCredentials `json:"by_default,omitempty"`
	PolicyBroken map[string]string  `json:"policies_broken,omitempty"` // by owner: why it cannot be used
	Judged       []protocol.Judged  `json:"judged,omitempty"`
	Requesters   []string           `json:"requesters,omitempty"` // who sent the running turn's messages
	// FormerRequesters sent those of the previous turn.
	FormerRequesters []string `json:"former_requesters,omitempty"`
	// TokenOwners are the owners of those requesters that are API tokens; "" is an unknown
	// one.
	TokenOwners map[string]string `json:"token_owners,omitempty"`
}

// rulings returns the present policies. It parses each text once.
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
	s.recordVerdicts(out.Pump.Judged)
	s.st.Judged = append(s.st.Judged, out.Pump.Judged...)
	if n := len(s.st.Judged) - keepJudged; n > 0 {
		s.st.Judged = slices.Clone(s.st.Judged[n:])
	}
}

// seedPolicy sets a granted seed's policy. Decisions under another policy no longer apply.
func (s *approvalsPart) seedPolicy(text string) {
	if s.st.SeedPolicy != text && s.st.Begun {
		s.st.Grants, s.st.Earlier = nil, nil
	}
	s.st.SeedPolicy = text
}

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

// requestedBy records the sender of a message, on whose behalf codex asks. A message of the
// session's own counts as sent by the earlier senders.
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
		s.lookBehind(m.By)
	}
}

// lookBehind records whose a requester is, if it is an API token: who made a token may not
// decide on what they asked for with it.
func (s *approvalsPart) lookBehind(by string) {
	for _, who := range workflow.DeterministicKeys(s.st.TokenOwners) {
		if !slices.Contains(s.st.Requesters, who) && !slices.Contains(s.st.FormerRequesters, who) {
			delete(s.st.TokenOwners, who)
		}
	}
	if _, is := access.TokenName(by); !is || !s.admission.Signed || authority.Version(s.ctx) < 2 {
		return
	}
	owner := ""
	err := workflow.SideEffect(s.ctx, func(workflow.Context) any {
		if k := authority.Of(s.ctx); k != nil {
			return k.Behind(by)
		}
		return ""
	}).Get(&owner)
	if err != nil {
		panic(err) // no worker of ours recorded it: without the owner, they could decide what they asked for
	}
	if s.st.TokenOwners == nil {
		s.st.TokenOwners = map[string]string{}
	}
	s.st.TokenOwners[by] = owner
}

// isBehind reports whether a signer may be a requester, or the owner of the token that is one.
func (s *approvalsPart) isBehind(r ruling.Ruling, who, requester string) bool {
	owner, is := s.st.TokenOwners[requester]
	return r.IsThem(who, requester) || is && r.IsThem(who, owner)
}

// unknownAsks reports whether it is not known who asks.
func (s *approvalsPart) unknownAsks() bool {
	return len(s.st.Requesters) == 0 || slices.ContainsFunc(s.st.Requesters, func(by string) bool {
		owner, is := s.st.TokenOwners[by]
		return by == "" || is && owner == ""
	})
}

// maxRequesters bounds how many people may steer one turn if requesters may not decide.
const maxRequesters = 100

// checkRequester refuses unknown senders, and too many senders, if requesters may not
// decide.
func (s *approvalsPart) checkRequester(m protocol.Message) error {
	for _, r := range s.rulings() {
		switch {
		case r.Allowed() == nil || r.RequesterMayDecide:
		case m.By == "":
			return kit.Refuse(protocol.RefusedBadInput, `message %s: the field "by" (the sender) is missing: the policy of the %s does not let the sender decide on the turn's approvals`, m.ID, r.Of)
		case len(s.st.Requesters) >= maxRequesters && m.Mode == "steer" && !slices.Contains(s.st.Requesters, m.By):
			return kit.Refuse(protocol.RefusedState, "message %s: %d people have already sent messages to this turn, which is the limit under the policy of the %s (senders may not decide): send it as the next turn", m.ID, maxRequesters, r.Of)
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

// judgedViews returns as approvals what policies answered. No person was asked.
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
