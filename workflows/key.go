package workflows

import (
	"crypto/sha256"
	"encoding/hex"

	"go.temporal.io/sdk/workflow"
)

// MemoClaim is the memo field that holds a Claim, in the workflow of a key and in what was
// started under it. It can be read without a worker, and after the workflow's end.
const MemoClaim = "claim"

// What a key can be claimed for.
const (
	ClaimSession = "session"
	ClaimBatch   = "batch"
)

// Claim is what a key was given for: one session or batch, begun by one request.
type Claim struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Request is the digest of the whole request.
	Request string `json:"request"`
}

// KeyID returns the id of a key's workflow. The id contains a digest, because ids are visible to
// everybody and a key may be any text.
func KeyID(key string) string { return "key/" + keyDigest(key)[:40] }

// IDOfKey returns the id of what is started under a key if nobody chose one.
func IDOfKey(key string) string { return "k-" + keyDigest(key)[:20] }

func keyDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ClaimKey gives a key to its first request. It has nothing to do: Temporal starts only one
// workflow of an id, even for concurrent requests, and remembers it for the retention period.
func ClaimKey(_ workflow.Context, in Claim) (Claim, error) { return in, nil }
