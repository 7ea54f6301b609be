package activities

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

// RefusedFenced is the type of the error with which a seed refuses somebody who
// does not hold it any more.
const RefusedFenced = "fenced"

// RefusedDead is the type of the error with which a seed refuses to refresh a
// login that its issuer does not know any more. Any other error than these
// means that it may be tried again.
const RefusedDead = "seed_dead"

// The types for a login of which nobody knows whether it is good.
const (
	RefusedLost    = "seed_lost"    // its refresh token may be spent, and the answer is gone
	RefusedSuspect = "seed_suspect" // its issuer said what we do not understand
)

// SeedWorkflowID gives the id of a seed's workflow.
func SeedWorkflowID(name string) string { return "seed/" + name }

// SeedFile is one file of a seed, never its content.
type SeedFile struct {
	Path   string `json:"path"`
	Mode   string `json:"mode"`
	Digest string `json:"digest"`
}

// SaveSeed moves a seed's pointer to what its holder's codex made of it: compare
// and set on (generation, epoch).
type SaveSeed struct {
	Holder string     `json:"holder"` // the session
	Epoch  int64      `json:"epoch"`  // of its lease
	From   int64      `json:"from"`   // the generation that was rotated
	Auth   string     `json:"auth"`   // SHA-256 of the new auth.json, hex
	Ref    SeedRef    `json:"ref"`    // in the store; Generation is the workflow's to say, Kind the seed's
	Files  []SeedFile `json:"files"`
}

// RotatedSeed says that an auth.json was seen that is in no store yet. Until it
// is saved nobody else gets the seed.
type RotatedSeed struct {
	Holder string `json:"holder"`
	Epoch  int64  `json:"epoch"`
	Auth   string `json:"auth"`
	Reason string `json:"reason,omitempty"` // why it could not be saved so far
}

// RefreshSeed asks for a login newer than the generation that the holder has,
// which does no more: the workflow has it refreshed and saved, and answers with
// what is saved. Where there is a newer one already, it answers with that at once.
// Who asks waits for a few seconds.
type RefreshSeed struct {
	Holder string `json:"holder"`
	Epoch  int64  `json:"epoch"`
	From   int64  `json:"from"`
}

// VerifySeed has a seed looked at. Force is a person's word: ask, although its
// refresh token may be spent.
type VerifySeed struct {
	Force bool   `json:"force,omitempty"`
	By    string `json:"by,omitempty"`
}

// SeedNow is what a seed's workflow knows of its newest generation.
type SeedNow struct {
	Generation int64    `json:"generation"`
	Auth       string   `json:"auth,omitempty"` // SHA-256 of its auth.json, hex; empty where it has none
	Ref        *SeedRef `json:"ref,omitempty"`
	// Holders are the epochs of those who hold it, and of one that has ended and
	// from whose host it is still to be fetched.
	Holders map[string]int64 `json:"holders,omitempty"`
	// Rotated is what was seen and is not saved yet.
	Rotated *RotatedSeed `json:"rotated,omitempty"`
}

// RecoverSeedInput: fetch what codex made of a seed from the host of a holder
// that has ended. The claim's generation is above the holder's.
type RecoverSeedInput struct {
	Seed  SeedRef `json:"seed"`
	Claim Claim   `json:"claim"`
	// Generation is the session's, when it held the seed, as far as it is known:
	// what a later one has on the host is left alone.
	Generation int64 `json:"generation,omitempty"`
}

// RecoverSeedResult says what is certain afterwards. While something was Saved
// nothing is Wiped: call again, with Saved as the Seed, once it counts.
type RecoverSeedResult struct {
	Absent bool       `json:"absent,omitempty"` // no login was there, or a logged-out one
	Saved  *SeedRef   `json:"saved,omitempty"`  // it had been rotated, and is in the store now
	Auth   string     `json:"auth,omitempty"`   // SHA-256 of that auth.json, hex
	Files  []SeedFile `json:"files,omitempty"`
	Wiped  bool       `json:"wiped"` // the credential is gone, looked at
}
