package protocol

import (
	"encoding/json"
	"time"
)

// BatchItem is one session to start.
type BatchItem struct {
	ID      string          `json:"id"`
	Options int             `json:"options"`
	First   json.RawMessage `json:"first"`
}

// BatchOptions are session options and the task queue of the zone's workers.
type BatchOptions struct {
	Queue   string                     `json:"queue"`
	Session map[string]json.RawMessage `json:"session"`
}

// A BatchPage is a stored part of a batch's items. Options and first messages are raw,
// because activities do not know the types of the workflow Session.
type BatchPage struct {
	// Items name their options by index.
	Options []BatchOptions `json:"options"`
	Items   []BatchItem    `json:"items"`
}

// BatchPages names the page that begins with item First.
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

// BatchResult is a line of `ctl batch results`. An item retried on request gets another one
// later.
type BatchResult struct {
	N       int    `json:"n"` // from 1, in the order of ending
	Item    string `json:"item"`
	Session string `json:"session"`
	Tries   int    `json:"tries"`
	// State is completed, failed or cancelled; Status is that of the item's turn.
	State          string          `json:"state"`
	Status         string          `json:"status"`
	FinalText      string          `json:"final_text"`
	FinalTruncated bool            `json:"final_truncated,omitempty"` // the transcript has the full text
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

// BatchResults are the results from a given number on: the blob of a stored part, or lines
// that are in no part yet.
type BatchResults struct {
	State string            `json:"state"`
	Total int               `json:"total"`
	Blob  string            `json:"blob,omitempty"`
	Lines []json.RawMessage `json:"lines,omitempty"`
}

// BatchRetry says which failures are retried.
type BatchRetry struct {
	Attempts     int           `json:"attempts,omitempty"` // including the first
	On           []string      `json:"on,omitempty"`       // kinds; empty means those of hosts and providers
	Wait         time.Duration `json:"wait,omitempty"`     // before the second try; doubled before each later one
	AfterEffects bool          `json:"after_effects,omitempty"`
}

// BatchSession is an item's running session.
type BatchSession struct {
	Item    string    `json:"item"`
	Session string    `json:"session"`
	Try     int       `json:"try"`
	Since   time.Time `json:"since"`
}

// BatchSpec is a batch file without the batch's name: several batches may start from one
// spec.
type BatchSpec struct {
	Pages     []BatchPages `json:"pages"`
	Total     int          `json:"total"`
	Window    int          `json:"window"`
	StopAfter int          `json:"stop_after,omitempty"` // failures; 0 means never
	Retry     BatchRetry   `json:"retry,omitzero"`
	File      string       `json:"file,omitempty"`
}

// BatchView is the Batch JSON of the command line. Total is Done + Failed + Cancelled +
// Running + Retrying + Queued.
type BatchView struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Total     int    `json:"total"`
	Done      int    `json:"done"`
	Failed    int    `json:"failed"`
	Cancelled int    `json:"cancelled"`
	Running   int    `json:"running"` // including those that wait for a host
	Retrying  int    `json:"retrying"`
	Queued    int    `json:"queued"`
	Window    int    `json:"window"`
	// Rate is the recent number of ended items per minute; ETA is nil if unknown.
	Rate      float64        `json:"rate"`
	ETA       *time.Time     `json:"eta"`
	CreatedAt time.Time      `json:"created_at"`
	EndedAt   *time.Time     `json:"ended_at"`
	Failures  []BatchFailure `json:"failures"` // the newest
	Kinds     map[string]int `json:"kinds"`    // by kind
	Usage     UsageView      `json:"usage"`
	Sessions  []BatchSession `json:"sessions"` // oldest first
	Results   int            `json:"results"`
	Tries     int            `json:"tries"` // sessions so far
	StopAfter int            `json:"stop_after,omitempty"`
	Retry     *BatchRetry    `json:"retry,omitempty"`
	Why       string         `json:"why,omitempty"`
	By        string         `json:"by,omitempty"`
	Origin    string         `json:"origin,omitempty"`
	File      string         `json:"file,omitempty"`
	// Error says why sessions cannot be started, or results not be stored, now.
	Error *Failure `json:"error,omitempty"`
}

// A BatchShown is the JSON of `ctl batch show`.
type BatchShown struct {
	BatchView
	// Waiting are sessions that wait for a person.
	Waiting []BatchWaiting `json:"waiting"`
}

// A BatchWaiting is a session of a batch that waits for a person.
type BatchWaiting struct {
	Session   string `json:"session"`
	Approvals int64  `json:"approvals"`
}

// CancelBatch closes the running sessions and ends the batch.
type CancelBatch struct {
	By      string `json:"by,omitempty"`
	Discard bool   `json:"discard,omitempty"` // sessions give up data that they cannot save
	Sender
}

// RetryBatch retries failed items, with Rest also those never begun or cancelled.
type RetryBatch struct {
	By   string `json:"by,omitempty"`
	Rest bool   `json:"rest,omitempty"`
}

// SetBatch changes a running batch; omitted values stay.
type SetBatch struct {
	By     string `json:"by,omitempty"`
	Window int    `json:"window,omitempty"`
}

// States of a batch.
const (
	BatchRunning    = "running"
	BatchStopping   = "stopping"   // too many failures; running sessions continue
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

// BatchOver reports whether a batch in this state has ended.
func BatchOver(state string) bool {
	return state == BatchDone || state == BatchStopped || state == BatchCancelled
}
