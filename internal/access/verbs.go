package access

import (
	"slices"
	"strings"
)

// A Verb is what a principal wants to do, a noun and an act.
type Verb string

// The verbs. The names are part of access files and of audit records.
const (
	SessionRead      Verb = "session.read" // with transcript, approvals, deliverables and files of the work folder
	SessionStart     Verb = "session.start"
	SessionMessage   Verb = "session.message" // also steer
	SessionInterrupt Verb = "session.interrupt"
	SessionSet       Verb = "session.set"
	SessionPark      Verb = "session.park" // also resume and move
	SessionClose     Verb = "session.close"
	SessionExec      Verb = "session.exec" // a command in the work folder, which asks nobody
	ApprovalDecide   Verb = "approval.decide"
	SnapshotWrite    Verb = "snapshot.write"
	BatchRun         Verb = "batch.run"
	ScheduleWrite    Verb = "schedule.write"
	HostRead         Verb = "host.read"
	HostWrite        Verb = "host.write" // also drain, provision, clean up
	HostExec         Verb = "host.exec"
	HostTunnel       Verb = "host.tunnel" // connections to ports of a host
	SeedRead         Verb = "seed.read"   // never a secret
	SeedUse          Verb = "seed.use"    // a session may run on it
	SeedWrite        Verb = "seed.write"
	SeedExport       Verb = "seed.export" // a secret leaves
	AccessRead       Verb = "access.read"
	AuditRead        Verb = "audit.read"
	TokenWrite       Verb = "token.write"
	NotifyTest       Verb = "notify.test" // a message that says that it is a test
)

// Verbs are all verbs.
var Verbs = []Verb{SessionRead, SessionStart, SessionMessage, SessionInterrupt, SessionSet, SessionPark, SessionClose,
	SessionExec, ApprovalDecide, SnapshotWrite, BatchRun, ScheduleWrite, HostRead, HostWrite, HostExec, HostTunnel, SeedRead, SeedUse,
	SeedWrite, SeedExport, AccessRead, AuditRead, TokenWrite, NotifyTest}

// A Role is a named set of verbs.
type Role string

// The roles.
const (
	Viewer       Role = "viewer"
	Operator     Role = "operator"
	Approver     Role = "approver"
	HostOperator Role = "host-operator"
	SeedAdmin    Role = "seed-admin"
	Admin        Role = "admin"
)

// Roles are all roles.
var Roles = []Role{Viewer, Operator, Approver, HostOperator, SeedAdmin, Admin}

var reads = []Verb{SessionRead, HostRead, SeedRead}

// Verbs returns what a role allows, in the order of [Verbs].
func (r Role) Verbs() []Verb {
	var more []Verb
	switch r {
	case Viewer:
	case Operator:
		more = []Verb{SessionStart, SessionMessage, SessionInterrupt, SessionSet, SessionPark, SessionClose, SessionExec,
			SnapshotWrite, BatchRun, ScheduleWrite, SeedUse}
	case Approver:
		more = []Verb{ApprovalDecide}
	case HostOperator:
		more = []Verb{HostWrite, HostExec, HostTunnel}
	case SeedAdmin:
		more = []Verb{SeedUse, SeedWrite, SeedExport}
	case Admin:
		return Verbs
	default:
		return nil
	}
	return slices.DeleteFunc(slices.Clone(Verbs), func(v Verb) bool {
		return !slices.Contains(reads, v) && !slices.Contains(more, v)
	})
}

func names[T ~string](all []T) string {
	var b []string
	for _, n := range all {
		b = append(b, string(n))
	}
	return strings.Join(b, ", ")
}
