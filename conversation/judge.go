package conversation

import (
	"fmt"
	"slices"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A policy judges requests as they are folded, before anybody learns of them. Its answer is
// a send of the pump's own and stays in PumpState until codex resolves the request, so that
// a later pump can give it. A pump that returned no result is repeated from the same state
// and counts, so its verdicts are the same. codex ignores a second answer.

// RuleUnjudged is the rule of a decline when nobody could judge.
const RuleUnjudged = "builtin:broken"

// A Tally counts a session's approvals. It is a function of the journal and the inputs.
type Tally struct {
	Turn      int `json:"turn,omitempty"`
	InTurn    int `json:"in_turn,omitempty"`
	InSession int `json:"in_session,omitempty"`
	Accepted  int `json:"accepted,omitempty"`
	Declined  int `json:"declined,omitempty"`
	Judged    int `json:"judged,omitempty"` // answered by a policy
	// Minute counts the requests in each second of the newest minute.
	Minute []Second `json:"minute,omitempty"`
}

// A Second is a second by codex's clock and its number of requests.
type Second struct {
	At int64 `json:"at"`
	N  int   `json:"n"`
}

const (
	maxJudged       = 100 // the newest are kept
	maxJudgedWhole  = 20  // older ones are kept without what a person reads
	maxJudgedText   = 200
	maxRulingReason = 500
)

func (t Tally) counts(turn int, ms int64) Counts {
	c := Counts{InTurn: t.InTurn, InSession: t.InSession, Accepted: t.Accepted, Declined: t.Declined}
	if t.Turn != turn {
		c.InTurn = 0
	}
	for _, s := range t.Minute {
		// The oldest second counts as a whole.
		if s.At >= ms/1000-60 {
			c.InMinute += s.N
		}
	}
	return c
}

func (t *Tally) count(turn int, ms int64) {
	if t.Turn != turn {
		t.Turn, t.InTurn = turn, 0
	}
	t.InTurn++
	t.InSession++
	at := ms / 1000
	var minute []Second // the slice may be shared with an earlier state
	for _, s := range t.Minute {
		if s.At >= at-60 && s.At != at {
			minute = append(minute, s)
		}
	}
	now := Second{At: at, N: 1}
	if i := slices.IndexFunc(t.Minute, func(s Second) bool { return s.At == at }); i >= 0 {
		now.N += t.Minute[i].N
	}
	t.Minute = append(minute, now)
}

func (t *Tally) outcome(o protocol.Outcome) {
	switch o {
	case protocol.Accept, protocol.Answer, protocol.Grant, protocol.Amend:
		t.Accepted++
	case protocol.Decline, protocol.Cancel:
		t.Declined++
	}
}

// countDecisions counts each decision of a person once.
func (q *requests) countDecisions() {
	for _, s := range q.in.Sends {
		if s.Kind != SendDecision || s.Incarnation != q.st.Cursor.Incarnation {
			continue
		}
		if i := q.st.openAt(s.RPC); i >= 0 && !q.st.Open[i].Decided {
			q.st.Open[i].Decided = true
			q.st.Tally.outcome(s.Outcome)
		}
	}
}

// judge counts a request and asks the policy. If the verdict has no outcome, people are
// asked, and r.Ruling names the rule.
func (q *requests) judge(a *asked, r *protocol.Request) Verdict {
	facts := q.facts(a, r)
	q.st.Tally.count(q.st.Turn, q.st.AtMS)
	q.spending.check()
	if q.st.Budget != "" {
		return Verdict{} // the turn is being interrupted
	}
	var v Verdict
	switch {
	case q.in.Policy == "":
		return Verdict{}
	case q.opt.Judge == nil:
		v = Verdict{Outcome: protocol.Decline, Rule: RuleUnjudged, Reason: "the policy cannot be used here", Policy: q.in.Policy}
	default:
		v = q.opt.Judge(facts)
	}
	v.Reason = wire.Excerpt(q.redact(v.Reason), maxRulingReason)
	if why := q.unfit(r, a, &v); why != "" {
		v.Outcome, v.Reason = "", why
	}
	if v.Outcome == "" {
		r.Ruling = &protocol.Ruling{Rule: v.Rule, Reason: v.Reason, Policy: v.Policy, Risk: v.Risk}
	}
	return v
}

// unfit returns why a verdict cannot be given, so that people are asked. An accept for the
// session that is not offered becomes an accept once.
func (q *requests) unfit(r *protocol.Request, a *asked, v *Verdict) string {
	switch v.Outcome {
	case "":
		return ""
	case protocol.Accept, protocol.Decline:
	default:
		return fmt.Sprintf("a policy cannot %s", v.Outcome)
	}
	v.ForSession = v.ForSession && v.Outcome == protocol.Accept && slices.Contains(r.Offered, "accept_for_session")
	if v.Outcome == protocol.Accept && !slices.Contains(r.Offered, "accept") {
		return fmt.Sprintf("rule %q would accept, which is not offered", v.Rule)
	}
	if _, err := answerFor(q.verdictSend(r, *v), a, q.st.CodexVersion); err != nil {
		return fmt.Sprintf("rule %q would %s, but %v", v.Rule, v.Outcome, err)
	}
	return ""
}

const maxArguments = 256 << 10

func (q *requests) facts(a *asked, r *protocol.Request) Asked {
	f := Asked{
		Kind: a.Kind, Action: a.Action, Command: a.Command, CWD: a.CWD, GrantRoot: a.GrantRoot,
		NetworkHost: protocol.NetworkHost(a.Network), Permissions: a.Permissions, Server: a.Server, Tool: a.Tool,
		Reason: a.reason, Digest: r.Digest, Turn: q.st.Turn, Model: orWord(q.in.Thread.Model, q.st.Model),
		Counts: q.st.Tally.counts(q.st.Turn, q.st.AtMS),
		ID:     fmt.Sprintf("%d/%s", r.Incarnation, wire.IDKey(r.RPC)),
	}
	if f.NetworkHost == "" && len(a.Network) > 0 && string(a.Network) != "null" {
		f.NetworkHost = "." // network access without a host's name
	}
	if v, err := plainJSON(a.Args); err == nil && v != nil {
		// Longer arguments are left out. Then people decide if a rule looks at arguments.
		if args := canonical(v); len(args) <= maxArguments {
			f.Arguments = string(args)
		}
	}
	for _, c := range a.Changes {
		f.Changes = append(f.Changes, AskedChange{Path: c.Path, Kind: c.Kind.Type, MovedTo: c.Kind.MovePath})
	}
	return f
}

// verdictSend returns the send of a verdict. Its id comes from the request, so it is sent
// once.
func (q *requests) verdictSend(r *protocol.Request, v Verdict) Send {
	s := Send{
		ID: fmt.Sprintf("policy/%d/%s", r.Incarnation, wire.IDKey(r.RPC)), Kind: SendDecision, Turn: q.st.Turn,
		RPC: r.RPC, Incarnation: r.Incarnation, RequestKind: r.Kind, Method: r.Method,
		Outcome: v.Outcome, ForSession: v.ForSession,
	}
	if v.Outcome == protocol.Decline {
		s.Reason = v.Reason
	}
	return s
}

func (q *requests) answerByPolicy(r *protocol.Request, o OpenRequest, v Verdict) {
	scope := "once"
	if v.ForSession {
		scope = "session"
	}
	q.st.Tally.outcome(v.Outcome)
	q.st.Tally.Judged++
	e := protocol.Entry{Type: protocol.EntryDecision, Turn: q.st.Turn, Item: r.ItemID, Digest: r.Digest,
		Text: fmt.Sprintf("%s by the policy, rule %q: %s", v.Outcome, v.Rule, r.Summary),
		Data: map[string]string{"outcome": string(v.Outcome), "by": "policy", "rule": v.Rule, "policy": v.Policy,
			"reason": v.Reason, "scope": scope}}
	q.ofThread(&e, o.Thread)
	q.entry(e)
	answer := q.verdictSend(r, v)
	o.Judged = &answer
	q.st.Open = append(q.st.Open, o)
	q.delivery.addOwn(answer, q.opt.Attempt > 1)
	q.judged = append(q.judged, protocol.Judged{
		N: q.st.Tally.Judged, Turn: q.st.Turn, Kind: r.Kind, Summary: wire.Excerpt(r.Summary, maxJudgedText), Digest: r.Digest,
		Outcome: v.Outcome, ForSession: v.ForSession, AtMS: q.st.AtMS, Ruling: protocol.Ruling{Rule: v.Rule, Reason: v.Reason, Policy: v.Policy},
	})
	if n := len(q.judged) - maxJudgedWhole; n > 0 {
		q.judged[n-1].Summary, q.judged[n-1].Policy = "", ""
	}
	if n := len(q.judged) - maxJudged; n > 0 {
		q.judged = q.judged[n:]
	}
}

func rulingIn(g *protocol.Ruling, data map[string]string) map[string]string {
	if g != nil {
		data["rule"], data["policy"] = g.Rule, g.Policy
		if g.Reason != "" {
			data["ruling"] = g.Reason
		}
		if g.Risk != "" {
			data["risk"] = g.Risk
		}
	}
	return data
}
