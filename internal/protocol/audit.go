package protocol

// QueryAudit returns a session's audit records that may not be in the store.
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
