package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// A session's policies are in the store, each under its digest. PrepareSession puts them
// there, and the workers that run pumps read them. A policy declines everything if it is
// missing, has a text of another digest, or does not parse.

const policiesPrefix = "policies/"

// A PolicyRef names a policy, and says whether it belongs to the session or to the
// seed.
type PolicyRef struct {
	Digest string `json:"digest"` // SHA-256 of its text, in hex
	Of     string `json:"of"`     // session, seed
}

var digestRule = regexp.MustCompile(`^[0-9a-f]{64}$`)

// PolicyDigest names a policy by its text.
func PolicyDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// keepPolicies stores policies where pumps find them.
func (s *site) keepPolicies(ctx context.Context, texts []string) error {
	for _, text := range texts {
		key := policiesPrefix + PolicyDigest(text)
		if err := s.Store.Create(ctx, key, []byte(text)); errors.Is(err, store.ErrExists) {
			// The stored text may be torn, or another one.
			if there, err := s.Store.Get(ctx, key); err == nil && string(there) == text {
				continue
			}
			if err := s.Store.Put(ctx, key, []byte(text)); err != nil {
				return fmt.Errorf("keep the policy: %w", err)
			}
		} else if err != nil {
			return fmt.Errorf("keep the policy: %w", err)
		}
	}
	return nil
}

// policies has the policies that this worker has parsed.
type policies struct {
	mu    sync.Mutex
	known map[string]*policy.Policy
}

// maxPolicies is the largest number of them. Few sessions have a policy of their own.
const maxPolicies = 64

func (p *policies) get(digest string) *policy.Policy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[digest]
}

func (p *policies) put(digest string, parsed *policy.Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPolicies {
		p.known = map[string]*policy.Policy{}
	}
	p.known[digest] = parsed
}

// policy returns the policy that a digest names. If that policy cannot be used, the returned
// one refuses everything. An error means that the store did not answer; another attempt may
// succeed.
func (s *site) policy(ctx context.Context, digest string) (*policy.Policy, error) {
	if p := s.policies.get(digest); p != nil {
		return p, nil
	}
	refusing := func(text []byte, why string, args ...any) (*policy.Policy, error) {
		p := policy.Refusing(text, fmt.Sprintf(why, args...))
		p.Digest = digest // the digest that the session named, not that of the text found
		return p, nil
	}
	if !digestRule.MatchString(digest) {
		return refusing(nil, "%.70q is no digest of a policy", digest)
	}
	text, err := s.Store.Get(ctx, policiesPrefix+digest)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refusing(nil, "its text is not in the store")
	case errors.Is(err, store.ErrTorn), errors.Is(err, store.ErrTooLarge):
		return refusing(nil, "its text in the store is damaged")
	case err != nil:
		return nil, fmt.Errorf("read the policy: %w", err)
	case PolicyDigest(string(text)) != digest:
		return refusing(text, "what the store has in its place is another text")
	}
	p, err := policy.Parse(text)
	if err != nil {
		return refusing(text, "%v", err)
	}
	s.policies.put(digest, p)
	return p, nil
}

// judge returns a function that applies the session's policies; nil if it has none. broken
// maps the owner of each policy that cannot be used to the reason.
func (s *site) judge(ctx context.Context, in RunPumpInput) (judge func(conversation.Asked) conversation.Verdict, broken map[string]string, err error) {
	if len(in.Policies) == 0 {
		return nil, nil, nil // a pump whose input names a policy then declines
	}
	var all []*policy.Policy
	for _, ref := range in.Policies {
		p, err := s.policy(ctx, ref.Digest)
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
	return func(a conversation.Asked) conversation.Verdict {
		r := requestOf(in, a)
		var verdict policy.Verdict
		for i, by := range askers(in) {
			r.Requester = by
			for n, p := range all {
				if said := p.Decide(r); i+n == 0 {
					verdict = said
				} else {
					verdict = stricter(verdict, said)
				}
			}
		}
		return pumpVerdict(verdict)
	}, broken, nil
}

// askers returns everybody for whom codex asks. Rules may accept for one person alone what
// they do not accept for several. If nobody is known, it returns one empty name.
func askers(in RunPumpInput) []string {
	if len(in.Requesters) == 0 {
		return []string{""}
	}
	return in.Requesters
}

// strictness orders outcomes: the stricter policy wins. An unknown outcome is the strictest,
// because it declines.
func strictness(o policy.Outcome) int {
	return slices.Index([]policy.Outcome{policy.Decline, policy.Ask, policy.Accept, policy.AcceptForSession}, o)
}

func stricter(a, b policy.Verdict) policy.Verdict {
	if strictness(b.Outcome) < strictness(a.Outcome) {
		return b
	}
	return a
}

func pumpVerdict(v policy.Verdict) conversation.Verdict {
	out := conversation.Verdict{Rule: v.Rule, Reason: v.Reason, Policy: v.Policy}
	switch v.Outcome {
	case policy.Accept, policy.AcceptForSession:
		out.Outcome, out.ForSession = protocol.Accept, v.Outcome == policy.AcceptForSession
	case policy.Ask:
	default: // also an unknown outcome
		out.Outcome = protocol.Decline
	}
	return out
}

// requestOf returns all facts that rules may use, except who asks.
func requestOf(in RunPumpInput, a conversation.Asked) policy.Request {
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

// maxBroken is the largest length in bytes of the reason that a workflow gets for a
// broken policy.
const maxBroken = 2 << 10

func shortened(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}
