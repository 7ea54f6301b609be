package inquiry

import (
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// SaveSeed asks a seed to take a login that its holder's codex rotated, by compare and set
// on (generation, epoch).
type SaveSeed struct {
	Holder string              `json:"holder"` // the session
	Epoch  int64               `json:"epoch"`  // of its lease
	From   int64               `json:"from"`   // the generation that was rotated
	Auth   string              `json:"auth"`   // SHA-256 of the new auth.json, hex
	Ref    protocol.SeedRef    `json:"ref"`    // the stored bundle; the workflow sets Generation, and Kind is the seed's
	Files  []protocol.SeedFile `json:"files"`
	Left   bool                `json:"left,omitempty"` // see RotatedSeed
}

// RotatedSeed reports a login that is not stored yet. Nobody else gets the seed before.
type RotatedSeed struct {
	Holder string `json:"holder"`
	Epoch  int64  `json:"epoch"`
	Auth   string `json:"auth"`
	Reason string `json:"reason,omitempty"` // why it is not saved yet
	// Left says that codex ended there and the login will be wiped. Then the seed takes
	// even a login whose lease an earlier workflow granted, unless somebody holds the seed.
	Left bool `json:"left,omitempty"`
}

// RefreshSeed asks for a newer login than the holder's, which does not work any more. The
// workflow refreshes and saves it unless it has one. The caller waits only a few seconds.
type RefreshSeed struct {
	Holder string `json:"holder"`
	Epoch  int64  `json:"epoch"`
	From   int64  `json:"from"`
}

// SeedNow is what a seed's workflow knows.
type SeedNow struct {
	Generation int64             `json:"generation"`
	Auth       string            `json:"auth,omitempty"` // SHA-256 of its auth.json, hex; empty without one
	Ref        *protocol.SeedRef `json:"ref,omitempty"`
	// Holders maps holders to their leases' epochs. An ended holder stays until its login
	// is fetched.
	Holders map[string]int64 `json:"holders,omitempty"`
	// Rotated is a login seen on a host and not saved yet.
	Rotated *RotatedSeed `json:"rotated,omitempty"`
	// First is below the epochs of all leases of this workflow. It is 0 if unknown, or if a
	// person gave up earlier leases.
	First int64 `json:"first,omitempty"`
	// Epoch is that of the newest lease; 0 if unknown. Lost are epochs of leases that this workflow
	// did not grant: Temporal's database was restored to an earlier point, or may have been.
	Epoch int64    `json:"epoch,omitempty"`
	Lost  []Epochs `json:"lost,omitempty"`
	// Settled is when a person last revived or imported the seed after a reconciliation, and so said
	// that no login is newer. It is zero if that did not happen.
	Settled time.Time `json:"settled,omitzero"`
	// Deleted says that the seed was deleted.
	Deleted bool `json:"deleted,omitempty"`
}

// Forgot reports whether the seed's workflow does not know the lease that a holder had under an epoch:
// nobody knows whether its login was saved. Either an earlier workflow, ended by force, granted it, or
// Temporal forgot it by a restore of its database. In the second case the seed takes its login only
// after `ctl recover --yes`. Epoch 0 is unknown.
func (n SeedNow) Forgot(holder string, epoch int64) bool {
	return n.First > 0 && epoch <= n.First || n.Epoch > 0 && epoch > n.Epoch || InAny(n.Lost, holder, epoch)
}

// InAny reports whether a holder's epoch is in one of the ranges and was not granted to it.
func InAny(all []Epochs, holder string, epoch int64) bool {
	return slices.ContainsFunc(all, func(e Epochs) bool { return e.First <= epoch && epoch <= e.Last && e.Granted[epoch] != holder })
}

// IsFree reports whether a holder without a known lease may save its login.
func (n SeedNow) IsFree(holder string) bool {
	return n.Ref != nil && len(n.Holders) == 0 && (n.Rotated == nil || n.Rotated.Holder == holder)
}

// RecoverSeedInput names an ended holder, whose login is fetched from its host. The claim's
// generation is above the holder's.
type RecoverSeedInput struct {
	Seed  protocol.SeedRef `json:"seed"`
	Claim protocol.Claim   `json:"claim"`
	// Generation is the generation of the session that held the seed, if known. A folder of
	// a later generation is left alone.
	Generation int64 `json:"generation,omitempty"`
}

// RecoverSeedResult is what is certain afterwards. If Saved is set, nothing is wiped: call
// again with Saved as Seed once it is the newest generation.
type RecoverSeedResult struct {
	Absent bool                `json:"absent,omitempty"` // no login, or a logged-out one
	Saved  *protocol.SeedRef   `json:"saved,omitempty"`  // the rotated login, stored now
	Auth   string              `json:"auth,omitempty"`   // SHA-256 of its auth.json, hex
	Files  []protocol.SeedFile `json:"files,omitempty"`
	Wiped  bool                `json:"wiped"` // the credential is gone, as RecoverSeed checked
}
