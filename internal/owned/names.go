package owned

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// prefix is where folders are in the store.
const prefix = "owned/"

// What an owner can be.
const (
	Session  = "session"
	Batch    = "batch"
	Schedule = "schedule"
)

// The families of blobs.
const (
	Pages    = "pages"    // of a batch's items
	Results  = "results"  // of a batch's items
	Messages = "messages" // long prompts and output schemas
	Inputs   = "inputs"   // files that go with messages
	Tokens   = "tokens"   // for git servers, that several sessions share
)

const (
	held      = "held"
	missed    = "missed"
	condemned = "condemned"

	ownerRule  = `(session|batch|schedule)\.([a-z0-9][a-z0-9._-]{0,62})`
	folderRule = ownerRule + `\.([0-9a-f]{16})`
)

var (
	ownerPattern  = regexp.MustCompile(`^` + ownerRule + `$`)
	folderPattern = regexp.MustCompile(`^` + folderRule + `$`)
	blobPattern   = regexp.MustCompile(`^` + prefix + `(` + folderRule + `)/(pages|results|messages|inputs|tokens)/[0-9a-f]{64}$`)
)

// An Owner needs blobs, for as long as Temporal knows it.
type Owner struct{ Kind, ID string }

// String is how an owner is written down.
func (o Owner) String() string { return o.Kind + "." + o.ID }

// TemporalID is that of its workflow, or of its Schedule.
func (o Owner) TemporalID() string { return o.Kind + "/" + o.ID }

func parseOwner(s string) (Owner, bool) {
	m := ownerPattern.FindStringSubmatch(s)
	if m == nil {
		return Owner{}, false
	}
	return Owner{m[1], m[2]}, true
}

// Check says why that is no owner.
func (o Owner) Check() error {
	if _, ok := parseOwner(o.String()); !ok {
		return fmt.Errorf("%.100q is no session, batch or schedule that could own something", o.String())
	}
	return nil
}

// NewFolder names a folder that nobody has: for what an owner is given in one go.
func (o Owner) NewFolder() string {
	var b [8]byte
	rand.Read(b[:])
	return o.String() + "." + hex.EncodeToString(b[:])
}

// RunFolder names the folder of one run of an owner: the same each time.
func (o Owner) RunFolder(run string) string {
	sum := sha256.Sum256([]byte(run))
	return o.String() + "." + hex.EncodeToString(sum[:8])
}

// OwnerOf is whose folder it is; false where it is none.
func OwnerOf(folder string) (Owner, bool) {
	m := folderPattern.FindStringSubmatch(folder)
	if m == nil {
		return Owner{}, false
	}
	return Owner{m[1], m[2]}, true
}

// In is where in a folder blobs of a family are.
func In(folder, family string) string { return prefix + folder + "/" + family }

// Parse tells of a blob's key in which folder and of which family it is; false
// where it is none of ours.
func Parse(key string) (folder, family string, ok bool) {
	m := blobPattern.FindStringSubmatch(key)
	if m == nil {
		return "", "", false
	}
	return m[1], m[5], true
}

// Is says whether a key is one of a blob of that family.
func Is(key, family string) bool {
	_, f, ok := Parse(key)
	return ok && f == family
}

// folderOf is the folder that a key is in; false where it is in none.
func folderOf(key string) (string, bool) {
	folder, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
	_, ok := OwnerOf(folder)
	return folder, ok
}
