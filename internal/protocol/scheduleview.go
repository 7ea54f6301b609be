package protocol

import "time"

// A ScheduleView is the JSON of `ctl schedule show`.
type ScheduleView struct {
	Name           string           `json:"name"`
	Paused         bool             `json:"paused"`
	Note           string           `json:"note,omitempty"`
	When           []string         `json:"when"`
	TZ             string           `json:"tz"`
	Overlap        string           `json:"overlap"`
	Jitter         string           `json:"jitter,omitempty"`
	Catchup        string           `json:"catchup,omitempty"`
	PauseOnFailure bool             `json:"pause_on_failure"`
	Zone           string           `json:"zone"`
	What           string           `json:"what"`
	Batch          int              `json:"batch,omitempty"` // items
	By             string           `json:"by,omitempty"`
	Next           []time.Time      `json:"next"`
	Running        int              `json:"running"`
	Recent         []ScheduleFiring `json:"recent"` // newest first
	Fired          int              `json:"fired"`
	Skipped        int              `json:"skipped"` // an earlier firing still ran
	Missed         int              `json:"missed"`  // Temporal was down for too long
	CreatedAt      time.Time        `json:"created_at"`
	UpdatedAt      time.Time        `json:"updated_at,omitzero"`
}

// A ScheduleFiring is one run of a schedule.
type ScheduleFiring struct {
	ID     string    `json:"id"` // of the session or batch
	At     time.Time `json:"at"` // when it was due
	State  string    `json:"state"`
	Status string    `json:"status,omitempty"` // of the turn, or the batch's successes
	Error  string    `json:"error,omitempty"`
}

// A ScheduleDeleted is the JSON of `ctl schedule delete`.
type ScheduleDeleted struct {
	Name    string `json:"name"`
	Closing int    `json:"closing"` // of those that it began
	Running int    `json:"running"` // of those that it began
	Batch   bool   `json:"-"`       // it began batches
}
