package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The tools of a session that may start others. They are not among Tools: a session offers
// them if its options say how many sessions it may start.
const (
	ToolStartSession = "start_session"
	ToolWaitSession  = "wait_session"
)

// ChildTools lists the tools of sessions that may start others.
var ChildTools = []string{ToolStartSession, ToolWaitSession}

// Bounds of child sessions.
const (
	// MaxChildren bounds all sessions below one that a person, a batch or a schedule started.
	MaxChildren   = 64
	MaxChildDepth = 3

	MaxChildPrompt = 16 << 10 // bytes
	// MaxChildText bounds the final text of a child in the view of its parent, in bytes.
	MaxChildText = 4 << 10
	// MaxChildWait bounds the timeout of wait_session.
	MaxChildWait = 24 * time.Hour

	maxChildNames = 16 // of each kind that a child may be given
)

// Children says which sessions the agent of a session may start.
type Children struct {
	// Max bounds the sessions below this one, at all depths together. What a child may start
	// is taken from it when the child starts.
	Max int `json:"max"`
	// Depth is how deep the tree below the session may be; 0 counts as 1.
	Depth int `json:"depth,omitempty"`
	// The agent may choose one of these. If it chooses none, a child has what its parent has.
	Hosts     []string `json:"hosts,omitempty"`
	Seeds     []string `json:"seeds,omitempty"`
	SeedPools []string `json:"seed_pools,omitempty"`
	Models    []string `json:"models,omitempty"`
	// Keep says that children go on when the session ends.
	Keep bool `json:"keep,omitempty"`
}

// Deep returns Depth with its default.
func (c *Children) Deep() int { return max(c.Depth, 1) }

// Check returns what is wrong with the option.
func (c *Children) Check() error {
	switch {
	case c == nil:
		return nil
	case c.Max < 1 || c.Max > MaxChildren:
		return fmt.Errorf("max %d: want 1 to %d", c.Max, MaxChildren)
	case c.Depth < 0 || c.Depth > MaxChildDepth:
		return fmt.Errorf("depth %d: want 1 to %d", c.Depth, MaxChildDepth)
	}
	for _, of := range []struct {
		what  string
		names []string
		plain bool
	}{{"host", c.Hosts, true}, {"seed", c.Seeds, true}, {"seed pool", c.SeedPools, true}, {"model", c.Models, false}} {
		if len(of.names) > maxChildNames {
			return fmt.Errorf("%d names of the kind %s, at most %d", len(of.names), of.what, maxChildNames)
		}
		for i, n := range of.names {
			switch {
			case of.plain && !NamePattern.MatchString(n), n == "", len(n) > maxFollowUpWord:
				return fmt.Errorf("%s %.100q is not a name", of.what, n)
			case slices.Contains(of.names[:i], n):
				return fmt.Errorf("%s %s is named twice", of.what, n)
			}
		}
	}
	return nil
}

// Words tells the model what it may choose.
func (c *Children) Words() string {
	text := fmt.Sprintf(" You may start at most %d sessions in all.", c.Max)
	for _, of := range []struct {
		name string
		may  []string
	}{{"host", c.Hosts}, {"seed", c.Seeds}, {"seed_pool", c.SeedPools}, {"model", c.Models}} {
		if len(of.may) > 0 {
			text += fmt.Sprintf(" %s may be one of: %s.", of.name, strings.Join(of.may, ", "))
		}
	}
	if c.Deep() > 1 {
		text += fmt.Sprintf(" With children: N, a session may itself start N sessions, which count, too; the tree may be %d deep.", c.Deep())
	}
	return text
}

// StartChild is the arguments of start_session.
type StartChild struct {
	Prompt   string `json:"prompt"`
	Model    string `json:"model,omitempty"`
	Effort   string `json:"effort,omitempty"`
	Host     string `json:"host,omitempty"`
	Seed     string `json:"seed,omitempty"`
	SeedPool string `json:"seed_pool,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Children is how many sessions the child may start.
	Children int `json:"children,omitempty"`
}

// ReadStartChild reads the arguments of start_session. Its errors are for the model.
func ReadStartChild(args string) (s StartChild, err error) {
	if err := strictly(args, &s); err != nil {
		return s, err
	}
	switch {
	case strings.TrimSpace(s.Prompt) == "" || !utf8.ValidString(s.Prompt):
		return s, errors.New("prompt is empty, or not UTF-8 text: say what the session is to do")
	case len(s.Prompt) > MaxChildPrompt:
		return s, fmt.Errorf("prompt has %d bytes, at most %d", len(s.Prompt), MaxChildPrompt)
	case s.Seed != "" && s.SeedPool != "":
		return s, errors.New("seed and seed_pool are given: give one of them")
	case s.Children < 0:
		return s, errors.New("children is negative")
	case len(s.Effort) > maxFollowUpWord:
		return s, errors.New("effort is too long")
	}
	return s, nil
}

// Allows returns an error that says why these arguments may not start a session. left is how
// many sessions may still be started.
func (c *Children) Allows(s StartChild, left int) error {
	switch {
	case 1+s.Children > left:
		return fmt.Errorf("%d more sessions may be started here, and this asks for %d (itself, and those that it may start)", left, 1+s.Children)
	case s.Children > 0 && c.Deep() < 2:
		return errors.New("a session that is started here may start none itself: leave children out")
	}
	for _, of := range []struct {
		name, is string
		may      []string
	}{{"host", s.Host, c.Hosts}, {"seed", s.Seed, c.Seeds}, {"seed_pool", s.SeedPool, c.SeedPools}, {"model", s.Model, c.Models}} {
		switch {
		case of.is == "" || slices.Contains(of.may, of.is):
		case len(of.may) == 0:
			return fmt.Errorf("%s cannot be chosen here: leave it out", of.name)
		default:
			return fmt.Errorf("%s %.100q is none of %s", of.name, of.is, strings.Join(of.may, ", "))
		}
	}
	return nil
}

// WaitChildren is the arguments of wait_session.
type WaitChildren struct {
	// Sessions are ids; empty means all that the session has started.
	Sessions []string `json:"sessions,omitempty"`
	// TimeoutSeconds is how long to wait; 0 means MaxChildWait.
	TimeoutSeconds int `json:"timeout_seconds,omitempty"`
}

// ReadWaitChildren reads the arguments of wait_session. Its errors are for the model.
func ReadWaitChildren(args string) (w WaitChildren, err error) {
	if err := strictly(args, &w); err != nil {
		return w, err
	}
	switch {
	case len(w.Sessions) > MaxChildren:
		return w, fmt.Errorf("%d sessions, at most %d", len(w.Sessions), MaxChildren)
	case w.TimeoutSeconds < 0 || time.Duration(w.TimeoutSeconds)*time.Second > MaxChildWait:
		return w, fmt.Errorf("timeout_seconds %d: want 1 to %d", w.TimeoutSeconds, int(MaxChildWait.Seconds()))
	}
	return w, nil
}

func strictly(text string, into any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && err != io.EOF {
		return fmt.Errorf("the arguments are not as described: %w", err)
	}
	return nil
}

// A ChildView is a session that the agent of another one started, or could not.
type ChildView struct {
	Session string `json:"session"`
	Turn    int    `json:"turn"` // of the parent
	// Outcome is one of the words below.
	Outcome string `json:"outcome"`
	// Text is what its turn ended with.
	Text      string    `json:"text,omitempty"`
	Truncated bool      `json:"truncated,omitempty"` // its transcript has the whole text
	Error     *Failure  `json:"error,omitempty"`
	Prompt    string    `json:"prompt,omitempty"`   // the beginning of what it was told
	Children  int       `json:"children,omitempty"` // that it may start
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// Outcomes of a ChildView.
const (
	ChildRunning   = "running"
	ChildClosing   = "closing" // its parent has told it to close
	ChildCompleted = "completed"
	ChildFailed    = "failed"    // its turn, or the session
	ChildCancelled = "cancelled" // somebody closed it, or interrupted its turn
)

// Ended reports whether the child has ended.
func (v ChildView) Ended() bool { return v.Outcome != ChildRunning && v.Outcome != ChildClosing }

// ChildOutcome tells how a child has ended, and why if it did not complete.
func ChildOutcome(e SessionEnded) (outcome string, why *Failure) {
	t := e.Turn
	switch {
	case t != nil && t.Status == "completed":
		return ChildCompleted, nil
	case e.State == Failed:
		return ChildFailed, e.Failure
	case t == nil:
		return ChildCancelled, &Failure{Kind: EndInterrupted, Message: "the session was closed before its turn began"}
	case t.Status == "interrupted" && (t.EndedBy == EndedByClose || t.EndedBy == EndedByPerson):
		return ChildCancelled, t.Error
	case t.Error == nil:
		return ChildFailed, &Failure{Kind: "unknown", Message: "its turn ended as " + t.Status}
	}
	return ChildFailed, t.Error
}

// OriginParent is the origin of a session's children.
func OriginParent(id string) string { return ParentOrigins + id }

// ParentOf returns the session that started one with this origin by a tool, or "".
func ParentOf(origin string) string {
	id, _ := strings.CutPrefix(origin, ParentOrigins)
	if id == origin {
		return ""
	}
	return id
}
