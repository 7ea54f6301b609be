package workflows

import (
	"time"

	"fairlead.dev/fairlead/activities"
)

// PutHost adds a host to the inventory, or changes one.
type PutHost struct {
	Spec   activities.HostSpec `json:"spec"`
	Labels map[string]string   `json:"labels,omitempty"`
	Slots  int                 `json:"slots,omitempty"` // default 4
	// Jump names the host of the same zone to go through.
	Jump string `json:"jump,omitempty"`
	Zone string `json:"zone,omitempty"`
	// Replace allows changing a host that is there; else the update is refused.
	Replace bool `json:"replace,omitempty"`
}

// PutHosts adds and changes many hosts of a zone: all of them, or none if one is
// refused. Who is jumped over comes before who jumps. Of a host that is reached
// as before only labels and slots change, and what was found out of it stays.
type PutHosts struct {
	Hosts []PutHost `json:"hosts"`
}

// PutHostsDone is the answer: how many hosts the zone has now.
type PutHostsDone struct {
	Hosts int `json:"hosts"`
}

// RemoveHost takes a host out of the inventory; refused while in use.
type RemoveHost struct {
	Name string `json:"name"`
	// Force: also when sessions may have left something there that nobody will
	// wipe any more.
	Force bool `json:"force,omitempty"`
}

// SetHost changes the state of a host or records what a probe found.
type SetHost struct {
	Name   string                      `json:"name"`
	Cordon *bool                       `json:"cordon,omitempty"` // false ends a drain as well
	Drain  *Draining                   `json:"drain,omitempty"`
	Check  *activities.CheckHostResult `json:"check,omitempty"`
	Codex  string                      `json:"codex,omitempty"` // version provisioned
	// Labels are put beside those that people gave it, Unlabel takes some of
	// them away; Slots, if not 0, is how many sessions it takes from now on.
	Labels  map[string]string `json:"labels,omitempty"`
	Unlabel []string          `json:"unlabel,omitempty"`
	Slots   int               `json:"slots,omitempty"`
	// Failed is why a task could do nothing there.
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
	CheckedAt   *time.Time        `json:"checked_at"` // nil where it never was

	// Found are the labels that its probe found; Labels win over them.
	Found  map[string]string `json:"found,omitempty"`
	Health *HostHealth       `json:"health,omitempty"`
	// Paused is why its zone starts no session.
	Paused *PoolPause `json:"paused,omitempty"`
	Drain  *Draining  `json:"drain,omitempty"`

	// Unclean is how many sessions may have left a credential there that is not
	// wiped yet; Leftovers tells of them, and of those that were wiped.
	Unclean   int        `json:"unclean,omitempty"`
	Leftovers []Leftover `json:"leftovers,omitempty"`

	// Folders is of the newest look at what lies there, and UnknownFolders names
	// what is not known to be ours: nobody touches that.
	Folders        *HostFolders    `json:"folders,omitempty"`
	UnknownFolders []UnknownFolder `json:"unknown_folders,omitempty"`

	Holders []string             `json:"holders,omitempty"` // sessions
	Queue   int                  `json:"queue,omitempty"`
	Spec    *activities.HostSpec `json:"spec,omitempty"`
}

// PutSeed records a new generation of a seed.
type PutSeed struct {
	Name   string             `json:"name"`
	Ref    activities.SeedRef `json:"ref"` // Generation is assigned by the workflow
	Files  []SeedFile         `json:"files"`
	By     string             `json:"by,omitempty"`
	Expect int64              `json:"expect,omitempty"` // the generation it replaces; 0 = whatever is there
	Force  bool               `json:"force,omitempty"`  // also in place of what codex has rotated it to
	Share  *int               `json:"share,omitempty"`  // as in SetSeed
	Pools  *[]string          `json:"pools,omitempty"`
	// Elsewhere, Moved and Ask are as in activities.PutSeedInput.
	Elsewhere string `json:"elsewhere,omitempty"`
	Moved     bool   `json:"moved,omitempty"`
	Ask       bool   `json:"ask,omitempty"`
}

// SetSeed changes how a seed is given; what is not given stays.
type SetSeed struct {
	By    string `json:"by,omitempty"`
	Share *int   `json:"share,omitempty"` // how many sessions may have it at a time; 0 means any number
	// Pools are all the pools that it is in.
	Pools *[]string `json:"pools,omitempty"`
	// Policy judges in every session that has it, beside that one's own; empty
	// means none.
	Policy *string `json:"policy,omitempty"`
	// Amend says that its sessions are offered amendments: decisions that
	// change codex's rules for good.
	Amend *bool `json:"amend,omitempty"`
}

// SeedPoolView is the Seed pool JSON of the command line.
type SeedPoolView struct {
	Name  string           `json:"name"`
	Seeds []SeedPoolMember `json:"seeds"`
	Queue int              `json:"queue"` // sessions that wait for any of them
}

// SeedPoolMember is a seed as it told its pool last.
type SeedPoolMember struct {
	Name   string     `json:"name"`
	Free   bool       `json:"free"`
	State  string     `json:"state"`
	Health string     `json:"health"`
	UsedAt *time.Time `json:"used_at,omitempty"`
}

// ReviveSeed says that the stored generation is what there is: what could not
// be fetched or saved is given up, what was thought of it is forgotten.
type ReviveSeed struct {
	By string `json:"by,omitempty"`
}

// DeleteSeed forgets a seed; Purge removes its blobs too.
type DeleteSeed struct {
	Purge bool `json:"purge,omitempty"`
}

// SeedFile is one file of a seed, never its content.
type SeedFile = activities.SeedFile

// SeedView is the Seed JSON of the command line.
type SeedView struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind"`
	Generation int64      `json:"generation"`
	State      string     `json:"state"`  // free, held, verifying, recovering
	Health     string     `json:"health"` // unknown, healthy, suspect, dead
	Reason     string     `json:"reason,omitempty"`
	Hint       string     `json:"hint,omitempty"`
	Since      *time.Time `json:"since,omitempty"` // of the health
	HeldBy     []string   `json:"held_by"`
	Epoch      int64      `json:"epoch"`
	Files      []SeedFile `json:"files"`
	VerifiedAt *time.Time `json:"verified_at"`

	Holders  []SeedHolder  `json:"holders,omitempty"`
	Queue    int           `json:"queue"` // sessions that wait for it
	Share    int           `json:"share"` // how many may have it at a time; 0 means any number
	Pools    []string      `json:"pools"`
	UsedAt   *time.Time    `json:"used_at,omitempty"`
	Rotated  *SeedRotated  `json:"rotated,omitempty"`
	Check    *SeedCheck    `json:"check,omitempty"` // the newest verification
	Recovery *SeedRecovery `json:"recovery,omitempty"`
	Exported *SeedExport   `json:"exported,omitempty"` // last
	Policy   *PolicyView   `json:"policy,omitempty"`
	Amend    bool          `json:"amend,omitempty"` // its sessions are offered amendments

	Ref     *activities.SeedRef `json:"ref,omitempty"`
	Deleted bool                `json:"deleted,omitempty"`
}

// The states of a seed.
const (
	SeedFree       = "free"
	SeedHeld       = "held"
	SeedVerifying  = "verifying"  // it is being refreshed; nobody gets it meanwhile
	SeedRecovering = "recovering" // what an ended holder has of it is being fetched; nobody gets it before
)

// SeedCheck is how a verification ended: alive, dead, suspect, unknown, lost (a
// refresh was sent and its answer is not known), fresh (by its own words, nobody
// was asked), held or recovering (nothing was asked).
type SeedCheck struct {
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason,omitempty"`
	Hint    string    `json:"hint,omitempty"`
}

// SeedHolder is who has a seed, or had it and did not give it back.
type SeedHolder struct {
	Session string    `json:"session"`
	Epoch   int64     `json:"epoch"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
}

// SeedRotated is a login that codex made and that is not saved yet.
type SeedRotated struct {
	Session string    `json:"session"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"` // why it could not be saved so far
}

// SeedRecovery is what is done about a holder that ended without giving the
// seed back.
type SeedRecovery struct {
	Session string     `json:"session"`
	Host    string     `json:"host"`
	Why     string     `json:"why"`
	Tries   int        `json:"tries"`
	NextTry *time.Time `json:"next_try,omitempty"`
	Problem *Failure   `json:"problem,omitempty"` // of the newest try
}
