package protocol

// Workflow of `ctl recover`, which reconciles seeds with the store after Temporal's database
// was restored to an earlier point. At most one of each id runs.
const (
	TypeRecover = "RecoverSeeds"

	RecoverID     = "store/recover"
	LookRecoverID = "store/recover/dry-run" // only looks
)

// UpdateAdoptSeed is from the activity that reconciles seeds with the store.
const UpdateAdoptSeed = "adopt_seed"

// RecoverInput is the input of RecoverSeeds.
type RecoverInput struct {
	Commanded
	DryRun bool `json:"dry_run,omitempty"`
}

// RecoverResult has what was found of each seed, and what was done, or would be.
type RecoverResult struct {
	DryRun bool            `json:"dry_run"`
	Seeds  []RecoveredSeed `json:"seeds"`
	// Omitted counts further seeds, which are left out to bound the result. Those about which
	// there is something to say are left out last.
	Omitted int `json:"omitted,omitempty"`
	// Due counts the seeds for which something would be done, Doubtful those that are or
	// become suspect, and Failed those that could not be reconciled.
	Due      int `json:"due"`
	Doubtful int `json:"doubtful"`
	Failed   int `json:"failed"`
	// Sessions counts the sessions that run by Temporal's knowledge. Each finds out by itself
	// whether its host is further on.
	Sessions int `json:"sessions"`
}

// What is done with a seed.
const (
	RecoverNothing = "none"
	RecoverAdopt   = "adopt"   // a later login of the store becomes its generation
	RecoverSuspect = "suspect" // nobody gets it until a person decides
	RecoverAbsent  = "absent"  // the store has it, and Temporal does not know it, or it was deleted
)

// A RecoveredSeed says how a seed's generation in Temporal relates to what the store has.
type RecoveredSeed struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind,omitempty"`
	Generation int64    `json:"generation"` // by Temporal's knowledge
	Stored     int64    `json:"stored"`     // the highest generation number in the store; imports have none
	HeldBy     []string `json:"held_by,omitempty"`
	Action     string   `json:"action"`
	// Adopts is the generation whose login is adopted, and Becomes the number that it gets.
	Adopts  int64 `json:"adopts,omitempty"`
	Becomes int64 `json:"becomes,omitempty"`
	// Suspect says that the seed becomes suspect, also after Action adopt. Reason says why.
	Suspect bool   `json:"suspect,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Done    bool   `json:"done"`
	// Problem is why the seed could not be reconciled.
	Problem string `json:"problem,omitempty"`
}
