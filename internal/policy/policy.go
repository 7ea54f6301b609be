package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"fairlead.dev/fairlead/internal/sshsig"
)

// An Outcome is what becomes of a request.
type Outcome string

const (
	Accept           Outcome = "accept"
	AcceptForSession Outcome = "accept_for_session" // also the same ask later
	Decline          Outcome = "decline"
	Ask              Outcome = "ask" // a person decides
)

// Outcomes are all of them.
var Outcomes = []Outcome{Accept, AcceptForSession, Decline, Ask}

func (o Outcome) accepts() bool { return o == Accept || o == AcceptForSession }

// A Policy decides requests. It is made by [Parse] or [Refusing], does not
// change, and is safe for concurrent use.
type Policy struct {
	Digest  string  `json:"policy"` // SHA-256 of the file, in hex
	Rules   []Rule  `json:"rules"`
	Default Outcome `json:"default"`
	Limits  Limits  `json:"limits"`
	// Expiry is how long a request waits for a person; 0 is the session's own.
	Expiry time.Duration `json:"expiry"`
	// Approvers is who may decide, as lines of allowed_signers. Where there are
	// any, only signed decisions count, and Required of them must agree.
	Approvers          string `json:"approvers,omitempty"`
	Required           int    `json:"required,omitempty"`
	RequesterMayDecide bool   `json:"requester_may_decide,omitempty"`
	Wait               Wait   `json:"wait"`
	// Warnings is what is probably not meant, a sentence each, with its line.
	Warnings []string `json:"warnings,omitempty"`

	compiled []compiled // of each rule
	allowed  *sshsig.Allowed
	broken   string // why, if it is
}

// A Rule is one line of reasoning: the first whose condition holds decides.
type Rule struct {
	Name    string  `json:"name" yaml:"name"`
	When    string  `json:"when" yaml:"when"`
	Outcome Outcome `json:"outcome" yaml:"outcome"`
	Reason  string  `json:"reason,omitempty" yaml:"reason"`
}

// Limits bound what a policy accepts by itself; 0 is no limit.
type Limits struct {
	ApprovalsPerTurn   int `json:"approvals_per_turn,omitempty" yaml:"approvals_per_turn"`
	ApprovalsPerMinute int `json:"approvals_per_minute,omitempty" yaml:"approvals_per_minute"`
	// Beyond is ask, or decline: then also what a person would be asked.
	Beyond Outcome `json:"beyond,omitempty" yaml:"beyond"`
}

// Wait says whether a session waits until a limit of the provider is reset.
type Wait struct {
	Quota     bool          `json:"quota,omitempty" yaml:"quota"`
	RateLimit bool          `json:"rate_limit,omitempty" yaml:"rate_limit"`
	AtMost    time.Duration `json:"at_most,omitempty" yaml:"at_most"`
}

// Refusing is what stands in for a policy that cannot be had: file may be what
// was there instead. It declines every request and says why.
func Refusing(file []byte, why string) *Policy {
	return &Policy{Digest: digest(file), Default: Decline, broken: why}
}

// Broken says why the policy declines everything; empty if it does not.
func (p *Policy) Broken() string {
	if p == nil {
		return "there is no policy"
	}
	return p.broken
}

// Allowed is who may sign decisions; nil where nobody must.
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
