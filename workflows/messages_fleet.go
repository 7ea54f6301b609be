package workflows

import (
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// PutHost adds a host to the inventory, or replaces one.
type PutHost struct {
	Spec   protocol.HostSpec `json:"spec"`
	Labels map[string]string `json:"labels,omitempty"`
	Slots  int               `json:"slots,omitempty"` // default 4
	// Jump names the jump host, in the same zone.
	Jump string `json:"jump,omitempty"`
	Zone string `json:"zone,omitempty"`
	// Replace allows replacing an existing host; without it that is refused.
	Replace bool `json:"replace,omitempty"`
}

// PutHosts adds or changes many hosts of a zone: all of them, or none if one is refused. A jump
// host must come before the hosts that use it. If a host is reached as before, only its labels
// and slots change, and what probes found stays.
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
	// Force removes the host even if sessions may have left something there that nobody will then
	// wipe.
	Force bool `json:"force,omitempty"`
}

// SetHost changes a host, or records what a probe found.
type SetHost struct {
	Name   string                    `json:"name"`
	Cordon *bool                     `json:"cordon,omitempty"` // false ends a drain as well
	Drain  *Draining                 `json:"drain,omitempty"`
	Check  *protocol.CheckHostResult `json:"check,omitempty"`
	Codex  string                    `json:"codex,omitempty"` // the provisioned version
	// Labels are added to those that people set, and Unlabel are removed. Slots, if not 0, is the
	// new number of sessions that the host takes.
	Labels  map[string]string `json:"labels,omitempty"`
	Unlabel []string          `json:"unlabel,omitempty"`
	Slots   int               `json:"slots,omitempty"`
	// Failed is why a host task failed there.
	Failed *Failure `json:"failed,omitempty"`
}

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

	// Found are the labels found by a probe; Labels take precedence.
	Found  map[string]string `json:"found,omitempty"`
	Health *HostHealth       `json:"health,omitempty"`
	// Paused is why the zone starts no sessions.
	Paused *PoolPause `json:"paused,omitempty"`
	Drain  *Draining  `json:"drain,omitempty"`
	// WaitingFor is why its zone grants no slot: see PoolView.
	WaitingFor *WaitingView `json:"waiting_for,omitempty"`

	// Unclean is how many sessions may have left a credential there that is not wiped yet.
	// Leftovers lists these and the wiped ones.
	Unclean   int        `json:"unclean,omitempty"`
	Leftovers []Leftover `json:"leftovers,omitempty"`

	// Folders is the newest look at the host's session folders. UnknownFolders are those not
	// known to be ours; they are never touched.
	Folders        *HostFolders    `json:"folders,omitempty"`
	UnknownFolders []UnknownFolder `json:"unknown_folders,omitempty"`

	Holders []string           `json:"holders,omitempty"` // sessions
	Queue   int                `json:"queue,omitempty"`
	Spec    *protocol.HostSpec `json:"spec,omitempty"`
}

// PutSeed records a new generation of a seed.
type PutSeed struct {
	Name   string              `json:"name"`
	Ref    protocol.SeedRef    `json:"ref"` // Generation is assigned by the workflow
	Files  []protocol.SeedFile `json:"files"`
	By     string              `json:"by,omitempty"`
	Expect int64               `json:"expect,omitempty"` // the generation it replaces; 0 means any
	Force  bool                `json:"force,omitempty"`  // also replace a login that codex rotated
	Share  *int                `json:"share,omitempty"`  // as in SetSeed
	Pools  *[]string           `json:"pools,omitempty"`
	// Elsewhere, Moved and Ask are as in activities.PutSeedInput.
	Elsewhere string `json:"elsewhere,omitempty"`
	Moved     bool   `json:"moved,omitempty"`
	Ask       bool   `json:"ask,omitempty"`
}

// SetSeed changes how a seed is shared; omitted values stay.
type SetSeed struct {
	By    string `json:"by,omitempty"`
	Share *int   `json:"share,omitempty"` // how many sessions may have it at a time; 0 means any number
	// Pools are all the pools that the seed is in.
	Pools *[]string `json:"pools,omitempty"`
	// Policy applies in every session that has the seed, beside the session's own policy; empty
	// means none.
	Policy *string `json:"policy,omitempty"`
	// Amend says that its sessions are offered amendments: decisions that change codex's rules
	// permanently.
	Amend *bool `json:"amend,omitempty"`
}

// SeedPoolView is the Seed pool JSON of the command line.
type SeedPoolView struct {
	Name  string           `json:"name"`
	Seeds []SeedPoolMember `json:"seeds"`
	Queue int              `json:"queue"` // sessions that wait for one of them
}

// SeedPoolMember is a seed as it last reported to its pool.
type SeedPoolMember struct {
	Name   string     `json:"name"`
	Free   bool       `json:"free"`
	State  string     `json:"state"`
	Health string     `json:"health"`
	UsedAt *time.Time `json:"used_at,omitempty"`
}

// ReviveSeed lets a seed go on with its stored generation. It gives up what could not be fetched
// or saved, and forgets the seed's health. If nothing of this is in doubt, it gives up what was
// left under leases of an earlier workflow of the seed.
type ReviveSeed struct {
	By string `json:"by,omitempty"`
}

// DeleteSeed deletes a seed. Purge removes its blobs too.
type DeleteSeed struct {
	Purge bool `json:"purge,omitempty"`
}

// SeedView is the Seed JSON of the command line.
type SeedView struct {
	Name       string              `json:"name"`
	Kind       string              `json:"kind"`
	Generation int64               `json:"generation"`
	State      string              `json:"state"`  // free, held, verifying, recovering
	Health     string              `json:"health"` // unknown, healthy, suspect, dead
	Reason     string              `json:"reason,omitempty"`
	Hint       string              `json:"hint,omitempty"`
	Since      *time.Time          `json:"since,omitempty"` // start of the present health
	HeldBy     []string            `json:"held_by"`
	Epoch      int64               `json:"epoch"`
	Files      []protocol.SeedFile `json:"files"`
	VerifiedAt *time.Time          `json:"verified_at"`

	Holders  []SeedHolder  `json:"holders,omitempty"`
	Queue    int           `json:"queue"` // number of waiting sessions
	Share    int           `json:"share"` // how many may have it at a time; 0 means any number
	Pools    []string      `json:"pools"`
	UsedAt   *time.Time    `json:"used_at,omitempty"`
	Rotated  *SeedRotated  `json:"rotated,omitempty"`
	Check    *SeedCheck    `json:"check,omitempty"` // the newest verification
	Recovery *SeedRecovery `json:"recovery,omitempty"`
	Exported *SeedExport   `json:"exported,omitempty"` // last
	Policy   *PolicyView   `json:"policy,omitempty"`
	Amend    bool          `json:"amend,omitempty"` // its sessions are offered amendments

	Ref     *protocol.SeedRef `json:"ref,omitempty"`
	Deleted bool              `json:"deleted,omitempty"`
}

// The states of a seed.
const (
	SeedFree       = "free"
	SeedHeld       = "held"
	SeedVerifying  = "verifying"  // being refreshed; not granted meanwhile
	SeedRecovering = "recovering" // an ended holder's login is being fetched; not granted meanwhile
)

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

// SeedRotated is a login that codex rotated and that is not saved yet.
type SeedRotated struct {
	Session string    `json:"session"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"` // why it could not be saved so far
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
