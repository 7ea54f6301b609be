package pumps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
)

// A policy in the store declines everything if it is missing, does not match its digest, or
// does not parse.

// Judge returns a function that applies the session's policies; nil if it has none. broken
// maps the owner of each unusable policy to the reason.
func Judge(ctx context.Context, s *site.Site, in RunPumpInput, attempt int32) (judge func(conversation.Asked) conversation.Verdict, broken map[string]string, err error) {
	if len(in.Policies) == 0 {
		return nil, nil, nil // a pump whose input names a policy then declines
	}
	var all []*policy.Policy
	for _, ref := range in.Policies {
		p, err := site.ReadPolicy(ctx, s, ref.Digest)
		if err != nil {
			return nil, nil, err
		}
		if why := p.Broken(); why != "" {
			if broken == nil {
				broken = map[string]string{}
			}
			broken[ref.Of] = shortened(fmt.Sprintf("the policy of the %s cannot be used: %s", ref.Of, why), maxBroken)
		}
		all = append(all, p)
	}
	held := context.WithoutCancel(ctx) // a cancelled conversation still judges
	return func(a conversation.Asked) conversation.Verdict {
		r := RequestOf(in, a)
		verdict := decide(all, in, r)
		if named := placesOf(all, in, r); len(named) > 0 {
			verdict = decidePlaced(held, s, in, attempt, a.ID, all, r, verdict, named)
			if verdict.Rule == policy.RulePlace && slices.ContainsFunc(all, (*policy.Policy).MarksHighRisk) {
				verdict.Risk = policy.RiskHigh // a rule that nobody could ask might hold
			}
		}
		return PumpVerdict(verdict)
	}, broken, nil
}

// decide returns the strictest verdict of all policies, for everybody who asks.
func decide(all []*policy.Policy, in RunPumpInput, r policy.Request) (verdict policy.Verdict) {
	for i, by := range askers(in) {
		r.Requester = by
		for n, p := range all {
			if said := p.Decide(r); i+n == 0 {
				verdict = said
			} else {
				verdict = Stricter(verdict, said)
			}
		}
	}
	return verdict
}

// askers returns everybody for whom codex asks, or one empty name. Rules may accept for one
// person alone.
func askers(in RunPumpInput) []string {
	if len(in.Requesters) == 0 {
		return []string{""}
	}
	return in.Requesters
}

// strictness orders outcomes, the strictest first. An unknown outcome declines.
func strictness(o policy.Outcome) int {
	return slices.Index([]policy.Outcome{policy.Decline, policy.Ask, policy.Accept, policy.AcceptForSession}, o)
}

// Stricter returns the stricter of two verdicts. Of two that ask people, that of high risk is.
func Stricter(a, b policy.Verdict) policy.Verdict {
	if by := cmp.Compare(strictness(b.Outcome), strictness(a.Outcome)); by < 0 || by == 0 && a.Risk == "" && b.Risk != "" {
		return b
	}
	return a
}

// PumpVerdict converts a verdict for a pump.
func PumpVerdict(v policy.Verdict) conversation.Verdict {
	out := conversation.Verdict{Rule: v.Rule, Reason: v.Reason, Policy: v.Policy, Risk: v.Risk}
	switch v.Outcome {
	case policy.Accept, policy.AcceptForSession:
		out.Outcome, out.ForSession = protocol.Accept, v.Outcome == policy.AcceptForSession
	case policy.Ask:
	default:
		out.Outcome = protocol.Decline
	}
	return out
}

// RequestOf returns all facts for rules, except who asks.
func RequestOf(in RunPumpInput, a conversation.Asked) policy.Request {
	r := policy.Request{
		Kind: string(a.Kind), Action: a.Action, Command: a.Command, CWD: a.CWD, Work: in.Layout.WorkDir,
		GrantRoot: a.GrantRoot, NetworkHost: a.NetworkHost, Permissions: a.Permissions, Digest: a.Digest, Reason: a.Reason,
		Session: in.Claim.Session, Turn: a.Turn, Host: policy.Host{Name: in.Claim.Host.Name, Labels: in.Labels},
		Model: a.Model, Server: a.Server, Tool: a.Tool, Arguments: a.Arguments,
		Counts: policy.Counts{InTurn: a.Counts.InTurn, InMinute: a.Counts.InMinute, InSession: a.Counts.InSession,
			Accepted: a.Counts.Accepted, Declined: a.Counts.Declined},
	}
	for _, c := range a.Changes {
		r.Changes = append(r.Changes, policy.Change{Path: c.Path, Kind: c.Kind, MovedTo: c.MovedTo})
	}
	return r
}

const maxBroken = 2 << 10

func shortened(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}
