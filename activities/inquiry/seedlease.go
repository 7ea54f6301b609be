package inquiry

import (
	"fairlead.dev/fairlead/internal/protocol"
)

// SaveSeed asks a seed to take a login as its newest generation. The codex of the
// seed's holder has rotated this login. The seed takes it by compare and set on
// (generation, epoch).
type SaveSeed struct {
	Holder string              `json:"holder"` // the session
	Epoch  int64               `json:"epoch"`  // of its lease
	From   int64               `json:"from"`   // the generation that was rotated
	Auth   string              `json:"auth"`   // SHA-256 of the new auth.json, hex
	Ref    protocol.SeedRef    `json:"ref"`    // the bundle in the store; the workflow sets Generation, and Kind is the seed's
	Files  []protocol.SeedFile `json:"files"`
	Left   bool                `json:"left,omitempty"` // see RotatedSeed
}

// RotatedSeed reports an auth.json that is not in the store yet. Until it is saved,
// nobody else is granted the seed.
type RotatedSeed struct {
	Holder string `json:"holder"`
	Epoch  int64  `json:"epoch"`
	Auth   string `json:"auth"`
	Reason string `json:"reason,omitempty"` // why it could not be saved so far
	// Left says that codex has ended on that host and the login is about to be wiped
	// there. Then the seed also takes a login whose lease an earlier workflow of the
	// seed granted, unless somebody holds the seed.
	Left bool `json:"left,omitempty"`
}

// RefreshSeed asks for a login newer than the holder's generation, which does not work
// any more. The workflow refreshes the login, saves it, and answers with the saved one.
// If there is a newer login already, it answers at once. The caller waits only a few
// seconds.
type RefreshSeed struct {
	Holder string `json:"holder"`
	Epoch  int64  `json:"epoch"`
	From   int64  `json:"from"`
}

// SeedNow is what a seed's workflow knows of its newest generation.
type SeedNow struct {
	Generation int64             `json:"generation"`
	Auth       string            `json:"auth,omitempty"` // SHA-256 of its auth.json, hex; empty if it has none
	Ref        *protocol.SeedRef `json:"ref,omitempty"`
	// Holders maps each holder to the epoch of its lease. A holder that has ended
	// stays until its login is fetched from its host.
	Holders map[string]int64 `json:"holders,omitempty"`
	// Rotated is a login that was seen on a host and is not saved yet.
	Rotated *RotatedSeed `json:"rotated,omitempty"`
	// First is below the epochs of all leases that this workflow granted. It is 0 if a
	// person has given up the leases of the seed's earlier workflows, or if this
	// workflow does not know the value.
	First int64 `json:"first,omitempty"`
}

// Forgot reports whether a lease may have been granted by an earlier workflow of the
// seed, which was ended by force. This workflow does not know the holder of such a
// lease, or whether its login was saved. Epoch 0 is a lease that is not known.
func (n SeedNow) Forgot(epoch int64) bool { return n.First > 0 && epoch <= n.First }

// IsFree reports whether the login of a holder whose lease this workflow does not know
// may become the next generation.
func (n SeedNow) IsFree(holder string) bool {
	return n.Ref != nil && len(n.Holders) == 0 && (n.Rotated == nil || n.Rotated.Holder == holder)
}

// RecoverSeedInput names a holder that has ended. RecoverSeed fetches the login from
// the holder's host. The claim's generation is above the holder's.
type RecoverSeedInput struct {
	Seed  protocol.SeedRef `json:"seed"`
	Claim protocol.Claim   `json:"claim"`
	// Generation is the session's generation when it held the seed, as far as it is
	// known. RecoverSeed leaves alone whatever a later generation has on the host.
	Generation int64 `json:"generation,omitempty"`
}

// RecoverSeedResult has what is certain afterwards. If Saved is set, nothing is wiped:
// call again with Saved as the Seed after the workflow has made it the newest
// generation.
type RecoverSeedResult struct {
	Absent bool                `json:"absent,omitempty"` // no login was there, or a logged-out one
	Saved  *protocol.SeedRef   `json:"saved,omitempty"`  // the rotated login, which is in the store now
	Auth   string              `json:"auth,omitempty"`   // SHA-256 of that auth.json, hex
	Files  []protocol.SeedFile `json:"files,omitempty"`
	Wiped  bool                `json:"wiped"` // the credential is gone; RecoverSeed checked this
}
