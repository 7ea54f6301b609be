package protocol

import (
	"time"
)

// HostView is the Host JSON of the command line.
type HostView struct {
	Name        string            `json:"name"`
	Address     string            `json:"address"`
	User        string            `json:"user"`
	Port        int               `json:"port"`
	Labels      map[string]string `json:"labels"`
	Slots       int               `json:"slots"`
	Used        int               `json:"used"`
	State       string            `json:"state"` // ready, unchecked, unfit, cordoned, draining, drained, suspect, quarantined
	Zone        string            `json:"zone"`
	Fingerprint string            `json:"fingerprint"`
	Codex       string            `json:"codex"`
	Sandbox     string            `json:"sandbox"`
	CheckedAt   *time.Time        `json:"checked_at"` // nil if never

	// Found are the labels that a probe found. Labels take precedence.
	Found  map[string]string `json:"found,omitempty"`
	Health *HostHealth       `json:"health,omitempty"`
	// Paused says why the zone starts no sessions.
	Paused *PoolPause `json:"paused,omitempty"`
	Drain  *Draining  `json:"drain,omitempty"`
	// WaitingFor says why the host's zone grants no slot: see PoolView.
	WaitingFor *WaitingView `json:"waiting_for,omitempty"`

	// Unclean is the number of sessions that may have left a credential there which is not
	// wiped yet. Leftovers lists these, and also the wiped ones.
	Unclean   int        `json:"unclean,omitempty"`
	Leftovers []Leftover `json:"leftovers,omitempty"`

	// Folders is the result of the newest listing of the host's session folders.
	// UnknownFolders are folders that are not known to be ours. They are never touched.
	Folders        *HostFolders    `json:"folders,omitempty"`
	UnknownFolders []UnknownFolder `json:"unknown_folders,omitempty"`

	Holders []string  `json:"holders,omitempty"` // sessions
	Queue   int       `json:"queue,omitempty"`
	Spec    *HostSpec `json:"spec,omitempty"`
}

// PutHost adds a host to the inventory, or replaces one.
type PutHost struct {
	Spec   HostSpec          `json:"spec"`
	Labels map[string]string `json:"labels,omitempty"`
	Slots  int               `json:"slots,omitempty"` // default 4
	// Jump names the jump host, in the same zone.
	Jump string `json:"jump,omitempty"`
	Zone string `json:"zone,omitempty"`
	// Replace allows replacing an existing host. Without it, an existing host is refused.
	Replace bool `json:"replace,omitempty"`
}

// PutHosts adds or changes many hosts of a zone: all of them, or none if one is refused. A
// jump host must come before the hosts that use it. If the settings for reaching a host do
// not change, only its labels and slots change, and the results of probes stay.
type PutHosts struct {
	Hosts []PutHost `json:"hosts"`
}

// PutHostsDone is the answer to PutHosts: how many hosts the zone now has.
type PutHostsDone struct {
	Hosts int `json:"hosts"`
}

// RemoveHost takes a host out of the inventory. It is refused while the host is in use.
type RemoveHost struct {
	Name string `json:"name"`
	// Force removes the host even if sessions may have left data there. Nobody wipes this
	// data after that.
	Force bool `json:"force,omitempty"`
}

// SetHost changes a host, or records the result of a probe.
type SetHost struct {
	Name   string           `json:"name"`
	Cordon *bool            `json:"cordon,omitempty"` // false ends a drain as well
	Drain  *Draining        `json:"drain,omitempty"`
	Check  *CheckHostResult `json:"check,omitempty"`
	Codex  string           `json:"codex,omitempty"` // the provisioned version
	// Labels are added to the labels that people set, and the labels in Unlabel are
	// removed. Slots, if not 0, is the new number of sessions that the host takes.
	Labels  map[string]string `json:"labels,omitempty"`
	Unlabel []string          `json:"unlabel,omitempty"`
	Slots   int               `json:"slots,omitempty"`
	// Failed says why a host task failed there.
	Failed *Failure `json:"failed,omitempty"`
}

// HostHealth describes a host that failed.
type HostHealth struct {
	State  string    `json:"state"`            // suspect, quarantined; a host that is well has no HostHealth
	Kind   string    `json:"kind,omitempty"`   // of the newest failure
	Reason string    `json:"reason,omitempty"` // in words
	Hint   string    `json:"hint,omitempty"`
	Since  time.Time `json:"since,omitzero"` // first of these failures
	// Tries counts the probes that have failed since Since. If the host was well only
	// for a short time before, it continues from the count of the earlier failure, plus
	// one. NextAt is when the host is probed next.
	Tries  int       `json:"tries,omitempty"`
	NextAt time.Time `json:"next_at,omitzero"`
}

// The health of a host, as found by the pool and not set by people.
const (
	HealthOK          = "ok"
	HealthSuspect     = "suspect"     // it has failed and will be probed
	HealthQuarantined = "quarantined" // probes fail as well: it gets no session until one succeeds
)

// Draining says that a host is being emptied, and how.
type Draining struct {
	How   string    `json:"how"` // park, move
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// What happens to the sessions of a drained host when their turns have ended.
const (
	DrainPark = "park" // they park, and resume on another host when somebody needs them
	DrainMove = "move" // they move to another host at once
)

// HostTaskInput names the host and its zone.
type HostTaskInput struct {
	Zone string   `json:"zone,omitempty"`
	Host HostSpec `json:"host"`
}

// HostFolders is the result of the newest listing of the session folders of a host.
type HostFolders struct {
	At      time.Time `json:"at"`
	Dir     string    `json:"dir,omitempty"`     // the folder that has them
	Unknown int       `json:"unknown,omitempty"` // folders not known to be ours
}

// UnknownFolder is a folder that is never touched, because it may belong to another
// installation on the same host, or to a session from before the database was lost.
type UnknownFolder struct {
	Session    string    `json:"session"`
	Generation int64     `json:"generation"`     // 0 if not known
	Since      time.Time `json:"since,omitzero"` // when that generation began
	Why        string    `json:"why"`            // why it is not known to be ours
}

// Leftover describes the data that an ended session may have left on a host because it
// could not clean up there, above all its credential. The pool of the host's zone wipes it
// as soon as the host can be reached, and keeps the proof.
type Leftover struct {
	Session    string    `json:"session"`
	Host       string    `json:"host"`
	Seed       string    `json:"seed,omitempty"`
	Generation int64     `json:"generation,omitempty"` // of the session; 0 if not known
	Since      time.Time `json:"since"`
	Why        string    `json:"why"`
	// Discard says that a person gave up data that could not be saved.
	Discard bool `json:"discard,omitempty"`

	Tries   int       `json:"tries,omitempty"`
	TriedAt time.Time `json:"tried_at,omitzero"`
	Error   string    `json:"error,omitempty"` // error of the newest try
	Hint    string    `json:"hint,omitempty"`

	// WipedAt is when the credential was verified to be gone.
	WipedAt time.Time `json:"wiped_at,omitzero"`
	Removed bool      `json:"removed,omitempty"` // the session's folder was verified to be gone
	Kept    string    `json:"kept,omitempty"`    // the folder with work and conversation, if it stays
	Archive string    `json:"archive,omitempty"`
	GivenUp bool      `json:"given_up,omitempty"` // a rotated login that nobody waited for was wiped too
	Ended   int       `json:"ended,omitempty"`    // number of processes that still ran
}

// PutSeed records a new generation of a seed.
type PutSeed struct {
	Name   string     `json:"name"`
	Ref    SeedRef    `json:"ref"` // Generation is assigned by the workflow
	Files  []SeedFile `json:"files"`
	By     string     `json:"by,omitempty"`
	Expect int64      `json:"expect,omitempty"` // the generation that the new one replaces; 0 means any
	Force  bool       `json:"force,omitempty"`  // also replace a login that codex rotated
	Share  *int       `json:"share,omitempty"`  // as in SetSeed
	Pools  *[]string  `json:"pools,omitempty"`
	// Elsewhere, Moved and Ask are as in activities.PutSeedInput.
	Elsewhere string `json:"elsewhere,omitempty"`
	Moved     bool   `json:"moved,omitempty"`
	Ask       bool   `json:"ask,omitempty"`
}

// SetSeed changes how a seed is shared; omitted values stay.
type SetSeed struct {
	By    string `json:"by,omitempty"`
	Share *int   `json:"share,omitempty"` // the number of sessions that may have the seed at the same time; 0 means any number
	// Pools are all the pools that the seed is in.
	Pools *[]string `json:"pools,omitempty"`
	// Policy is a policy that applies in every session with the seed, beside the session's
	// own policy. Empty means none.
	Policy *string `json:"policy,omitempty"`
	// Amend says that its sessions are offered amendments: decisions that change codex's rules
	// permanently.
	Amend *bool `json:"amend,omitempty"`
}

// ReviveSeed lets a seed go on with its stored generation. It gives up logins that could
// not be fetched or saved, and forgets the seed's health. If there is no such login and the
// health is good, it gives up logins that were left under leases of an earlier workflow of
// the seed.
type ReviveSeed struct {
	By string `json:"by,omitempty"`
}

// DeleteSeed deletes a seed. Purge removes its blobs too.
type DeleteSeed struct {
	Purge bool `json:"purge,omitempty"`
}

// SeedView is the Seed JSON of the command line.
type SeedView struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind"`
	Generation int64      `json:"generation"`
	State      string     `json:"state"`  // free, held, verifying, recovering
	Health     string     `json:"health"` // unknown, healthy, suspect, dead
	Reason     string     `json:"reason,omitempty"`
	Hint       string     `json:"hint,omitempty"`
	Since      *time.Time `json:"since,omitempty"` // start of the present health
	HeldBy     []string   `json:"held_by"`
	Epoch      int64      `json:"epoch"`
	Files      []SeedFile `json:"files"`
	VerifiedAt *time.Time `json:"verified_at"`

	Holders  []SeedHolder  `json:"holders,omitempty"`
	Queue    int           `json:"queue"` // number of waiting sessions
	Share    int           `json:"share"` // the number of sessions that may have the seed at the same time; 0 means any number
	Pools    []string      `json:"pools"`
	UsedAt   *time.Time    `json:"used_at,omitempty"`
	Rotated  *SeedRotated  `json:"rotated,omitempty"`
	Check    *SeedCheck    `json:"check,omitempty"` // the newest verification
	Recovery *SeedRecovery `json:"recovery,omitempty"`
	Exported *SeedExport   `json:"exported,omitempty"` // last
	Policy   *PolicyView   `json:"policy,omitempty"`
	Amend    bool          `json:"amend,omitempty"` // its sessions are offered amendments

	Ref     *SeedRef `json:"ref,omitempty"`
	Deleted bool     `json:"deleted,omitempty"`
}

// SeedCheck is the result of a verification: alive, dead, suspect, unknown, lost (a refresh was
// sent and its answer is not known), fresh (by the token's own data; the issuer was not asked),
// held or recovering (nothing was asked).
type SeedCheck struct {
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason,omitempty"`
	Hint    string    `json:"hint,omitempty"`
}

// SeedHolder is a session that has a seed, or ended without giving it back.
type SeedHolder struct {
	Session string    `json:"session"`
	Epoch   int64     `json:"epoch"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
}

// SeedPoolMember is the state of a seed, as the seed last reported it to its pool.
type SeedPoolMember struct {
	Name   string     `json:"name"`
	Free   bool       `json:"free"`
	State  string     `json:"state"`
	Health string     `json:"health"`
	UsedAt *time.Time `json:"used_at,omitempty"`
}

// SeedPoolView is the Seed pool JSON of the command line.
type SeedPoolView struct {
	Name  string           `json:"name"`
	Seeds []SeedPoolMember `json:"seeds"`
	Queue int              `json:"queue"` // sessions that wait for one of them
}

// SeedRecovery is the recovery from a holder that ended without giving the seed back.
type SeedRecovery struct {
	Session string     `json:"session"`
	Host    string     `json:"host"`
	Why     string     `json:"why"`
	Tries   int        `json:"tries"`
	NextTry *time.Time `json:"next_try,omitempty"`
	Problem *Failure   `json:"problem,omitempty"` // of the newest attempt
}

// SeedRotated is a login that codex rotated and that is not saved yet.
type SeedRotated struct {
	Session string    `json:"session"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"` // why it could not be saved so far
}

// The states of a seed.
const (
	SeedFree       = "free"
	SeedHeld       = "held"
	SeedVerifying  = "verifying"  // being refreshed; not granted meanwhile
	SeedRecovering = "recovering" // an ended holder's login is being fetched; not granted meanwhile
)

// SeedExport records the newest export of a seed.
type SeedExport struct {
	ExportSeed
	At         time.Time `json:"at"`
	Generation int64     `json:"generation"`
}

// ExportSeed asks for a seed's newest generation.
type ExportSeed struct {
	By        string `json:"by"`
	Recipient string `json:"recipient"` // an age recipient, age1…: public
}

// The health of a seed. The empty string means "unknown".
const (
	Healthy = "healthy"
	Suspect = "suspect" // no further session gets it until a person or a proof shows that it is good
	Dead    = "dead"    // its issuer refuses it, so requests for it are refused
)

// PausePool stops the granting of slots, or resumes it.
type PausePool struct {
	Resume bool   `json:"resume,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// SetPool sets how many slots a tenant or a seed may have. A nil field changes nothing.
type SetPool struct {
	Tenant string `json:"tenant,omitempty"`
	Seed   string `json:"seed,omitempty"`
	Weight *int   `json:"weight,omitempty"` // of a tenant's share of the slots; default 1
	Limit  *int   `json:"limit,omitempty"`  // slots at a time; 0 means no limit
	By     string `json:"by,omitempty"`
}

// Bounds on the values that people set.
const (
	MaxWeight = 1000
	MaxLimit  = 100_000
)

// PlaceQuery asks a pool whether any of its hosts can ever serve a session.
type PlaceQuery struct {
	Host   string            `json:"host,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Select []string          `json:"select,omitempty"`
}

// PlaceView is the answer: the hosts that can serve it, or why none ever can.
type PlaceView struct {
	Hosts  []string   `json:"hosts"`
	Never  *Failure   `json:"never,omitempty"`
	Paused *PoolPause `json:"paused,omitempty"`
}

// PoolHost is a host in a pool's view.
type PoolHost struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Slots int    `json:"slots"`
	Used  int    `json:"used"`
	// Health is nil while the host is well.
	Health *HostHealth `json:"health,omitempty"`
}

// PoolSeed says how many sessions use a seed on this zone's hosts, and how many
// may.
type PoolSeed struct {
	Name  string `json:"name"`
	Limit int    `json:"limit"`
	Used  int    `json:"used"`
}

// PoolTenant shows how many slots a tenant has and may have.
type PoolTenant struct {
	Name    string `json:"name"`
	Weight  int    `json:"weight"`
	Limit   int    `json:"limit"` // 0 means no limit
	Used    int    `json:"used"`
	Waiting int    `json:"waiting"`
}

// PoolWaiter is a session that waits for a slot.
type PoolWaiter struct {
	Session  string    `json:"session"`
	Position int       `json:"position"` // 1 is next
	Reason   string    `json:"reason"`
	Tenant   string    `json:"tenant"`
	Priority int       `json:"priority"`
	Host     string    `json:"host,omitempty"`    // the host that it asked for
	Selects  []string  `json:"selects,omitempty"` // the selectors that its host must meet
	Seed     string    `json:"seed,omitempty"`
	Since    time.Time `json:"since"`
}

// PoolPause says why no slots are granted.
type PoolPause struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	Since  time.Time `json:"since"`
}

// PoolView is the Pool JSON of the command line.
type PoolView struct {
	Zone   string     `json:"zone"`
	Paused *PoolPause `json:"paused,omitempty"`
	// WaitingFor says why a pool whose workflow was started anew grants no slot: it cannot
	// list the sessions that may hold slots.
	WaitingFor *WaitingView `json:"waiting_for,omitempty"`

	Slots  int   `json:"slots"` // of all hosts
	Used   int   `json:"used"`
	Free   int   `json:"free"` // on hosts that take sessions now
	Parked int   `json:"parked"`
	Grants int64 `json:"grants"` // since the zone began

	Hosts   []PoolHost   `json:"hosts"`
	Waiting int          `json:"waiting"`
	Queue   []PoolWaiter `json:"queue"` // in the order in which they get slots
	Tenants []PoolTenant `json:"tenants"`
	Seeds   []PoolSeed   `json:"seeds"` // seeds that have a limit in this zone
}
