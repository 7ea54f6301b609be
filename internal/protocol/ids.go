package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// SessionID gives the id of a session's workflow.
func SessionID(session string) string { return "session/" + session }

// SeedID gives the id of a seed's workflow.
func SeedID(name string) string { return "seed/" + name }

// PoolID returns the id of a zone's pool workflow.
func PoolID(zone string) string {
	if zone == "" {
		zone = "default"
	}
	return "pool/" + zone
}

// SeedPoolID returns the id of the workflow of a pool of seeds.
func SeedPoolID(name string) string { return "seedpool/" + name }

// HostTaskID returns the id of a short workflow about a host, e.g. provision.
func HostTaskID(host, what string) string { return "host/" + host + "/" + what }

// TaskQueueOf returns the task queue of a zone's workers.
func TaskQueueOf(zone string) string {
	if zone == "" || zone == "default" {
		return TaskQueue
	}
	return TaskQueue + "-" + zone
}

// ZoneOf returns the zone whose workers serve a task queue.
func ZoneOf(queue string) string {
	if zone, ok := strings.CutPrefix(queue, TaskQueue+"-"); ok {
		return zone
	}
	return "default"
}

// BatchID returns the id of a batch's workflow.
func BatchID(id string) string { return "batch/" + id }

// ScheduleID returns the id of a schedule in Temporal. The workflow of a firing has the
// same id, to which Temporal appends the time.
func ScheduleID(name string) string { return ScheduleOrigins + name }

// ScheduleName returns the name in such an id, or false if the id has another form.
func ScheduleName(id string) (string, bool) { return strings.CutPrefix(id, ScheduleOrigins) }

// FiredID returns the id of the session or batch that a schedule starts at a time.
func FiredID(name string, at time.Time) string {
	return name + "-" + at.UTC().Format("20060102t150405z")
}

// LongestFiredID returns an id that is as long as the longest id that a schedule of that
// name makes.
func LongestFiredID(name string) string {
	return fmt.Sprintf("%s.%d", FiredID(name, time.Time{}), MaxFirings)
}

// MaxScheduleName bounds the name of a schedule. It leaves room for the time in the ids of
// the started sessions and batches.
const MaxScheduleName = 40

// MaxFirings bounds the firings for one time, including those that people repeat by hand.
const MaxFirings = 20

// KeyID returns the id of a key's workflow. The id contains a digest, because ids are visible to
// everybody and a key may be any text.
func KeyID(key string) string { return "key/" + KeyDigest(key)[:40] }

// IDOfKey returns the id of the session or batch that is started under a key, if the user
// chose no id.
func IDOfKey(key string) string { return "k-" + KeyDigest(key)[:20] }

func KeyDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// SendID returns the id of the message that brings a decision to codex. n is the approval's
// number.
func SendID(session string, n int) string { return fmt.Sprintf("%s.a%d", session, n) }

// OriginBatch returns the origin of the sessions of a batch.
func OriginBatch(id string) string { return BatchOrigins + id }

// OriginSchedule returns the origin of the sessions and batches that a schedule starts.
func OriginSchedule(name string) string { return ScheduleOrigins + name }

// Origins of sessions, in SessionOptions.Origin and the search attribute
// FairleadOrigin.
const (
	BatchOrigins    = "batch/"
	ScheduleOrigins = "schedule/"
)

// NamePattern matches the names of hosts, seeds and sessions.
var NamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// KeyClaim says which session or batch a key belongs to, and by which request it was
// started.
type KeyClaim struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Request is the digest of the whole request.
	Request string `json:"request"`
}

// The kinds of a KeyClaim.
const (
	ClaimSession = "session"
	ClaimBatch   = "batch"
)
