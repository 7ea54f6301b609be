package protocol

import (
	"fmt"
	"slices"
	"time"
)

// An Act says what a turn without a message's text does. Such a turn begins by a request
// other than turn/start, and codex returns no message id for it. If the journal does not
// show the turn, codex's history does not show it either. So an act that may have reached a
// dead process is void and never repeated.
//
// Measured on 0.125 to 0.169: review/start is answered with the turn's id. Within
// that turn codex announces a second one, the reviewer's, which never ends by
// itself. thread/compact/start is answered with nothing, and its turn is announced
// afterwards. A compaction that is requested while a turn runs would end that turn.
// Neither kind of turn can be steered.
type Act string

// The acts.
const (
	ActCompact Act = "compact" // thread/compact/start: replaces the history by a summary
	ActReview  Act = "review"  // review/start, within the thread
)

// A Review says what to review. At most one of its fields is set. If none is set, the
// uncommitted changes are reviewed.
type Review struct {
	Base         string `json:"base,omitempty"`         // the changes against this branch
	Commit       string `json:"commit,omitempty"`       // this commit
	Instructions string `json:"instructions,omitempty"` // whatever these say
}

// Check returns an error if more than one field is set.
func (r *Review) Check() error {
	if r == nil {
		return nil
	}
	n := 0
	for _, s := range []string{r.Base, r.Commit, r.Instructions} {
		if s != "" {
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("a review is of one thing: a branch's changes, a commit, or as instructions say")
	}
	return nil
}

// A Model is a model that codex shows to people.
type Model struct {
	ID      string   `json:"id"` // the name by which turns and threads select the model
	Name    string   `json:"name"`
	Efforts []string `json:"efforts"` // lowest first, as codex lists them
	// DefaultEffort is the model's effort if none is given; Default says that codex
	// uses this model by default.
	DefaultEffort string `json:"default_effort,omitempty"`
	Default       bool   `json:"default,omitempty"`
}

// A ModelList is codex's answer to model/list: its own catalogue. Measured on 0.125 to
// 0.169: the list is the same whatever the provider is. codex does not ask a provider that
// is defined in the config, so it is unknown which models that provider really serves.
type ModelList struct {
	Models []Model `json:"models"`
	// Codex is the version that listed them.
	Codex string `json:"codex,omitempty"`
}

// Find returns the model with that id.
func (l *ModelList) Find(id string) (Model, bool) {
	if l == nil {
		return Model{}, false
	}
	i := slices.IndexFunc(l.Models, func(m Model) bool { return m.ID == id })
	if i < 0 {
		return Model{}, false
	}
	return l.Models[i], true
}

// IDs returns the ids of all models, in codex's order.
func (l *ModelList) IDs() (ids []string) {
	if l == nil {
		return nil
	}
	for _, m := range l.Models {
		ids = append(ids, m.ID)
	}
	return ids
}

// Usage counts tokens.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Cached int64 `json:"cached_tokens"`
}

// A Cursor is a place in the journal of one incarnation of the process.
type Cursor struct {
	Incarnation int   `json:"incarnation"`
	Offset      int64 `json:"offset"`
}

// RateLimits are the limits of the account that codex uses, as codex last reported
// them. A field that codex leaves out keeps its earlier value.
type RateLimits struct {
	Primary   *RateWindow `json:"primary,omitempty"`
	Secondary *RateWindow `json:"secondary,omitempty"`
	Plan      string      `json:"plan,omitempty"`
	Reached   string      `json:"reached,omitempty"` // codex's word for the limit that is reached; empty if none is
	AtMS      int64       `json:"at_ms"`
}

// A RateWindow says how much of a time window's allowance is used.
type RateWindow struct {
	UsedPercent   int   `json:"used_percent"`
	WindowMinutes int64 `json:"window_minutes,omitempty"`
	ResetsAt      int64 `json:"resets_at,omitempty"` // seconds since 1970
}

// ContextUse is how much of the model's context window the thread fills, in tokens.
type ContextUse struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window"`
}

// Progress is the model's newest report on its work.
type Progress struct {
	Turn    int    `json:"turn"`
	Text    string `json:"text"`
	Percent *int   `json:"percent,omitempty"`
	Step    string `json:"step,omitempty"`
	AtMS    int64  `json:"at_ms,omitempty"`
}

// MaxProgress bounds the text of a progress report, and maxStep its step, in bytes.
const MaxProgress = 500

// A TurnDiff is everything that a turn has changed in files so far, as a unified
// diff.
type TurnDiff struct {
	Turn int `json:"turn"`
	// Place is the journal position of the diff. It orders the diffs of a turn; the
	// newest one counts.
	Place Cursor `json:"place"`
	Text  string `json:"text"`
	// Cut says that Text was longer than MaxDiff.
	Cut bool `json:"cut,omitempty"`
}

// A Bounds bounds what a session may use in all; 0 means no bound. The pump interrupts a
// turn that exceeds it; the workflow enforces Turns. The counts are in PumpState, so they
// are exact even if a turn took many pumps and attempts.
type Bounds struct {
	Tokens    int64 `json:"tokens,omitempty"` // input and output
	Turns     int64 `json:"turns,omitempty"`
	Approvals int64 `json:"approvals,omitempty"` // requests for a decision, including those to a policy
	Commands  int64 `json:"commands,omitempty"`  // begun
	// Time is the time of the turns by codex's clock, without the time in which
	// approvals waited for people.
	Time time.Duration `json:"time,omitempty"`
}

// A BudgetUse is one bound and how much of it is used; times are in milliseconds.
type BudgetUse struct {
	Name        string
	Used, Limit int64
	Warned      bool // a warning was given that it is nearly reached
}

// Gone reports whether no further turn may begin.
func (u BudgetUse) Gone() bool { return u.Limit > 0 && u.Used >= u.Limit }

// String returns the use and the limit in words.
func (u BudgetUse) String() string {
	if u.Name == BudgetTime {
		return fmt.Sprintf("%s of the %s", span(u.Used), span(u.Limit))
	}
	return fmt.Sprintf("%d of the %d %s", u.Used, u.Limit, u.Name)
}

// Spend returns a sentence that says that the bound is reached. Raise says what to do.
func (u BudgetUse) Spend() string {
	if u.Name == BudgetTime {
		return "the session's turns have taken " + u.String() + " that they may take"
	}
	return "the session has used " + u.String() + " that it may use"
}

// Raise says how to raise the bound.
func (u BudgetUse) Raise(session string) string {
	value := "N"
	if u.Name == BudgetTime {
		value = "D"
	}
	return fmt.Sprintf("`ctl session set %s --budget %s=%s` gives it more; then send a message to go on", session, u.Name, value)
}

// The names of the bounds on the command line.
const (
	BudgetTokens    = "tokens"
	BudgetTurns     = "turns"
	BudgetTime      = "time"
	BudgetApprovals = "approvals"
	BudgetCommands  = "commands"
)

func span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	return d.String()
}
