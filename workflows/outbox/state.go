package outbox

import (
	"time"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Input starts an Outbox workflow.
type Input struct {
	Zone  string `json:"zone"`
	Carry *State `json:"carry,omitempty"`

	newer kit.Newer // a field that this program does not know
}

// UnmarshalJSON notes a field that this program does not know.
func (in *Input) UnmarshalJSON(raw []byte) (err error) {
	type plain Input
	in.newer, err = kit.Known(raw, (*plain)(in))
	return err
}

// Required implements newer.Input.
func (in Input) Required() []string { return nil }

// Unknown implements newer.Input.
func (in Input) Unknown() []string { return in.newer.Fields() }

// State is what an Outbox carries across continue-as-new.
type State struct {
	Begun  time.Time `json:"begun"`
	Cursor time.Time `json:"cursor"`
	// Seen has the times of the events that can be found again.
	Seen     map[string]time.Time `json:"seen,omitempty"`
	Messages []*Message           `json:"messages,omitempty"` // that wait, the oldest first
	// Recent has, for each channel and person, when messages were made, or
	// first tried if they waited.
	Recent map[string][]time.Time `json:"recent,omitempty"`
	// Done has the newest, the oldest first. Those that were lost stay longest.
	Done   []protocol.Notice     `json:"done,omitempty"`
	Older  int                   `json:"older,omitempty"`
	Totals map[string]int        `json:"totals,omitempty"`
	Tests  []protocol.TestNotify `json:"tests,omitempty"`

	// Audit has the records of accepted commands that may not be in the store.
	Audit audit.Chain `json:"audit,omitzero"`

	Standing protocol.NotifyStanding `json:"standing"`
	Limit    int                     `json:"limit,omitempty"`
	Per      time.Duration           `json:"per,omitempty"`
	RetryFor time.Duration           `json:"retry_for,omitempty"`
	Problem  string                  `json:"problem,omitempty"`
	Deaf     []string                `json:"deaf,omitempty"`
	// Silent has what does not answer, and since when.
	Silent map[string]time.Time `json:"silent,omitempty"`
}

// A Message has notices for one person by one channel. Once it was tried, no notice is added.
type Message struct {
	ID       string            `json:"id,omitempty"` // since the first attempt
	Channel  string            `json:"channel"`
	Person   string            `json:"person,omitempty"`
	Notices  []protocol.Notice `json:"notices"`
	Attempts int               `json:"attempts,omitempty"`
	FirstAt  time.Time         `json:"first_at,omitzero"`
	NextAt   time.Time         `json:"next_at"`
	Digest   bool              `json:"digest,omitempty"` // takes more notices
	Above    bool              `json:"above,omitempty"`  // due when it is only because of the limit
	Why      string            `json:"why,omitempty"`    // of the newest attempt

	sending bool
}

func (m *Message) target() string { return m.Channel + "/" + m.Person }

// Bounds of the state.
const (
	maxDone    = 300
	maxWaiting = 2000 // notices
	maxDigest  = 500  // notices in a message
	maxSending = 20
	maxTests   = 20
	maxSeen    = 5000 // keys: they go to each watcher, too
	maxWord    = 200
)
