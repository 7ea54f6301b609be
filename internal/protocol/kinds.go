package protocol

import (
	"time"
)

// An Ending is a reason why a turn or a session's conversation did not end well. It has the
// cause, and says what an operator can do.
type Ending struct {
	Kind, Cause, Hint string
}

// The kinds that code tests for. Endings has all kinds.
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
	EndOther          = "other"
)

// Endings lists all kinds, in the order in which documents show them. This is the only
// list: ctl, workflows, documents and tests use it.
var Endings = []Ending{
	{EndAuth, "the provider or the login service refused the credential (401, 403), or codex has none",
		"codex could not log in: see `ctl seed verify`, then import or capture the seed anew"},
	{EndQuota, "the account's usage limit is reached, or it has no credit left",
		"the account's usage limit is reached: wait for its reset (`--on-limit wait` does so by itself), add credit, or use a seed of another account"},
	{EndRateLimit, "the provider limits how many requests may come (429), and codex's own tries are used up",
		"the provider limits the rate of requests: send the message again in a while (`--on-limit wait` does so by itself), or run fewer sessions on this seed"},
	{EndOverloaded, "the provider has no capacity (503, 529), or codex's own queue is full",
		"codex or its provider is overloaded: wait a little and send the message again"},
	{"context_window", "the conversation is longer than the model can read",
		"the conversation no longer fits into the model's context: `ctl session compact` it, or go on in a new session"},
	{EndModelNotFound, "the provider does not know the model, or the account may not use it (404)",
		"the provider does not know the model or will not serve it: choose another one with `ctl session set ID --model M`"},
	{"bad_request", "the provider refused the request as malformed (400), or codex did",
		"the provider or codex refused the request as malformed: check the prompt's size and the settings in the seed's config.toml"},
	{"sandbox", "the host cannot confine commands as the session asks",
		"the host's sandbox does not work: run `ctl host check`, allow user namespaces there, or run the session with `--sandbox danger-full-access`"},
	{"network", "the provider cannot be reached, failed (500), or cut its answer off, and codex's own tries are used up",
		"codex could not reach its provider: check the network, proxy and base URL on the host (`ctl host exec`), then send the message again"},
	{"protocol", "codex said something that cannot be understood, or lost the turn",
		"codex said something that this version of fairlead does not understand: see `ctl transcript`, and compare the host's codex with `ctl status`"},
	{EndProcessExit, "codex's process ended on its own or was killed",
		"codex ended on its own: send a message, and the thread is resumed in a new process"},
	{EndStartTimeout, "codex was started and did not answer within --startup-timeout, or a session could not begin within --start-timeout",
		"codex did not answer after its start: look at the host's load with `ctl host exec`, or raise --startup-timeout; a message tries again"},
	{EndRequestTimeout, "codex did not answer a request, or take a message, within --request-timeout",
		"codex did not answer a request and was stopped: send a message, and the thread is resumed in a new process"},
	{EndTurnTimeout, "the turn took longer than --turn-timeout, not counting the time in which only a person was waited for",
		"the turn took longer than its limit and was stopped: raise it with `ctl session set ID --budget turn=D`, then send a message to go on"},
	{EndSilent, "codex said nothing for --silence-timeout, and gave no sign of life when asked for one",
		"codex gave no sign of life and was stopped: send a message, and the thread is resumed in a new process"},
	{EndQuietAfterTool, "a tool had ended, and the model said nothing for --quiet-timeout, although codex lives",
		"the model did not go on after a tool: see `ctl transcript` for what was done, then send a message to go on; raise --quiet-timeout for a model that thinks longer"},
	{EndOversize, "the line that says how the turn ended, or what codex opened, is longer than limits.line",
		"codex wrote a line that is too long to read: have it put large outputs into files, or raise limits.line in the workers' config; a message goes on"},
	{EndBudget, "the session or the turn used what it was given",
		"the turn needs more than its budget: raise it with `ctl session set ID --budget …`, and send a message to go on"},
	{"thread_missing", "the thread's rollout is not on the host, is archived, or lacks what it was forked from",
		"the thread's rollout is not in this CODEX_HOME: restore a snapshot that has it (`ctl snapshot list ID`); no new thread was begun"},
	{"thread_busy", "another codex process holds the thread",
		"another codex process holds the thread: end that process first (`ctl host exec`); no new thread was begun"},
	{EndHostLost, "the host could not be reached for --lost-after",
		"the host is out of reach: `ctl session resume ID` goes on on another host, from the newest snapshot"},
	{EndInterrupted, "somebody interrupted the turn, or the session was closed",
		"the turn was ended on purpose: send a message to go on"},
	{"version", "the host's codex is outside the versions that are supported, or lacks what the session needs",
		"provision the host with the pinned codex: `ctl host provision`"},
	{EndOther, "none of these",
		"read the message; `ctl transcript` says more"},
}

// HintOf returns what an operator can do about a kind.
func HintOf(kind string) string {
	for _, e := range Endings {
		if e.Kind == kind {
			return e.Hint
		}
	}
	return ""
}

// A Problem is a classified failure with a sentence for the operator.
type Problem struct {
	Kind    string `json:"kind"` // one of Endings
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// For kind auth, Passing says that the credential may still be good, because only a
	// newer access token was late. For an activity that failed for good, Passing says that
	// waiting may help.
	Passing bool `json:"passing,omitempty"`
	// ResetAt is when a limit ends, if that is known.
	ResetAt time.Time `json:"reset_at,omitzero"`
}

// EndingKinds are all kinds of endings of turns.
func EndingKinds() (kinds []string) {
	for _, e := range Endings {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// ErrTypeDiscarded means that a session is closed, and that data which could not be saved
// was given up because a person decided so.
const ErrTypeDiscarded = "discarded"

// Types of the application errors that activities return; workflows test for them with
// (*temporal.ApplicationError).Type(). The details hold one Problem whose Kind is the same
// word.
const (
	ErrTypeUnreachable    = "unreachable"     // retried for a while, then the work fails
	ErrTypeWireLost       = "wire_lost"       // retried for ever: the journal has everything
	ErrTypeAuth           = "host_auth"       // the host refused our keys
	ErrTypeHostKey        = "host_key"        // unknown or changed
	ErrTypeFenced         = "fenced"          // the host knows a newer holder
	ErrTypeNoSpace        = "no_space"        // the host's disk is full; activities that talk to codex or stop it wait for room
	ErrTypeCodexMissing   = "codex_missing"   // the host has no codex, and none could be copied there
	ErrTypeCodexVersion   = "codex_version"   // outside the window
	ErrTypeSandbox        = "sandbox"         // cannot confine as asked
	ErrTypeUnprotected    = "unprotected"     // codex on the host cannot keep its commands from reading the credential
	ErrTypeSeed           = "seed"            // missing, torn or wrong key
	ErrTypeSeedFenced     = "seed_fenced"     // the lease on the seed has ended
	ErrTypeStore          = "store"           // the blob store cannot be reached or read
	ErrTypeBadInput       = "bad_input"       // e.g. --dir is not a directory
	ErrTypeOutcomeUnknown = "outcome_unknown" // may or may not have happened
	ErrTypeStoreFull      = "store_full"      // no space left for another blob
	ErrTypeQuota          = "snapshot_quota"  // a snapshot would be larger than allowed
	ErrTypeSnapshot       = "snapshot"        // missing or damaged: no session can continue from it
	ErrTypeInternal       = "internal"
	// ErrTypeWorkerDied is the failure of an attempt whose worker died, as another worker
	// found. It has the same effect as a missed heartbeat, but comes sooner.
	ErrTypeWorkerDied = "worker_died"
)

// ErrTypeBusy means that this worker already moves as many snapshots as it can, and that
// others wait. The activity is retried.
const ErrTypeBusy = "busy"

// ErrTypeLoginUnsaved means that a login that codex rotated exists only on the host and is
// not saved. The seed's recovery must fetch the login before anything is wiped.
const ErrTypeLoginUnsaved = "login_unsaved"

// ErrTypeUnfit means that the host answers, but no session can run on it. The message says
// what the host lacks.
const ErrTypeUnfit = "host_unfit"

// ErrTypeRootMissing says that the root folder in which a session was prepared is
// not on its host now. What it contains counts as neither removed nor wiped.
const ErrTypeRootMissing = "root_missing"

// ErrTypeOldIdentity means that the worker has none of the identities that a seed is
// encrypted for.
const ErrTypeOldIdentity = "old_identity_missing"

// ErrTypeFolderGone means that a session's folder is not on its host any more and was
// not kept. Only a former snapshot is left.
const ErrTypeFolderGone = "folder_gone"

// ErrTypeUnreadable means that the host refused to let us read a part of a session's work.
// The snapshot lacks this part, so it must not become the only copy.
const ErrTypeUnreadable = "unreadable"

// ErrTypeNotThere means that the requested thing does not exist.
const ErrTypeNotThere = "not_found"

// ErrTypeWorkspace means that the content of a session's work folder could not be fetched,
// or that a hook failed. It is not retried, because a person has to change something.
const ErrTypeWorkspace = "workspace"

// ErrTypeTurnRuns means that a running turn writes to data that was to be read as a whole.
const ErrTypeTurnRuns = "turn_runs"

// RefusedDead is the type of the error with which a seed refuses to refresh a login that
// its issuer does not accept any more. A call that fails with a type that is not listed
// here may be tried again.
const RefusedDead = "seed_dead"

// RefusedFenced is the type of the error with which a seed refuses a caller that
// does not hold it any more.
const RefusedFenced = "fenced"

// Error types for a login of which it is not known whether it is good.
const (
	RefusedLost    = "seed_lost"    // its refresh token may be spent, and the answer was lost
	RefusedSuspect = "seed_suspect" // its issuer gave an answer that we do not understand
)

// Types of the application errors with which updates are refused.
const (
	RefusedBadInput = "bad_input" // exit 2
	RefusedNotFound = "not_found" // exit 3
	RefusedState    = "refused"   // exit 6: stale, duplicate, or not in this state
	RefusedBudget   = "budget"    // exit 6: the budget is used up
)

// The causes that can end a turn early.
const (
	EndedByPerson   = "person"   // an interrupt, or the cancel of a request
	EndedByClose    = "close"    // the session was closed
	EndedByBudget   = "budget"   // the budget is used up
	EndedByWatchdog = "watchdog" // codex or the model took too long
	EndedByProcess  = "process"  // codex's process ended
	EndedByHost     = "host"     // the host was lost
	EndedByCodex    = "codex"    // codex ended the turn by itself
)

// Failure is an error as people see it.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// ResetAt is when a limit ends, if known.
	ResetAt time.Time `json:"reset_at,omitzero"`

	// Final says that a retry does not help, according to the activity. Only the workflow
	// that got the failure knows it.
	Final bool `json:"-"`
}
