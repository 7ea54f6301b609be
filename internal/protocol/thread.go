package protocol

import (
	"fmt"
	"slices"
	"time"
)

// An Act is what a turn without a message's text does. A request other than turn/start
// begins it, and codex returns no message id. If the journal does not show the turn,
// codex's history does not either. So an act that may have reached a dead process is void
// and never repeated.
//
// Measured on 0.125 to 0.169: review/start is answered with the turn's id. Within that turn
// codex announces a second one, the reviewer's, which never ends by itself.
// thread/compact/start is answered with nothing; its turn is announced afterwards. A
// compaction requested while a turn runs would end that turn. Neither kind of turn can be
// steered.
type Act string

// The acts.
const (
	ActCompact Act = "compact" // replaces the history by a summary
	ActReview  Act = "review"  // within the thread
)

// A Review says what to review, in at most one field. Without any, it is the uncommitted
// changes.
type Review struct {
	Base         string `json:"base,omitempty"`
	Commit       string `json:"commit,omitempty"`
	Instructions string `json:"instructions,omitempty"`
}

// Check fails if more than one field is set.
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
		return fmt.Errorf("more than one of base, commit and instructions is given for the review: give only one")
	}
	return nil
}

// A Model is a model that codex shows to people.
type Model struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Efforts []string `json:"efforts"` // lowest first
	// DefaultEffort applies if none is given. Default marks codex's default model.
	DefaultEffort string `json:"default_effort,omitempty"`
	Default       bool   `json:"default,omitempty"`
}

// A ModelList is codex's answer to model/list. Measured on 0.125 to 0.169: it does not
// depend on the provider. codex does not ask a provider defined in the config, so which
// models that one serves is unknown.
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

// IDs returns all ids, in codex's order.
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

// A Cursor is a place in the journal of one incarnation.
type Cursor struct {
	Incarnation int   `json:"incarnation"`
	Offset      int64 `json:"offset"`
}

// RateLimits are those of codex's account. A field that codex leaves out keeps its earlier
// value.
type RateLimits struct {
	Primary   *RateWindow `json:"primary,omitempty"`
	Secondary *RateWindow `json:"secondary,omitempty"`
	Plan      string      `json:"plan,omitempty"`
	Reached   string      `json:"reached,omitempty"` // codex's word for the reached limit, or ""
	AtMS      int64       `json:"at_ms"`
}

// A RateWindow is the use of a time window's allowance.
type RateWindow struct {
	UsedPercent   int   `json:"used_percent"`
	WindowMinutes int64 `json:"window_minutes,omitempty"`
	ResetsAt      int64 `json:"resets_at,omitempty"` // seconds since 1970
}

// ContextUse is the use of the model's context window, in tokens.
type ContextUse struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window"`
}

// Progress is the model's newest report of progress.
type Progress struct {
	Turn    int    `json:"turn"`
	Text    string `json:"text"`
	Percent *int   `json:"percent,omitempty"`
	Step    string `json:"step,omitempty"`
	AtMS    int64  `json:"at_ms,omitempty"`
}

// MaxProgress bounds Progress.Text, in bytes.
const MaxProgress = 500

// A TurnDiff has a turn's changes to files so far, as a unified diff.
type TurnDiff struct {
	Turn int `json:"turn"`
	// Place is the diff's journal position; the highest counts.
	Place Cursor `json:"place"`
	Text  string `json:"text"`
	// Cut says that Text was longer than MaxDiff.
	Cut bool `json:"cut,omitempty"`
}

// A Bounds bounds what a session may use in all; 0 means no bound. The pump interrupts a
// turn that exceeds it; the workflow enforces Turns. The counts are in PumpState, so they
// are exact across pumps and attempts.
type Bounds struct {
	Tokens    int64 `json:"tokens,omitempty"` // input and output
	Turns     int64 `json:"turns,omitempty"`
	Approvals int64 `json:"approvals,omitempty"` // also those that a policy decides
	Commands  int64 `json:"commands,omitempty"`  // begun
	// Time is that of the turns by codex's clock, without waits for people.
	Time time.Duration `json:"time,omitempty"`
	// Money is what the model gateway may spend. It alone refuses requests beyond it; no pump and
	// no workflow does.
	Money Money `json:"money,omitempty"`
}

// A BudgetUse is one bound and its use; times are in milliseconds.
type BudgetUse struct {
	Name        string
	Used, Limit int64
	Warned      bool // a warning was given that the bound is near
}

// Gone reports whether no further turn may begin.
func (u BudgetUse) Gone() bool { return u.Limit > 0 && u.Used >= u.Limit }

// String returns use and limit in words.
func (u BudgetUse) String() string {
	switch u.Name {
	case BudgetTime:
		return fmt.Sprintf("%s of the %s", span(u.Used), span(u.Limit))
	case BudgetMoney:
		return fmt.Sprintf("%s of the %s in money", Money(u.Used), Money(u.Limit))
	}
	return fmt.Sprintf("%d of the %d %s", u.Used, u.Limit, u.Name)
}

// Spend says that the bound is reached.
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

// Names of the bounds on the command line.
const (
	BudgetTokens    = "tokens"
	BudgetTurns     = "turns"
	BudgetTime      = "time"
	BudgetApprovals = "approvals"
	BudgetCommands  = "commands"
	BudgetMoney     = "money"
)

func span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	return d.String()
}
