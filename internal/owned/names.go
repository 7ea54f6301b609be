package owned

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

const prefix = "owned/"

// Kinds of owners.
const (
	Session  = "session"
	Batch    = "batch"
	Schedule = "schedule"
)

const (
	Pages    = "pages" // of a batch's items
	Results  = "results"
	Messages = "messages" // long prompts and output schemas
	Inputs   = "inputs"
	Tokens   = "tokens" // for git servers, shared by sessions
)

const (
	held      = "held"
	missed    = "missed"
	condemned = "condemned"

	ownerRule  = `(session|batch|schedule)\.([a-z0-9][a-z0-9._-]{0,62})`
	folderRule = ownerRule + `\.([0-9a-f]{16})(?:-([0-9a-f]{32}))?`
)

var (
	ownerPattern  = regexp.MustCompile(`^` + ownerRule + `$`)
	folderPattern = regexp.MustCompile(`^` + folderRule + `$`)
	blobPattern   = regexp.MustCompile(`^` + prefix + `(` + folderRule + `)/(pages|results|messages|inputs|tokens)/[0-9a-f]{64}$`)
)

// An Owner needs blobs for as long as Temporal knows it.
type Owner struct{ Kind, ID string }

// String returns the form used in keys.
func (o Owner) String() string { return o.Kind + "." + o.ID }

// TemporalID returns the id of the owner's workflow or Schedule.
func (o Owner) TemporalID() string { return o.Kind + "/" + o.ID }

func parseOwner(s string) (Owner, bool) {
	m := ownerPattern.FindStringSubmatch(s)
	if m == nil {
		return Owner{}, false
	}
	return Owner{m[1], m[2]}, true
}

// Check returns an error if o is not a valid owner.
func (o Owner) Check() error {
	if _, ok := parseOwner(o.String()); !ok {
		return fmt.Errorf("%.100q is not a valid owner (session.ID, batch.ID or schedule.NAME)", o.String())
	}
	return nil
}

// NewFolder returns a new, unique folder name.
func (o Owner) NewFolder() string {
	var b [8]byte
	rand.Read(b[:])
	return o.String() + "." + hex.EncodeToString(b[:])
}

// RunFolder returns the name of an owner's folder for a run, always the same.
func (o Owner) RunFolder(run string) string {
	sum := sha256.Sum256([]byte(run))
	return o.String() + "." + hex.EncodeToString(sum[:8])
}

// OwnerOf returns the owner of a folder, or false for another name.
func OwnerOf(folder string) (Owner, bool) {
	m := folderPattern.FindStringSubmatch(folder)
	if m == nil {
		return Owner{}, false
	}
	return Owner{m[1], m[2]}, true
}

// In returns the prefix, without a slash, of a family's blobs in a folder.
func In(folder, family string) string { return prefix + folder + "/" + family }

// Parse returns the folder and family of a blob's key, or false for another key.
func Parse(key string) (folder, family string, ok bool) {
	m := blobPattern.FindStringSubmatch(key)
	if m == nil {
		return "", "", false
	}
	return m[1], m[6], true
}

// Is reports whether key is that of a blob of the family.
func Is(key, family string) bool {
	_, f, ok := Parse(key)
	return ok && f == family
}

func folderOf(key string) (string, bool) {
	folder, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
	_, ok := OwnerOf(folder)
	return folder, ok
}
