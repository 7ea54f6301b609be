package protocol

// FireResult is the outcome of one firing.
type FireResult struct {
	ID     string `json:"id"` // of the session, or the batch
	State  string `json:"state"`
	Status string `json:"status,omitempty"` // of the session's turn, or how many items of the batch are done
}

// A ScheduleNote is what a person wrote about a schedule, as lists show it.
type ScheduleNote struct {
	When []string `json:"when"`
	By   string   `json:"by,omitempty"`
	What string   `json:"what"` // the beginning of what codex is told, or the batch's file
	Zone string   `json:"zone,omitempty"`
	// Batch is how many items a batch's file has, or 0 if there is none.
	Batch int `json:"batch,omitempty"`
}
