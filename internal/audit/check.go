package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// A Filter says which records are wanted.
type Filter struct {
	Workflow string // about this workflow or Schedule, or all if empty
	From     time.Time
}

// Wants reports whether a record is wanted.
func (f *Filter) Wants(r Record) bool {
	if at, err := time.Parse(time.RFC3339Nano, r.At); err != nil || at.Before(f.From) {
		return false
	}
	return f.Workflow == "" || strings.HasPrefix(r.Entity, f.Workflow+"/") || r.Object == f.Workflow ||
		strings.HasPrefix(f.Workflow, protocol.ScheduleOrigins) && strings.HasPrefix(r.Object, f.Workflow+"/") // refused acts on a schedule
}

// Time returns when a record was made, or the zero time, which Parse does not let through.
func (r Record) Time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, r.At)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Rules are what an access file says of keys.
type Rules struct {
	Digest          string
	People, Workers *sshsig.Allowed
	Revoked         func(ssh.PublicKey) string
}

// A Seen is the newest record of a chain that somebody has verified.
type Seen struct {
	Entity string    `json:"entity"`
	Seq    int64     `json:"seq"`
	Hash   string    `json:"hash"`
	At     time.Time `json:"at"` // when it was verified
}

// Verified is the JSON of `ctl audit verify`.
type Verified struct {
	Holds   bool `json:"holds"`
	Chains  int  `json:"chains"`
	Records int  `json:"records"`
	Heads   int  `json:"heads"` // chains whose newest record was compared with what their writer tells
	// Remembered is how many chains were compared with the newest record that ctl saw before.
	Remembered int      `json:"remembered"`
	Faults     []*Fault `json:"faults"`
	// Strays are records beside their chains, for whose commands nothing happened then.
	Strays []Stray `json:"strays,omitempty"`
	// Access is the digest of the access file by which Proofs judge the evidence of each record.
	Access string  `json:"access,omitempty"`
	Proofs []Proof `json:"proofs,omitempty"`
}

// Count counts the records whose evidence is worth this.
func (v Verified) Count(proof string) (n int) {
	for _, p := range v.Proofs {
		if p.Proof == proof {
			n++
		}
	}
	return n
}

// Check verifies the chains that have a wanted record. told are the heads that writers tell of
// their chains, and before those that were verified earlier, both by entity. If a chain of which
// a head is known has no record at all, it was removed. holding has the heads of the chains that hold.
func Check(lines []string, told map[string]protocol.AuditHead, before map[string]Seen, f Filter, rules *Rules) (v Verified, holding []Seen) {
	v = Verified{Faults: []*Fault{}}
	if rules != nil {
		v.Access = rules.Digest
	}
	logs, fault := Sort(lines)
	if fault != nil {
		v.Faults = append(v.Faults, fault)
	}
	there := map[string]bool{}
	for _, l := range logs {
		there[l.Entity] = true
	}
	// The chains of other workflows are read only if all are.
	for _, entity := range slices.Sorted(maps.Keys(told)) {
		if !there[entity] && (f.Workflow == "" || strings.HasPrefix(entity, f.Workflow+"/")) {
			there[entity] = true
			logs = append(logs, Log{Entity: entity})
		}
	}
	for _, entity := range slices.Sorted(maps.Keys(before)) {
		if !there[entity] {
			logs = append(logs, Log{Entity: entity})
		}
	}
	for _, l := range logs {
		var newest *protocol.AuditHead
		if h, is := told[l.Entity]; is {
			newest = &h
		}
		l := l.Along(newest)
		was, known := before[l.Entity]
		whole := (newest == nil || l.Reaches(newest.Seq, newest.Hash) == nil) && l.Reaches(was.Seq, was.Hash) == nil
		if whole && len(l.Records) > 0 && !slices.ContainsFunc(l.Records, f.Wants) {
			continue
		}
		v.Chains++
		v.Records += len(l.Records)
		v.Strays = append(v.Strays, strays(l)...)
		if newest != nil {
			v.Heads++
		}
		fault := l.Verify(newest)
		if known {
			v.Remembered++
			if fault == nil {
				fault = was.missing(l)
			}
		}
		if fault != nil {
			v.Faults = append(v.Faults, fault)
		} else if s, ok := headOf(l, newest, time.Now()); ok {
			holding = append(holding, s)
		}
		for _, r := range l.Records {
			if rules != nil && f.Wants(r) {
				v.Proofs = append(v.Proofs, r.Prove(rules.People, rules.Workers, rules.Revoked))
			}
		}
	}
	v.Holds = len(v.Faults) == 0 && v.Count(Unproved) == 0
	return v, holding
}

// A Stray is a record that a worker wrote before it died: Temporal never had the task in which the
// command was accepted.
type Stray struct {
	Entity    string `json:"entity"`
	Seq       int64  `json:"seq"`
	At        string `json:"at"`
	Principal string `json:"principal"`
	Verb      string `json:"verb"`
}

func strays(l Log) (all []Stray) {
	for _, r := range l.Strays {
		all = append(all, Stray{r.Entity, r.Seq, r.At, r.Principal, r.Verb})
	}
	return all
}

// missing says that a chain does not reach a head that was seen, or returns nil.
func (s Seen) missing(l Log) *Fault {
	fault := l.Reaches(s.Seq, s.Hash)
	if fault != nil {
		fault.Reason = fmt.Sprintf("%s (ctl verified record %d with digest %s at %s)", fault.Reason, s.Seq, s.Hash, s.At.UTC().Format(time.RFC3339))
	}
	return fault
}

// headOf returns the newest record of a chain that holds and that the store has. Records that
// only the workflow has may yet be lost without anybody's fault: Temporal's database can be restored.
func headOf(l Log, newest *protocol.AuditHead, now time.Time) (s Seen, ok bool) {
	n := len(l.Lines)
	if newest != nil && int64(n) <= newest.Seq {
		n = int(newest.Seq) - newest.Waiting
	}
	if newest == nil && l.Unsure() {
		n--
	}
	if n < 1 || n > len(l.Lines) {
		return s, false
	}
	return Seen{Entity: l.Entity, Seq: int64(n), Hash: Digest(l.Lines[n-1]), At: now.UTC().Truncate(time.Second)}, true
}
