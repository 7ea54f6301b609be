package snapshots

// SessionOf returns the session of a snapshot's id, or an error that wraps ErrNotFound.
func SessionOf(id string) (string, error) { return sessionOf(id) }
