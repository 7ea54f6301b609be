package protocol

// QueryFolders asks the pool workflow of a zone which sessions have, or may have, a
// folder on a host: → []LeftThere. Unlike QueryLeft it includes folders that stay
// because their content is nowhere else.
const QueryFolders = "folders"

// QueryLeft asks the pool workflow of a zone what may be left on its hosts: → []LeftThere.
const QueryLeft = "left"

// A Seed workflow owns the pointer to a seed's newest generation and the leases
// on it. Activities speak to it through Temporal, under these names; the types
// are here because activities do not know workflows.
const (
	UpdateSaveSeed    = "save_seed"    // SaveSeed → SeedNow
	UpdateRotatedSeed = "rotated_seed" // RotatedSeed → SeedNow
	UpdateRefreshSeed = "refresh_seed" // RefreshSeed → SeedNow
	UpdateVerifySeed  = "verify_seed"  // VerifySeed → workflows.SeedView
	QuerySeedNow      = "seed_now"     // → SeedNow
)

// SignalProgress tells a session's workflow what its model reported last, while its pump
// is attached. The worker's API and the pump's heartbeat have that at once; the signal
// is for Temporal's own lists, and costs five events. So it is sent at most every
// soonestReport, and less often the longer the pump stays: some 30 times in the first
// hour, 8 times in the second, and then 6 times an hour.
const SignalProgress = "progress"
