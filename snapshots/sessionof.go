package snapshots

// SessionOf extracts the session from a snapshot's id. The error is ErrNotFound if that is
// not one.
func SessionOf(id string) (string, error) { return sessionOf(id) }
