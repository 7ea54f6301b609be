package protocol

import (
	"encoding/json"
	"time"
)

// BatchItem describes one session to be started.
type BatchItem struct {
	ID      string          `json:"id"`
	Options int             `json:"options"`
	First   json.RawMessage `json:"first"`
}

// BatchOptions are the options of sessions, and the task queue of their zone's workers.
type BatchOptions struct {
	Queue   string                     `json:"queue"`
	Session map[string]json.RawMessage `json:"session"`
}

// A BatchPage is a part of a batch's items, as it is in the store. Options and
// first messages are those of the workflow Session, which activities do not know.
type BatchPage struct {
	// There are few different options and many items, so an item names its options by
	// index.
	Options []BatchOptions `json:"options"`
	Items   []BatchItem    `json:"items"`
}

// BatchPages names the page with the items from First on.
type BatchPages struct {
	First int    `json:"first"`
	Blob  string `json:"blob"`
}

// BatchFailure is an item that failed.
type BatchFailure struct {
	Item    string    `json:"item"`
	Session string    `json:"session"`
	Kind    string    `json:"kind"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
	At      time.Time `json:"at"`
	Tries   int       `json:"tries"`
}

// BatchResult is the result of an item: a line of `ctl batch results`. An item that is
// retried on request gets another result later.
type BatchResult struct {
	N       int    `json:"n"` // in the order of ending, from 1
	Item    string `json:"item"`
	Session string `json:"session"`
	Tries   int    `json:"tries"`
	// State is completed, failed or cancelled. Status is that of the item's turn.
	State          string          `json:"state"`
	Status         string          `json:"status"`
	FinalText      string          `json:"final_text"`
	FinalTruncated bool            `json:"final_truncated,omitempty"` // the full text is in the session's transcript
	Output         json.RawMessage `json:"output,omitempty"`
	OutputError    string          `json:"output_error,omitempty"`
	Items          int             `json:"items"`
	DiffStat       string          `json:"diff_stat"`
	Usage          UsageView       `json:"usage"`
	Host           string          `json:"host"`
	Effects        string          `json:"effects"`
	StartedAt      time.Time       `json:"started_at,omitzero"`
	EndedAt        time.Time       `json:"ended_at"`
	Error          *Failure        `json:"error"`
	Archive        string          `json:"archive,omitempty"`
	Left           string          `json:"left,omitempty"`
}

// BatchResults are results from a given number on: the blob of a stored part, or lines that are
// in no part yet.
type BatchResults struct {
	State string            `json:"state"`
	Total int               `json:"total"`          // number of results
	Blob  string            `json:"blob,omitempty"` // the stored part that has the first of these results
	Lines []json.RawMessage `json:"lines,omitempty"`
}

// BatchRetry says which failures are tried again, and how.
type BatchRetry struct {
	Attempts     int           `json:"attempts,omitempty"` // tries of an item, the first among them
	On           []string      `json:"on,omitempty"`       // kinds of failures; empty: those of hosts and providers
	Wait         time.Duration `json:"wait,omitempty"`     // before the second try; doubled before each further one
	AfterEffects bool          `json:"after_effects,omitempty"`
}

// BatchSession is an item's running session.
type BatchSession struct {
	Item    string    `json:"item"`
	Session string    `json:"session"`
	Try     int       `json:"try"`
	Since   time.Time `json:"since"`
}

// BatchSpec is the content of a batch file, with the items in the store. It does not name the
// batch, so another batch may start from the same spec.
type BatchSpec struct {
	Pages     []BatchPages `json:"pages"`
	Total     int          `json:"total"`
	Window    int          `json:"window"`
	StopAfter int          `json:"stop_after,omitempty"` // number of failures; 0 means never
	Retry     BatchRetry   `json:"retry,omitzero"`
	File      string       `json:"file,omitempty"` // its name, for people
}

// BatchView is the Batch JSON of the command line. Total is the sum of done,
// failed, cancelled, running, retrying and queued.
type BatchView struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Total     int    `json:"total"`
	Done      int    `json:"done"` // ended well
	Failed    int    `json:"failed"`
	Cancelled int    `json:"cancelled"`
	Running   int    `json:"running"`  // sessions, including those that wait for a host
	Retrying  int    `json:"retrying"` // waiting for their next try
	Queued    int    `json:"queued"`   // not begun
	Window    int    `json:"window"`
	// Rate is the number of items that ended per minute recently. ETA is the time at which
	// the last item ends at that rate, or nil if it is not known.
	Rate      float64        `json:"rate"`
	ETA       *time.Time     `json:"eta"`
	CreatedAt time.Time      `json:"created_at"`
	EndedAt   *time.Time     `json:"ended_at"`
	Failures  []BatchFailure `json:"failures"` // the newest
	Kinds     map[string]int `json:"kinds"`    // number of failures by kind
	Usage     UsageView      `json:"usage"`
	Sessions  []BatchSession `json:"sessions"` // running, oldest first
	Results   int            `json:"results"`  // number of results
	Tries     int            `json:"tries"`    // sessions so far
	StopAfter int            `json:"stop_after,omitempty"`
	Retry     *BatchRetry    `json:"retry,omitempty"`
	Why       string         `json:"why,omitempty"` // why it stops or is cancelled
	By        string         `json:"by,omitempty"`
	Origin    string         `json:"origin,omitempty"`
	File      string         `json:"file,omitempty"`
	// Error says why sessions cannot be started, or results not be stored, at present.
	Error *Failure `json:"error,omitempty"`
}

// CancelBatch ends a batch: running sessions are closed, and no more begin.
type CancelBatch struct {
	By      string `json:"by,omitempty"`
	Discard bool   `json:"discard,omitempty"` // sessions give up data that they cannot save
}

// RetryBatch retries failed items. With Rest it also retries items that were never begun or
// were cancelled.
type RetryBatch struct {
	By   string `json:"by,omitempty"`
	Rest bool   `json:"rest,omitempty"`
}

// SetBatch changes a running batch; omitted values stay.
type SetBatch struct {
	By     string `json:"by,omitempty"`
	Window int    `json:"window,omitempty"`
}

// The states of a batch.
const (
	BatchRunning    = "running"
	BatchStopping   = "stopping"   // too many failures: running sessions go on to their end
	BatchCancelling = "cancelling" // running sessions are being closed
	BatchDone       = "done"       // every item has ended, well or not
	BatchStopped    = "stopped"
	BatchCancelled  = "cancelled"
)

// States of a BatchResult.
const (
	ItemCompleted = "completed"
	ItemFailed    = "failed"
	ItemCancelled = "cancelled"
)

// BatchOver reports whether a batch in that state has ended.
func BatchOver(state string) bool {
	return state == BatchDone || state == BatchStopped || state == BatchCancelled
}
