package protocol

// SessionID gives the id of a session's workflow.
func SessionID(session string) string { return "session/" + session }

// SeedID gives the id of a seed's workflow.
func SeedID(name string) string { return "seed/" + name }
