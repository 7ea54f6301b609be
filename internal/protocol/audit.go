package protocol

// QueryAudit returns a workflow's audit records that may not be in the store.
const QueryAudit = "audit" // → AuditView

// An AuditHead is the newest audit record of an entity, as the entity itself tells it.
type AuditHead struct {
	Entity  string `json:"entity"`
	Seq     int64  `json:"seq"`
	Hash    string `json:"hash"`              // SHA-256 of the record's line, in hex
	Waiting int    `json:"waiting,omitempty"` // records that may not be in the store
}

// AuditView has the audit records that wait for the store.
type AuditView struct {
	Head    *AuditHead `json:"head,omitempty"` // nil: there are no records
	Waiting []string   `json:"waiting,omitempty"`
}

// ActivityWriteAudit writes audit records: AuditBatch → the seq of the newest that is written.
const ActivityWriteAudit = "WriteAudit"

// An AuditBatch is records to be written, the oldest first.
type AuditBatch struct {
	Entity string   `json:"entity"`
	First  int64    `json:"first"` // seq of the first line
	Lines  []string `json:"lines"`
}

// Last returns the seq of the newest record of a batch.
func (b *AuditBatch) Last() int64 { return b.First + int64(len(b.Lines)) - 1 }
