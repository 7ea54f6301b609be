package protocol

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of follow-up rules.
const (
	MaxFollowUps      = 8
	MaxFollowUpPrompt = 16 << 10 // bytes
	// MaxFollowUpText bounds the final text of a follow-up in the view of the first session,
	// in bytes.
	MaxFollowUpText = 4 << 10

	// MaxSeedFollowUps bounds the rules of a seed together, in bytes of JSON: a session hands
	// them from run to run beside its own.
	MaxSeedFollowUps = 64 << 10

	maxFollowUpName = 20
	maxPatterns     = 16
	maxPattern      = 200
)

// A FollowUp is a rule of a session or of its seed: after some of its completed turns, it starts a second
// session, which goes on with a fork of the thread and has one turn. Turns that were
// interrupted or failed are followed by none, and neither are those of a follow-up.
//
// One of Turns, ToolCalls and Files is set. What is empty below is as in the first session.
type FollowUp struct {
	Name   string `json:"name"`
	Prompt string `json:"prompt"`

	Turns     int      `json:"turns,omitempty"`      // after each so many turns
	ToolCalls int      `json:"tool_calls,omitempty"` // after the turn with that many calls since the last time
	Files     []string `json:"files,omitempty"`      // after a turn that changed a file that one of the patterns matches

	Seed           string `json:"seed,omitempty"`
	SeedPool       string `json:"seed_pool,omitempty"`
	Model          string `json:"model,omitempty"`
	Effort         string `json:"effort,omitempty"`
	Sandbox        string `json:"sandbox,omitempty"`
	ApprovalPolicy string `json:"approval_policy,omitempty"`
	Bounds         Bounds `json:"bounds,omitzero"` // no bound of the first session counts
}

// When says in words after which turns the rule starts a session.
func (r FollowUp) When() string {
	switch {
	case r.Turns == 1:
		return "after each turn"
	case r.Turns > 1:
		return fmt.Sprintf("after each %d turns", r.Turns)
	case r.ToolCalls > 0:
		return fmt.Sprintf("after the turn with %d tool calls since the last time", r.ToolCalls)
	}
	return "after a turn that changed " + strings.Join(r.Files, ", ")
}

// SeedOf returns the seed or the pool of seeds that the rule names, in words; "" means that of
// the first session.
func (r FollowUp) SeedOf() string {
	if r.SeedPool != "" {
		return "pool " + r.SeedPool
	}
	return r.Seed
}

// JoinFollowUps returns the rules of a session in their order: those of its seed, then its own.
// A rule of its own takes the place of the seed's rule of the same name.
func JoinFollowUps(seed, own []FollowUp) (all []FollowUp) {
	for _, r := range seed {
		if !slices.ContainsFunc(own, func(o FollowUp) bool { return o.Name == r.Name }) {
			all = append(all, r)
		}
	}
	return append(all, own...)
}

// A SeedFollowUp is a rule that a seed gives to each of its sessions, as people see it.
type SeedFollowUp struct {
	Name string `json:"name"`
	When string `json:"when"`           // in words
	Seed string `json:"seed,omitempty"` // of the follow-up; empty means that of the first session
}

// maxWhen bounds SeedFollowUp.When and SeedFollowUp.Seed, in bytes.
const maxWhen = 300

// ShowFollowUps describes the rules of a seed for people.
func ShowFollowUps(rules []FollowUp) (all []SeedFollowUp) {
	for _, r := range rules {
		when := r.When()
		all = append(all, SeedFollowUp{Name: r.Name, When: strings.ToValidUTF8(when[:min(len(when), maxWhen)], ""), Seed: r.SeedOf()})
	}
	return all
}

// CheckSeedFollowUps returns an error if no seed can give these rules.
func CheckSeedFollowUps(rules []SeedFollowUp) error {
	if len(rules) > MaxFollowUps {
		return fmt.Errorf("%d follow-ups, at most %d", len(rules), MaxFollowUps)
	}
	seen := map[string]bool{}
	for i, r := range rules {
		switch {
		case !isFollowUpName(r.Name) || seen[r.Name]:
			return fmt.Errorf("follow-up %d: its name is no name, or another one has it", i+1)
		case r.When == "" || len(r.When) > maxWhen || len(r.Seed) > maxWhen:
			return fmt.Errorf("follow-up %s: when or seed is missing, or has more than %d bytes", r.Name, maxWhen)
		}
		seen[r.Name] = true
	}
	return nil
}

// A RuleView is a rule for follow-ups of a session.
type RuleView struct {
	SeedFollowUp
	// From is where the rule is from: "session", or "seed/NAME".
	From string `json:"from"`
	// Off says why the rule starts no sessions here; empty means that it does.
	Off string `json:"off,omitempty"`
}

// RuleOfSession is RuleView.From of a rule that the session was started with.
const RuleOfSession = "session"

// A FollowUpView is a session that a rule started, or did not.
type FollowUpView struct {
	Name    string `json:"name"`              // of the rule
	Turn    int    `json:"turn"`              // of the first session
	Session string `json:"session,omitempty"` // its id; "" if it was not started
	// State is started, closed or failed.
	State string `json:"state"`
	// Status is that of its turn, and Text what the turn ended with.
	Status    string    `json:"status,omitempty"`
	Text      string    `json:"text,omitempty"`
	Truncated bool      `json:"truncated,omitempty"` // its transcript has the whole text
	Error     *Failure  `json:"error,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// FollowUpStarted is the state of a follow-up that has not ended.
const FollowUpStarted = "started"

// CheckFollowUps returns what is wrong with the rules of a session, except for the form of
// patterns.
func CheckFollowUps(rules []FollowUp) error {
	if len(rules) > MaxFollowUps {
		return fmt.Errorf("%d follow-ups, at most %d", len(rules), MaxFollowUps)
	}
	seen := map[string]bool{}
	for i, r := range rules {
		if err := r.check(); err != nil {
			return fmt.Errorf("follow-up %d: %w", i+1, err)
		}
		if seen[r.Name] {
			return fmt.Errorf("follow-up %d: another one has the name %s", i+1, r.Name)
		}
		seen[r.Name] = true
	}
	return nil
}

func isFollowUpName(name string) bool {
	return NamePattern.MatchString(name) && len(name) <= maxFollowUpName
}

func (r FollowUp) check() error {
	if !isFollowUpName(r.Name) {
		return fmt.Errorf("name: use a-z, 0-9, dot, dash, underscore; at most %d, the first a letter or a digit", maxFollowUpName)
	}
	conditions := 0
	for _, set := range []bool{r.Turns != 0, r.ToolCalls != 0, len(r.Files) > 0} {
		if set {
			conditions++
		}
	}
	switch {
	case strings.TrimSpace(r.Prompt) == "" || !utf8.ValidString(r.Prompt):
		return errors.New("prompt: it is empty, or not UTF-8 text")
	case len(r.Prompt) > MaxFollowUpPrompt:
		return fmt.Errorf("prompt: %d bytes, at most %d", len(r.Prompt), MaxFollowUpPrompt)
	case conditions != 1 || r.Turns < 0 || r.ToolCalls < 0:
		return errors.New("give one of turns, tool_calls and files, and numbers of at least 1")
	case len(r.Files) > maxPatterns:
		return fmt.Errorf("files: %d patterns, at most %d", len(r.Files), maxPatterns)
	case r.Seed != "" && r.SeedPool != "":
		return errors.New("give one of seed and seed_pool")
	}
	for _, pattern := range r.Files {
		if pattern == "" || len(pattern) > maxPattern {
			return fmt.Errorf("files: a pattern is empty, or longer than %d bytes", maxPattern)
		}
	}
	for _, name := range []string{r.Seed, r.SeedPool} {
		if name != "" && !NamePattern.MatchString(name) {
			return errors.New("seed or seed_pool: it is not a name")
		}
	}
	switch r.Sandbox {
	case "", ReadOnly, WorkspaceWrite, FullAccess:
	default:
		return fmt.Errorf("sandbox: use %s, %s or %s", ReadOnly, WorkspaceWrite, FullAccess)
	}
	switch r.ApprovalPolicy {
	case "", "untrusted", "on-request", "never":
	default:
		return errors.New("approval_policy: use untrusted, on-request or never")
	}
	if len(r.Model) > maxFollowUpWord || len(r.Effort) > maxFollowUpWord {
		return fmt.Errorf("model or effort: at most %d bytes", maxFollowUpWord)
	}
	if b := r.Bounds; b.Tokens < 0 || b.Turns < 0 || b.Approvals < 0 || b.Commands < 0 || b.Time < 0 {
		return errors.New("bounds must not be negative")
	}
	return nil
}

const maxFollowUpWord = 200
