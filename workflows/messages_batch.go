package workflows

import (
	"encoding/json"
	"time"
)

// Of a batch workflow.
const (
	TypeBatch = "Batch"

	QueryBatch        = "batch"         // → BatchView
	QueryBatchResults = "batch_results" // from → BatchResults

	SignalCancelBatch = "cancel" // CancelBatch
	SignalRetryBatch  = "retry"  // RetryBatch
	SignalSetBatch    = "set"    // SetBatch
)

// BatchID gives the id of a batch's workflow.
func BatchID(id string) string { return "batch/" + id }

// BatchInput starts a Batch workflow.
type BatchInput struct {
	ID   string    `json:"id"`
	Spec BatchSpec `json:"spec"`
	By   string    `json:"by,omitempty"`
	// Origin is what started it, if no person did: "schedule/NAME".
	Origin string `json:"origin,omitempty"`
	// Notify is the id of a workflow that is told when the batch has ended, by the
	// signal session_ended: a SessionEnded with the batch's id and how it ended.
	Notify string `json:"notify,omitempty"`
	// Carry is of the run before; or, with Retry, of the batch as it ended.
	Carry *BatchState `json:"carry,omitempty"`
	Retry *RetryBatch `json:"retry,omitempty"`
}

// BatchSpec is what a file says of a batch, with the items in the store. It does
// not name the batch: another one may begin with the same.
type BatchSpec struct {
	Pages     []BatchPages `json:"pages"`
	Total     int          `json:"total"`
	Window    int          `json:"window"`
	StopAfter int          `json:"stop_after,omitempty"` // failures; 0 is never
	Retry     BatchRetry   `json:"retry,omitzero"`
	File      string       `json:"file,omitempty"` // its name, for people
}

// BatchPages says where the items from First on are.
type BatchPages struct {
	First int    `json:"first"`
	Blob  string `json:"blob"`
}

// BatchRetry says what is tried again.
type BatchRetry struct {
	Attempts     int           `json:"attempts,omitempty"` // tries of an item, the first among them
	On           []string      `json:"on,omitempty"`       // kinds of failures; empty: those of hosts and providers
	Wait         time.Duration `json:"wait,omitempty"`     // before the second try; doubled before each further one
	AfterEffects bool          `json:"after_effects,omitempty"`
}

// CancelBatch ends a batch: what runs is closed, what has not begun never will.
type CancelBatch struct {
	By      string `json:"by,omitempty"`
	Discard bool   `json:"discard,omitempty"` // sessions give up what they cannot save
}

// RetryBatch tries again what failed; with Rest also what was never begun, or was
// cancelled.
type RetryBatch struct {
	By   string `json:"by,omitempty"`
	Rest bool   `json:"rest,omitempty"`
}

// SetBatch changes a batch that runs; what is not given stays.
type SetBatch struct {
	By     string `json:"by,omitempty"`
	Window int    `json:"window,omitempty"`
}

// The states of a batch.
const (
	BatchRunning    = "running"
	BatchStopping   = "stopping"   // too many failures: what runs goes on to its end
	BatchCancelling = "cancelling" // what runs is being closed
	BatchDone       = "done"       // every item has ended, well or not
	BatchStopped    = "stopped"
	BatchCancelled  = "cancelled"
)

// BatchOver says that nothing of a batch in that state goes on.
func BatchOver(state string) bool {
	return state == BatchDone || state == BatchStopped || state == BatchCancelled
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
	Running   int    `json:"running"`  // sessions there are, also those that wait for a host
	Retrying  int    `json:"retrying"` // wait for their next try
	Queued    int    `json:"queued"`   // not begun
	Window    int    `json:"window"`
	// Rate is how many items ended a minute, of late; ETA is when the last one
	// ends at that rate, nil where nothing tells.
	Rate      float64        `json:"rate"`
	ETA       *time.Time     `json:"eta"`
	CreatedAt time.Time      `json:"created_at"`
	EndedAt   *time.Time     `json:"ended_at"`
	Failures  []BatchFailure `json:"failures"` // the newest
	Kinds     map[string]int `json:"kinds"`    // of failures, how many
	Usage     UsageView      `json:"usage"`
	Sessions  []BatchSession `json:"sessions"` // that run, the oldest first
	Results   int            `json:"results"`  // how many there are
	Tries     int            `json:"tries"`    // sessions there were
	StopAfter int            `json:"stop_after,omitempty"`
	Retry     *BatchRetry    `json:"retry,omitempty"`
	Why       string         `json:"why,omitempty"` // it stops, or is cancelled
	By        string         `json:"by,omitempty"`
	Origin    string         `json:"origin,omitempty"`
	File      string         `json:"file,omitempty"`
	// Error is why nothing can be started, or kept, just now.
	Error *Failure `json:"error,omitempty"`
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

// BatchSession is an item's session that runs.
type BatchSession struct {
	Item    string    `json:"item"`
	Session string    `json:"session"`
	Try     int       `json:"try"`
	Since   time.Time `json:"since"`
}

// BatchResult is what became of an item: a line of `ctl batch results`. An item
// that is tried again by hand has another one later.
type BatchResult struct {
	N       int    `json:"n"` // in the order of their ends, from 1
	Item    string `json:"item"`
	Session string `json:"session"`
	Tries   int    `json:"tries"`
	// State is completed, failed or cancelled; Status is that of its turn.
	State          string          `json:"state"`
	Status         string          `json:"status"`
	FinalText      string          `json:"final_text"`
	FinalTruncated bool            `json:"final_truncated,omitempty"` // the whole is in the session's transcript
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

// Ways that an item ends.
const (
	ItemCompleted = "completed"
	ItemFailed    = "failed"
	ItemCancelled = "cancelled"
)

// BatchResults are results from a number on: those of a part in the store, or
// those that are in none yet.
type BatchResults struct {
	State string            `json:"state"`
	Total int               `json:"total"`           // results there are
	Blob  string            `json:"blob,omitempty"`  // the part that has From
	Lines []json.RawMessage `json:"lines,omitempty"` // from From on
}

// BatchEnd is what a Batch workflow returns.
type BatchEnd struct {
	View BatchView `json:"view"`
	// Spec and State are what it takes to try again what failed.
	Spec  BatchSpec   `json:"spec"`
	State *BatchState `json:"state"`
}
