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
	CheckedAt   *time.Time        `json:"checked_at"`

	// Found are the probe's labels; Labels take precedence.
	Found      map[string]string `json:"found,omitempty"`
	Health     *HostHealth       `json:"health,omitempty"`
	Paused     *PoolPause        `json:"paused,omitempty"`
	Drain      *Draining         `json:"drain,omitempty"`
	WaitingFor *WaitingView      `json:"waiting_for,omitempty"`

	// Unclean counts the sessions that may have left a credential that is not wiped yet.
	// Leftovers also has wiped ones.
	Unclean   int        `json:"unclean,omitempty"`
	Leftovers []Leftover `json:"leftovers,omitempty"`

	// UnknownFolders are not known to be ours and are never touched.
	Folders        *HostFolders    `json:"folders,omitempty"`
	UnknownFolders []UnknownFolder `json:"unknown_folders,omitempty"`

	Holders []string  `json:"holders,omitempty"`
	Queue   int       `json:"queue,omitempty"`
	Spec    *HostSpec `json:"spec,omitempty"`
}

// PutHost adds a host to the inventory, or with Replace replaces one.
type PutHost struct {
	Commanded
	Spec    HostSpec          `json:"spec"`
	Labels  map[string]string `json:"labels,omitempty"`
	Slots   int               `json:"slots,omitempty"` // default 4
	Jump    string            `json:"jump,omitempty"`
	Zone    string            `json:"zone,omitempty"`
	Replace bool              `json:"replace,omitempty"`
}

// PutHosts adds or changes many hosts of a zone: all, or none if one is refused. A jump
// host must precede the hosts that use it. Probe results stay if only labels and slots of a
// host change.
type PutHosts struct {
	Commanded
	Hosts []PutHost `json:"hosts"`
}

// PutHostsDone has the zone's number of hosts.
type PutHostsDone struct {
	Hosts int `json:"hosts"`
}

// RemoveHost takes a host out of the inventory, unless it is in use.
type RemoveHost struct {
	Commanded
	Name string `json:"name"`
	// Force removes the host even if sessions may have left data there, which nobody wipes
	// later.
	Force bool `json:"force,omitempty"`
}

// SetHost changes a host, or records a probe.
type SetHost struct {
	Commanded
	Name   string           `json:"name"`
	Cordon *bool            `json:"cordon,omitempty"` // false also ends a drain
	Drain  *Draining        `json:"drain,omitempty"`
	Check  *CheckHostResult `json:"check,omitempty"`
	Codex  string           `json:"codex,omitempty"`
	// Labels are added to the labels that people set, and those in Unlabel are removed.
	// Slots 0 changes nothing.
	Labels  map[string]string `json:"labels,omitempty"`
	Unlabel []string          `json:"unlabel,omitempty"`
	Slots   int               `json:"slots,omitempty"`
	// Failed says why a host task failed.
	Failed *Failure `json:"failed,omitempty"`
}

// HostHealth describes a host that failed.
type HostHealth struct {
	State  string    `json:"state"`
	Kind   string    `json:"kind,omitempty"` // of the newest failure
	Reason string    `json:"reason,omitempty"`
	Hint   string    `json:"hint,omitempty"`
	Since  time.Time `json:"since,omitzero"` // first of these failures
	// Tries counts failed probes since Since. A host that was well only briefly continues
	// from the earlier count plus one. NextAt is the next probe.
	Tries  int       `json:"tries,omitempty"`
	NextAt time.Time `json:"next_at,omitzero"`
}

// The health of a host, as the pool found it.
const (
	HealthOK          = "ok"
	HealthSuspect     = "suspect"
	HealthQuarantined = "quarantined" // probes fail too, or it sends too much: no sessions until one succeeds
)

// Draining says how a host is emptied.
type Draining struct {
	How   string    `json:"how"`
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// What a drained host's sessions do when their turns have ended.
const (
	DrainPark = "park" // park, and resume elsewhere when needed
	DrainMove = "move" // go to another host at once
)

// HostTaskInput is the input of workflows about one host.
type HostTaskInput struct {
	Commanded
	Zone string   `json:"zone,omitempty"`
	Host HostSpec `json:"host"`
}

// HostFolders is the newest listing of a host's session folders.
type HostFolders struct {
	At      time.Time `json:"at"`
	Dir     string    `json:"dir,omitempty"`
	Unknown int       `json:"unknown,omitempty"` // folders not known to be ours
}

// UnknownFolder is never touched: it may belong to another installation, or to a session
// from before the database was lost.
type UnknownFolder struct {
	Session    string    `json:"session"`
	Generation int64     `json:"generation"`     // 0 if unknown
	Since      time.Time `json:"since,omitzero"` // of that generation
	Why        string    `json:"why"`
}

// Leftover is the data, above all the credential, that an ended session may have left on a
// host. The zone's pool wipes it once the host can be reached, and keeps the proof.
type Leftover struct {
	Session    string    `json:"session"`
	Host       string    `json:"host"`
	Seed       string    `json:"seed,omitempty"`
	Generation int64     `json:"generation,omitempty"` // 0 if unknown
	Since      time.Time `json:"since"`
	Why        string    `json:"why"`
	// Discard says that a person gave up data that could not be saved.
	Discard bool `json:"discard,omitempty"`

	Tries   int       `json:"tries,omitempty"`
	TriedAt time.Time `json:"tried_at,omitzero"`
	Error   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`

	// WipedAt is when the credential was verified to be gone.
	WipedAt time.Time `json:"wiped_at,omitzero"`
	Removed bool      `json:"removed,omitempty"` // the session's folder was verified to be gone
	Kept    string    `json:"kept,omitempty"`    // folder with work and conversation, if it stays
	Archive string    `json:"archive,omitempty"`
	GivenUp bool      `json:"given_up,omitempty"` // a rotated login that no seed waited for was wiped too
	Ended   int       `json:"ended,omitempty"`    // processes that still ran
}

// PutSeed records a new generation of a seed.
type PutSeed struct {
	Commanded
	Name   string     `json:"name"`
	Ref    SeedRef    `json:"ref"` // the workflow assigns Generation
	Files  []SeedFile `json:"files"`
	By     string     `json:"by,omitempty"`
	Expect int64      `json:"expect,omitempty"` // generation to replace; 0 means any
	Force  bool       `json:"force,omitempty"`  // also replace a login that codex rotated
	Share  *int       `json:"share,omitempty"`
	Pools  *[]string  `json:"pools,omitempty"`
	// Elsewhere, Moved and Ask are as in overseer.PutSeedInput.
	Elsewhere string `json:"elsewhere,omitempty"`
	Moved     bool   `json:"moved,omitempty"`
	Ask       bool   `json:"ask,omitempty"`
	// Account is who a ChatGPT login belongs to, by its own claims.
	Account *SeedAccount `json:"account,omitempty"`
	// Tools are those that the bundle gives to each session.
	Tools []SeedTool `json:"tools,omitempty"`
	// FollowUps are the rules that the bundle gives to each session.
	FollowUps []SeedFollowUp `json:"follow_ups,omitempty"`
}

// SetSeed changes how a seed is shared; omitted values stay.
type SetSeed struct {
	Commanded
	By    string    `json:"by,omitempty"`
	Share *int      `json:"share,omitempty"` // sessions at the same time; 0 means any number
	Pools *[]string `json:"pools,omitempty"`
	// Policy applies in every session with the seed, beside the session's own; "" means
	// none.
	Policy *string `json:"policy,omitempty"`
	// Amend offers amendments: decisions that change codex's rules permanently.
	Amend *bool `json:"amend,omitempty"`
	// Bounds replaces what sessions with the seed may ask for; the zero value means
	// anything.
	Bounds *Ceiling `json:"bounds,omitempty"`
	// Credentials is how sessions that do not say it get the credential: planted or gateway; none
	// means that the organisation's default counts.
	Credentials *string `json:"credentials,omitempty"`
}

// ReviveSeed lets a seed go on with its stored generation. It gives up logins that could
// not be fetched or saved, and forgets the seed's health. If there is no such login and the
// health is good, it gives up logins left under leases of an earlier workflow of the seed.
type ReviveSeed struct {
	Commanded
	By string `json:"by,omitempty"`
}

// DeleteSeed deletes a seed, and with Purge its blobs too.
type DeleteSeed struct {
	Commanded
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
	Since      *time.Time `json:"since,omitempty"` // start of this health
	HeldBy     []string   `json:"held_by"`
	Epoch      int64      `json:"epoch"`
	Files      []SeedFile `json:"files"`
	VerifiedAt *time.Time `json:"verified_at"`

	Holders  []SeedHolder  `json:"holders,omitempty"`
	Queue    int           `json:"queue"` // waiting sessions
	Share    int           `json:"share"`
	Pools    []string      `json:"pools"`
	UsedAt   *time.Time    `json:"used_at,omitempty"`
	Rotated  *SeedRotated  `json:"rotated,omitempty"`
	Check    *SeedCheck    `json:"check,omitempty"`
	Recovery *SeedRecovery `json:"recovery,omitempty"`
	Exported *SeedExport   `json:"exported,omitempty"`
	Policy   *PolicyView   `json:"policy,omitempty"`
	Amend    bool          `json:"amend,omitempty"`
	Bounds   *Ceiling      `json:"bounds,omitempty"`
	// Credentials is how sessions that do not say it get the credential.
	Credentials string `json:"credentials,omitempty"`
	// Account is who a ChatGPT login belongs to, and how much of it is used.
	Account *SeedAccountView `json:"account,omitempty"`
	// Gateway is what the model gateway did for sessions with the seed.
	Gateway *ModelUse `json:"gateway,omitempty"`
	// Tools are those that the seed gives to each session.
	Tools []SeedTool `json:"tools,omitempty"`
	// FollowUps are the rules that the seed gives to each session.
	FollowUps []SeedFollowUp `json:"follow_ups,omitempty"`

	Ref     *SeedRef `json:"ref,omitempty"`
	Deleted bool     `json:"deleted,omitempty"`
}

// SeedCheck is a verification. Verdict is alive, dead, suspect, unknown, lost (a refresh
// was sent, its answer is unknown), fresh (by the token's own data, without asking the
// issuer), held or recovering (nothing was asked).
type SeedCheck struct {
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason,omitempty"`
	Hint    string    `json:"hint,omitempty"`
}

// SeedHolder has a seed, or ended without giving it back.
type SeedHolder struct {
	Session string    `json:"session"`
	Epoch   int64     `json:"epoch"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
}

// SeedPoolMember is a seed's state as last reported to its pool.
type SeedPoolMember struct {
	Name   string     `json:"name"`
	Free   bool       `json:"free"`
	State  string     `json:"state"`
	Health string     `json:"health"`
	UsedAt *time.Time `json:"used_at,omitempty"`
	// Use is nearly_used_up or used_up, until UseUntil, or empty.
	Use      string     `json:"use,omitempty"`
	UseUntil *time.Time `json:"use_until,omitempty"`
}

// WithUse returns m with a use that is not empty, and its end.
func (m SeedPoolMember) WithUse(use string, until time.Time) SeedPoolMember {
	if use != "" {
		m.Use, m.UseUntil = use, &until
	}
	return m
}

// SeedPoolView is the Seed pool JSON of the command line.
type SeedPoolView struct {
	Name  string           `json:"name"`
	Seeds []SeedPoolMember `json:"seeds"`
	Queue int              `json:"queue"`
}

// SeedRecovery recovers from a holder that ended without giving the seed back.
type SeedRecovery struct {
	Session string     `json:"session"`
	Host    string     `json:"host"`
	Why     string     `json:"why"`
	Tries   int        `json:"tries"`
	NextTry *time.Time `json:"next_try,omitempty"`
	Problem *Failure   `json:"problem,omitempty"`
}

// SeedRotated is a login that codex rotated and that is not saved yet.
type SeedRotated struct {
	Session string    `json:"session"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"`
}

// States of a seed.
const (
	SeedFree       = "free"
	SeedHeld       = "held"
	SeedVerifying  = "verifying"  // being refreshed; not granted meanwhile
	SeedRecovering = "recovering" // a former holder's login is being fetched; not granted meanwhile
)

// SeedExport records an export of a seed.
type SeedExport struct {
	ExportSeed
	At         time.Time `json:"at"`
	Generation int64     `json:"generation"`
}

// ExportSeed asks for a seed's newest generation.
type ExportSeed struct {
	Commanded
	By        string `json:"by"`
	Recipient string `json:"recipient"` // age1…
}

// The health of a seed; "" means unknown.
const (
	Healthy = "healthy"
	Suspect = "suspect" // granted to no session until a person or a proof shows that it is good
	Dead    = "dead"    // refused by its issuer; requests for it are refused
)

// PausePool stops or resumes the granting of slots.
type PausePool struct {
	Commanded
	Resume bool   `json:"resume,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// SetPool limits the slots of a tenant or a seed. Nil changes nothing.
type SetPool struct {
	Commanded
	Tenant string `json:"tenant,omitempty"`
	Seed   string `json:"seed,omitempty"`
	Weight *int   `json:"weight,omitempty"` // default 1
	Limit  *int   `json:"limit,omitempty"`  // slots; 0 means no limit
	By     string `json:"by,omitempty"`
}

// Bounds of SetPool.
const (
	MaxWeight = 1000
	MaxLimit  = 100_000
)

// PlaceQuery asks a pool whether any host can ever serve a session.
type PlaceQuery struct {
	Host   string            `json:"host,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Select []string          `json:"select,omitempty"`
	// Elsewhere says that the worker's own machine will not do.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// PlaceView has the hosts that can serve the session, or the reason why none ever can.
type PlaceView struct {
	Hosts  []string   `json:"hosts"`
	Never  *Failure   `json:"never,omitempty"`
	Paused *PoolPause `json:"paused,omitempty"`
}

// PoolHost is a host in a PoolView.
type PoolHost struct {
	Name   string      `json:"name"`
	State  string      `json:"state"`
	Slots  int         `json:"slots"`
	Used   int         `json:"used"`
	Health *HostHealth `json:"health,omitempty"`
}

// PoolSeed says how many sessions use a seed in the zone, and how many may.
type PoolSeed struct {
	Name  string `json:"name"`
	Limit int    `json:"limit"`
	Used  int    `json:"used"`
}

// PoolTenant says how many slots a tenant has and may have.
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
	Position int       `json:"position"` // from 1
	Reason   string    `json:"reason"`
	Tenant   string    `json:"tenant"`
	Priority int       `json:"priority"`
	Host     string    `json:"host,omitempty"`
	Selects  []string  `json:"selects,omitempty"`
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

	Slots  int   `json:"slots"`
	Used   int   `json:"used"`
	Free   int   `json:"free"` // on hosts that take sessions now
	Parked int   `json:"parked"`
	Grants int64 `json:"grants"`

	Hosts   []PoolHost   `json:"hosts"`
	Waiting int          `json:"waiting"`
	Queue   []PoolWaiter `json:"queue"` // next first
	Tenants []PoolTenant `json:"tenants"`
	Seeds   []PoolSeed   `json:"seeds"` // with a limit in this zone
}
