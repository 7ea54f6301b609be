package protocol

// FireResult is the outcome of one firing.
type FireResult struct {
	ID     string `json:"id"` // of the session, or the batch
	State  string `json:"state"`
	Status string `json:"status,omitempty"` // of the session's turn, or how many items of the batch are done
}

// A ScheduleNote has the data of a schedule that lists show, as the person who made it
// wrote it.
type ScheduleNote struct {
	When []string `json:"when"`
	By   string   `json:"by,omitempty"`
	What string   `json:"what"` // the beginning of the prompt, or the batch's file
	Zone string   `json:"zone,omitempty"`
	// Batch is the number of items in the batch's file, or 0 if the schedule starts no
	// batch.
	Batch int `json:"batch,omitempty"`
}
