package protocol

import (
	"errors"
	"fmt"
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

	maxFollowUpName = 20
	maxPatterns     = 16
	maxPattern      = 200
)

// A FollowUp is a rule of a session: after some of its completed turns, it starts a second
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

func (r FollowUp) check() error {
	if !NamePattern.MatchString(r.Name) || len(r.Name) > maxFollowUpName {
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
