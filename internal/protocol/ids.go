package protocol

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// SessionID is the id of a session's workflow.
func SessionID(session string) string { return "session/" + session }

// SeedID is the id of a seed's workflow.
func SeedID(name string) string { return "seed/" + name }

// PoolID is the id of a zone's pool workflow.
func PoolID(zone string) string {
	if zone == "" {
		zone = "default"
	}
	return "pool/" + zone
}

// SeedPoolID is the id of a seed pool's workflow.
func SeedPoolID(name string) string { return "seedpool/" + name }

// HostTaskID is the id of a short workflow about a host.
func HostTaskID(host, what string) string { return "host/" + host + "/" + what }

// TaskQueueOf is the task queue of a zone's workers.
func TaskQueueOf(zone string) string {
	if zone == "" || zone == "default" {
		return TaskQueue
	}
	return TaskQueue + "-" + zone
}

// ZoneOf is the inverse of TaskQueueOf.
func ZoneOf(queue string) string {
	if zone, ok := strings.CutPrefix(queue, TaskQueue+"-"); ok {
		return zone
	}
	return "default"
}

// BatchID is the id of a batch's workflow.
func BatchID(id string) string { return "batch/" + id }

// ScheduleID is the id of a schedule in Temporal, which appends the time for a firing's
// workflow.
func ScheduleID(name string) string { return ScheduleOrigins + name }

// ScheduleName is the inverse of ScheduleID.
func ScheduleName(id string) (string, bool) { return strings.CutPrefix(id, ScheduleOrigins) }

// ScheduleActID is the id of the workflow that puts an act on a schedule on record.
func ScheduleActID(name, act, unique string) string {
	return ScheduleID(name) + "/" + act + "-" + unique
}

// FiredID is the id of what a schedule starts at a time.
func FiredID(name string, at time.Time) string {
	return name + "-" + at.UTC().Format("20060102t150405z")
}

// LongestFiredID has the greatest length of the ids that a schedule of this name makes.
func LongestFiredID(name string) string {
	return fmt.Sprintf("%s.%d", FiredID(name, time.Time{}), MaxFirings)
}

// MaxScheduleName bounds a schedule's name, to leave room for the time in ids.
const MaxScheduleName = 40

// MaxFirings bounds the firings for one time, including those that people repeat.
const MaxFirings = 20

// KeyID is the id of a key's workflow. It has only a digest of the key, because everybody
// can see ids.
func KeyID(key string) string { return "key/" + KeyDigest(key)[:40] }

// IDOfKey is the default id of the session or batch started under a key.
func IDOfKey(key string) string { return "k-" + KeyDigest(key)[:20] }

func KeyDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// SendID is the id of the message with the decision on approval n.
func SendID(session string, n int) string { return fmt.Sprintf("%s.a%d", session, n) }

// OriginBatch is the origin of a batch's sessions.
func OriginBatch(id string) string { return BatchOrigins + id }

// OriginSchedule is the origin of a schedule's sessions and batches.
func OriginSchedule(name string) string { return ScheduleOrigins + name }

// OriginSession is the origin of a session's follow-ups.
func OriginSession(id string) string { return SessionOrigins + id }

// Prefixes of session.Options.Origin and the search attribute FairleadOrigin.
const (
	BatchOrigins    = "batch/"
	ScheduleOrigins = "schedule/"
	SessionOrigins  = "session/"
	ParentOrigins   = "parent/" // of a child
)

// NamePattern matches names of hosts, seeds and sessions.
var NamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// KeyClaim says what a key was used to start, and by which request.
type KeyClaim struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Request is a digest of the whole request.
	Request string `json:"request"`
}

// The kinds of a KeyClaim.
const (
	ClaimSession  = "session"
	ClaimBatch    = "batch"
	ClaimSchedule = "schedule"
)

// CutApproval splits an approval's id, such as s1.2, into session and number.
func CutApproval(id string) (session, n string, ok bool) {
	i := strings.LastIndexByte(id, '.')
	if i < 1 || i == len(id)-1 || strings.Trim(id[i+1:], "0123456789") != "" {
		return "", "", false
	}
	return id[:i], id[i+1:], true
}

// RandomID returns a random name of 50 bits. It is not for workflows.
func RandomID() string {
	b := make([]byte, 7)
	rand.Read(b)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))[:10]
}
