package snapshots

// SessionOf takes the session out of a snapshot's id. ErrNotFound where it is
// not the id of one.
func SessionOf(id string) (string, error) { return sessionOf(id) }
