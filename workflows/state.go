package workflows

// sessionState is all that a session carries across continue-as-new.
type sessionState struct{}
