package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// An Outcome is the result for a request.
type Outcome string

const (
	Accept           Outcome = "accept"
	AcceptForSession Outcome = "accept_for_session" // also accept equal requests later in the session
	Decline          Outcome = "decline"
	Ask              Outcome = "ask" // a person decides
)

// Outcomes are all outcomes.
var Outcomes = []Outcome{Accept, AcceptForSession, Decline, Ask}

func (o Outcome) accepts() bool { return o == Accept || o == AcceptForSession }

// A Policy decides requests. It is immutable and safe for concurrent use.
type Policy struct {
	Digest  string  `json:"policy"`
	Rules   []Rule  `json:"rules"`
	Default Outcome `json:"default"`
	Limits  Limits  `json:"limits"`
	// Expiry is how long a request waits for a person; 0 means the session's own time.
	Expiry time.Duration `json:"expiry"`
	// Approvers are allowed_signers lines. If there are any, only signed decisions count,
	// and Required of these people must agree.
	Approvers          string `json:"approvers,omitempty"`
	Required           int    `json:"required,omitempty"`
	RequesterMayDecide bool   `json:"requester_may_decide,omitempty"`
	// HighRiskTokens are the API tokens that may accept what is marked as high risk.
	HighRiskTokens []string `json:"high_risk_tokens,omitempty"`
	Wait           Wait     `json:"wait"`
	// Warnings name parts of the file that are probably not meant so, with their lines.
	Warnings []string `json:"warnings,omitempty"`

	compiled []compiled
	allowed  *sshsig.Allowed
	broken   string // why the policy declines everything, or ""
}

// A Rule decides a request if it is the first one whose condition is true.
type Rule struct {
	Name    string  `json:"name" yaml:"name"`
	When    string  `json:"when" yaml:"when"`
	Outcome Outcome `json:"outcome" yaml:"outcome"`
	Reason  string  `json:"reason,omitempty" yaml:"reason"`
	// Risk is empty or RiskHigh: then a person who accepts proves at that moment who they are.
	Risk string `json:"risk,omitempty" yaml:"risk"`
}

// RiskHigh marks what a person accepts only with a passkey or a FIDO key.
const RiskHigh = protocol.RiskHigh

// Limits bound the requests that a policy accepts by itself; 0 means no limit.
type Limits struct {
	ApprovalsPerTurn   int `json:"approvals_per_turn,omitempty" yaml:"approvals_per_turn"`
	ApprovalsPerMinute int `json:"approvals_per_minute,omitempty" yaml:"approvals_per_minute"`
	// Beyond is the outcome above the limits: ask, or decline without asking.
	Beyond Outcome `json:"beyond,omitempty" yaml:"beyond"`
}

// Wait says which of the provider's limits a session waits out.
type Wait struct {
	Quota     bool          `json:"quota,omitempty" yaml:"quota"`
	RateLimit bool          `json:"rate_limit,omitempty" yaml:"rate_limit"`
	AtMost    time.Duration `json:"at_most,omitempty" yaml:"at_most"`
}

// Refusing returns a policy that declines every request and says why, in place of one that
// cannot be used. file may be empty.
func Refusing(file []byte, why string) *Policy {
	return &Policy{Digest: digest(file), Default: Decline, broken: why}
}

// MarksHighRisk reports whether a rule marks requests as high risk.
func (p *Policy) MarksHighRisk() bool {
	return p != nil && slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Risk == RiskHigh })
}

// Broken returns why everything is declined, or "".
func (p *Policy) Broken() string {
	if p == nil {
		return "there is no policy"
	}
	return p.broken
}

// Allowed returns the people who may sign; nil means that no signature is needed.
func (p *Policy) Allowed() *sshsig.Allowed {
	if p == nil {
		return nil
	}
	return p.allowed
}

func digest(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}
