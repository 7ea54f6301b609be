package activities

// Types of the application errors that activities return; workflows branch on
// them with (*temporal.ApplicationError).Type(). Details hold one Problem
// whose Kind is the same word.
const (
	ErrTypeUnreachable    = "unreachable"     // retried for a while, then the work fails
	ErrTypeWireLost       = "wire_lost"       // retried for ever: the journal has everything
	ErrTypeAuth           = "host_auth"       // the host refused our keys
	ErrTypeHostKey        = "host_key"        // unknown or changed
	ErrTypeFenced         = "fenced"          // the host knows a newer holder
	ErrTypeNoSpace        = "no_space"        // host's disk is full
	ErrTypeCodexMissing   = "codex_missing"   // none there, and none could be brought
	ErrTypeCodexVersion   = "codex_version"   // outside the window
	ErrTypeSandbox        = "sandbox"         // cannot confine as asked
	ErrTypeSeed           = "seed"            // missing, torn or wrong key
	ErrTypeStore          = "store"           // the blob store cannot be reached or read
	ErrTypeBadInput       = "bad_input"       // e.g. --dir is not a directory
	ErrTypeOutcomeUnknown = "outcome_unknown" // may or may not have happened
	ErrTypeInternal       = "internal"
)
