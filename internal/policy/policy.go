package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

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

// A Policy decides requests. It is made by [Parse] or [Refusing], is immutable, and
// is safe for concurrent use.
type Policy struct {
	Digest  string  `json:"policy"` // SHA-256 of the file, in hex
	Rules   []Rule  `json:"rules"`
	Default Outcome `json:"default"`
	Limits  Limits  `json:"limits"`
	// Expiry is how long a request waits for a person; 0 means the session's own
	// time.
	Expiry time.Duration `json:"expiry"`
	// Approvers are the allowed_signers lines of the people who may decide. If there are
	// any, only signed decisions count, and Required people must agree.
	Approvers          string `json:"approvers,omitempty"`
	Required           int    `json:"required,omitempty"`
	RequesterMayDecide bool   `json:"requester_may_decide,omitempty"`
	Wait               Wait   `json:"wait"`
	// Warnings describe parts of the file that are probably not meant so, each with its
	// line.
	Warnings []string `json:"warnings,omitempty"`

	compiled []compiled // of each rule
	allowed  *sshsig.Allowed
	broken   string // why the policy declines everything; else empty
}

// A Rule decides a request if it is the first rule whose condition is true.
type Rule struct {
	Name    string  `json:"name" yaml:"name"`
	When    string  `json:"when" yaml:"when"`
	Outcome Outcome `json:"outcome" yaml:"outcome"`
	Reason  string  `json:"reason,omitempty" yaml:"reason"`
}

// Limits bound the number of requests that a policy accepts by itself; 0 means no limit.
type Limits struct {
	ApprovalsPerTurn   int `json:"approvals_per_turn,omitempty" yaml:"approvals_per_turn"`
	ApprovalsPerMinute int `json:"approvals_per_minute,omitempty" yaml:"approvals_per_minute"`
	// Beyond is the outcome above the limits: ask, or decline. With decline, people are not
	// asked.
	Beyond Outcome `json:"beyond,omitempty" yaml:"beyond"`
}

// Wait says for which limits of the provider a session waits until they are reset.
type Wait struct {
	Quota     bool          `json:"quota,omitempty" yaml:"quota"`
	RateLimit bool          `json:"rate_limit,omitempty" yaml:"rate_limit"`
	AtMost    time.Duration `json:"at_most,omitempty" yaml:"at_most"`
}

// Refusing returns a policy that declines every request and says why. It replaces a policy
// that cannot be used. file is the content of the policy file, if there was one.
func Refusing(file []byte, why string) *Policy {
	return &Policy{Digest: digest(file), Default: Decline, broken: why}
}

// Broken returns why the policy declines everything. It is empty if the policy works.
func (p *Policy) Broken() string {
	if p == nil {
		return "there is no policy"
	}
	return p.broken
}

// Allowed returns the people who may sign decisions. It is nil if decisions need no
// signature.
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
