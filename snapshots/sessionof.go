package snapshots

// SessionOf extracts the session from a snapshot's id. The error wraps ErrNotFound if id is
// not the id of a snapshot.
func SessionOf(id string) (string, error) { return sessionOf(id) }
