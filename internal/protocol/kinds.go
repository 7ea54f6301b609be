package protocol

import (
	"time"
)

// An Ending is a kind of reason for which a turn or a conversation did not end well, with
// its cause and what an operator can do.
type Ending struct {
	Kind, Cause, Hint string
}

// Kinds that code tests for.
const (
	EndAuth           = "auth"
	EndQuota          = "quota"
	EndRateLimit      = "rate_limit"
	EndOverloaded     = "overloaded"
	EndModelNotFound  = "model_not_found"
	EndProcessExit    = "process_exit"
	EndStartTimeout   = "start_timeout"
	EndRequestTimeout = "request_timeout"
	EndTurnTimeout    = "turn_timeout"
	EndSilent         = "silent"
	EndQuietAfterTool = "quiet_after_tool"
	EndOversize       = "oversize"
	EndBudget         = "budget"
	EndHostLost       = "host_lost"
	EndInterrupted    = "interrupted"
	EndAgentFailed    = "agent_failed"
	EndNetwork        = "network"
	EndSandbox        = "sandbox"
	EndVersion        = "version"
	EndOther          = "other"
)

// Endings is the only list of all kinds, in the order of the documents.
var Endings = []Ending{
	{EndAuth, "the provider or the login service refused the credential (401, 403), or codex has none",
		"codex could not log in: see `ctl seed verify`, then import or capture the seed anew"},
	{EndQuota, "the account's usage limit is reached, or it has no credit left",
		"the account's usage limit is reached: wait for its reset (`--on-limit wait` does so by itself), add credit, or use a seed of another account"},
	{EndRateLimit, "the provider limits the number of requests (429), and codex's own retries are used up",
		"the provider limits the rate of requests: send the message again in a while (`--on-limit wait` does so by itself), or run fewer sessions on this seed"},
	{EndOverloaded, "the provider has no capacity (503, 529), or codex's own queue is full",
		"codex or its provider is overloaded: wait a little and send the message again"},
	{"context_window", "the conversation is longer than the model can read",
		"the conversation no longer fits into the model's context: `ctl session compact` it, or go on in a new session"},
	{EndModelNotFound, "the provider does not know the model, or the account may not use it (404)",
		"the provider does not know the model or will not serve it: choose another one with `ctl session set ID --model M`"},
	{"bad_request", "the provider refused the request as malformed (400), or codex did",
		"the provider or codex refused the request as malformed: check the prompt's size and the settings in the seed's config.toml"},
	{EndSandbox, "the host cannot confine commands as the session asks",
		"the host's sandbox does not work: run `ctl host check`, allow user namespaces there, or run the session with `--sandbox danger-full-access`"},
	{EndNetwork, "the provider cannot be reached, failed (500), or cut its answer off, and codex's own retries are used up or lasted for --retry-timeout",
		"codex could not reach its provider: check the network, proxy and base URL on the host (`ctl host exec`), then send the message again"},
	{"protocol", "codex said something that cannot be understood, or lost the turn",
		"codex said something that this version of fairlead does not understand: see `ctl transcript`, and compare the host's codex with `ctl status`"},
	{EndProcessExit, "codex's process ended on its own or was killed",
		"codex ended on its own: send a message, and the thread is resumed in a new process"},
	{EndStartTimeout, "codex did not answer within --startup-timeout after its start, or a session could not begin within --start-timeout",
		"codex did not answer after its start: look at the host's load with `ctl host exec`, or raise --startup-timeout; a message tries again"},
	{EndRequestTimeout, "codex did not answer a request, or take a message, within --request-timeout",
		"codex did not answer a request and was stopped: send a message, and the thread is resumed in a new process"},
	{EndTurnTimeout, "the turn took longer than --turn-timeout, without the time in which codex waited only for a person",
		"the turn took longer than its limit and was stopped: raise it with `ctl session set ID --budget turn=D`, then send a message to go on"},
	{EndSilent, "codex said nothing for --silence-timeout, and gave no sign of life when asked for one",
		"codex gave no sign of life and was stopped: send a message, and the thread is resumed in a new process"},
	{EndQuietAfterTool, "a tool had ended, and the model said nothing for --quiet-timeout, although codex lives",
		"the model did not go on after a tool: see `ctl transcript` for what was done, then send a message to go on; raise --quiet-timeout for a model that thinks longer"},
	{EndOversize, "the line that says how the turn ended, or which thread codex opened, is longer than limits.line",
		"codex wrote a line that is too long to read: have it put large outputs into files, or raise limits.line in the workers' config; a message goes on"},
	{EndBudget, "the session or the turn used what it was given, or the model gateway may spend no more",
		"the turn needs more than its budget: raise it with `ctl session set ID --budget …`, and send a message to go on"},
	{"thread_missing", "the thread's rollout is not on the host, is archived, or lacks what it was forked from",
		"the thread's rollout is not in this CODEX_HOME: restore a snapshot that has it (`ctl snapshot list ID`); no new thread was begun"},
	{"thread_busy", "another codex process holds the thread",
		"another codex process holds the thread: end that process first (`ctl host exec`); no new thread was begun"},
	{EndHostLost, "the host could not be reached for --lost-after",
		"the host is out of reach: `ctl session resume ID` goes on on another host, from the newest snapshot"},
	{EndInterrupted, "somebody interrupted the turn, or the session was closed",
		"the turn was ended on purpose: send a message to go on"},
	{EndAgentFailed, "the agent itself declared its task failed, with the tool finish",
		"the agent could not do its task: read its summary, and send a message with what it lacks"},
	{EndVersion, "the host's codex is outside the versions that are supported, or lacks what the session needs",
		"provision the host with the pinned codex: `ctl host provision`"},
	{EndOther, "none of these",
		"read the message; `ctl transcript` says more"},
}

// HintOf returns the hint of a kind, or "".
func HintOf(kind string) string {
	for _, e := range Endings {
		if e.Kind == kind {
			return e.Hint
		}
	}
	return ""
}

// A Problem is a classified failure.
type Problem struct {
	Kind    string `json:"kind"` // a kind of Endings, or an ErrType constant
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Passing says, for kind auth, that the credential may still be good: only a newer
	// access token was late. For an activity that failed for good, it says that waiting may
	// help.
	Passing bool      `json:"passing,omitempty"`
	ResetAt time.Time `json:"reset_at,omitzero"`
	// Of says, for kind budget, whose budget ended a turn at the model gateway. It is empty if
	// Fairlead interrupted the turn.
	Of string `json:"of,omitempty"`
}

// EndingKinds are the kinds of Endings.
func EndingKinds() (kinds []string) {
	for _, e := range Endings {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// ErrTypeDiscarded means that a session is closed, and that a person gave up data that
// could not be saved.
const ErrTypeDiscarded = "discarded"

// Types of activities' application errors. The details hold one Problem of the same Kind.
const (
	ErrTypeUnreachable    = "unreachable"     // retried for a while, then the work fails
	ErrTypeWireLost       = "wire_lost"       // retried forever: the journal has everything
	ErrTypeAuth           = "host_auth"       // the host refused our keys
	ErrTypeHostKey        = "host_key"        // unknown or changed
	ErrTypeFenced         = "fenced"          // the host knows a newer holder
	ErrTypeNoSpace        = "no_space"        // on the host; activities that talk to codex or stop it wait for room
	ErrTypeCodexMissing   = "codex_missing"   // and cannot be copied there
	ErrTypeCodexVersion   = "codex_version"   // outside the window
	ErrTypeCodexChanged   = "codex_changed"   // somebody changed codex on the host
	ErrTypeSandbox        = "sandbox"         // cannot confine as asked
	ErrTypeUnprotected    = "unprotected"     // codex cannot keep its commands from reading the credential
	ErrTypeSeed           = "seed"            // missing, torn or wrong key
	ErrTypeSeedFenced     = "seed_fenced"     // its lease has ended
	ErrTypeStore          = "store"           // cannot be reached or read
	ErrTypeBadInput       = "bad_input"       // e.g. --dir is not a directory
	ErrTypeOutcomeUnknown = "outcome_unknown" // may or may not have happened
	ErrTypeStoreFull      = "store_full"
	ErrTypeQuota          = "snapshot_quota" // the snapshot would be too large
	ErrTypeSnapshot       = "snapshot"       // missing or damaged: no session can continue from it
	ErrTypeInternal       = "internal"
	// ErrTypeWorkerDied means that another worker found the attempt's worker dead. It works
	// like a missed heartbeat, but sooner.
	ErrTypeWorkerDied = "worker_died"
)

// ErrTypeBusy means that this worker moves as many snapshots as it can. The activity is
// retried.
const ErrTypeBusy = "busy"

// ErrTypeLoginUnsaved means that a rotated login exists only on the host. Nothing may be
// wiped before the seed's recovery has fetched it.
const ErrTypeLoginUnsaved = "login_unsaved"

// ErrTypeUnfit means that a host that answers lacks something that sessions need.
const ErrTypeUnfit = "host_unfit"

// ErrTypeHostFlood means that a host sent more than it may. The details then also hold the
// host's name. No retry comes: the pool quarantines the host.
const ErrTypeHostFlood = "host_flood"

// ErrTypeRootMissing means that the root folder of a prepared session is not on its host
// now. Its content counts as neither removed nor wiped.
const ErrTypeRootMissing = "root_missing"

// ErrTypeSeedBehind means that the store has a later login of a seed than Temporal knows, as
// after its database was restored to an earlier point. Nothing uses the earlier one.
const ErrTypeSeedBehind = "seed_behind"

// ErrTypeNewer means that the worker does not know a feature that the session requires. Any
// other worker may.
const ErrTypeNewer = "newer_worker"

// ErrTypeOldIdentity means that the worker has no identity for which a seed is encrypted.
const ErrTypeOldIdentity = "old_identity_missing"

// ErrTypeFolderGone means that only a former snapshot of a session is left, and no folder
// on its host.
const ErrTypeFolderGone = "folder_gone"

// ErrTypeUnreadable means that the host refused to let us read a part of a session's work.
// The snapshot lacks it, so it must not become the only copy.
const ErrTypeUnreadable = "unreadable"

// ErrTypeNotThere means that a requested thing does not exist.
const ErrTypeNotThere = "not_found"

// ErrTypeWorkspace means that a work folder's content could not be fetched, or that a hook
// failed. A retry needs a person's change first.
const ErrTypeWorkspace = "workspace"

// ErrTypeTurnRuns means that a running turn writes to data that was to be read as a whole.
const ErrTypeTurnRuns = "turn_runs"

// ErrTypeBounds means that a session or a command exceeds what the organisation, the
// labels of its host or its seed allow.
const ErrTypeBounds = "out_of_bounds"

// RefusedDead means that a seed's issuer no longer accepts the login. A call that fails
// with a type not listed here may be repeated.
const RefusedDead = "seed_dead"

// RefusedFenced means that the caller no longer holds the seed.
const RefusedFenced = "fenced"

// Errors of a login that may or may not be good.
const (
	RefusedLost    = "seed_lost"    // the refresh token may be spent, and the answer was lost
	RefusedSuspect = "seed_suspect" // the issuer's answer is not understood
)

// Error types of refused updates.
const (
	RefusedBadInput = "bad_input" // exit 2
	RefusedNotFound = "not_found" // exit 3
	RefusedState    = "refused"   // exit 6: stale, duplicate, or not in this state
	RefusedBudget   = "budget"    // exit 6
	// RefusedForbidden means that the principal may not give the command, or that nobody
	// knows who gave it. Exit 6.
	RefusedForbidden = "forbidden"
	// RefusedPasskey means that the decision needs the person's passkey or FIDO key. Exit 6.
	RefusedPasskey = "passkey_needed"
)

// What ended a turn early.
const (
	EndedByPerson   = "person" // or the cancel of a request
	EndedByClose    = "close"
	EndedByBudget   = "budget"
	EndedByWatchdog = "watchdog"
	EndedByProcess  = "process"
	EndedByHost     = "host"
	EndedByCodex    = "codex" // by itself
)

// Failure is an error as people see it.
type Failure struct {
	Kind    string    `json:"kind"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
	ResetAt time.Time `json:"reset_at,omitzero"`

	// Final says that the activity expects no success from a retry. Only the workflow that
	// got the failure knows it.
	Final bool `json:"-"`
}
