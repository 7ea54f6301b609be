package protocol

// FireResult is the outcome of one firing.
type FireResult struct {
	ID     string `json:"id"` // of the session or batch
	State  string `json:"state"`
	Status string `json:"status,omitempty"` // of the turn, or how many items are done
}

// What a person does to a schedule.
const (
	ScheduleCreate   = "create"
	ScheduleDelete   = "delete"
	SchedulePause    = "pause"
	ScheduleResume   = "resume"
	ScheduleTrigger  = "trigger"
	ScheduleBackfill = "backfill"
)

// ScheduleActs are all of them.
var ScheduleActs = []string{ScheduleCreate, ScheduleDelete, SchedulePause, ScheduleResume, ScheduleTrigger, ScheduleBackfill}

// MaxScheduleAbout bounds what a command says about its act on a schedule, in bytes.
const MaxScheduleAbout = 4 << 10

// A ScheduleNote is what lists show of a schedule.
type ScheduleNote struct {
	When []string `json:"when"`
	By   string   `json:"by,omitempty"`
	What string   `json:"what"` // beginning of the prompt, or the batch's file
	Zone string   `json:"zone,omitempty"`
	// Batch is the number of items; 0 means no batch.
	Batch int `json:"batch,omitempty"`
	// Request is the digest of the keyed request that made the schedule.
	Request string `json:"request,omitempty"`
}
