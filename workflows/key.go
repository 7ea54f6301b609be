package workflows

import (
	"crypto/sha256"
	"encoding/hex"

	"go.temporal.io/sdk/workflow"
)

// MemoClaim is the field of a memo that has a Claim: of the workflow of a key,
// and of what was started under it. It is read with no worker up, and after the
// end.
const MemoClaim = "claim"

// What a key can be given for.
const (
	ClaimSession = "session"
	ClaimBatch   = "batch"
)

// A Claim is what a key was given for: one thing of one id, begun by one request.
type Claim struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Request is the digest of all that was asked for.
	Request string `json:"request"`
}

// KeyID gives the id of the workflow that stands for a key. A key is anybody's
// text, and an id is shown to everybody: so it has the key's digest.
func KeyID(key string) string { return "key/" + keyDigest(key)[:40] }

// IDOfKey is the id of what is started under a key where nobody chose one.
func IDOfKey(key string) string { return "k-" + keyDigest(key)[:20] }

func keyDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ClaimKey gives a key to its first request: Temporal starts one workflow of an
// id, whoever asks at the same time, and remembers it for as long as it keeps
// what has ended. There is nothing to do then.
func ClaimKey(_ workflow.Context, in Claim) (Claim, error) { return in, nil }
