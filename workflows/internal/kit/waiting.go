package kit

import (
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// Kinds that only workflows give. Activities and codex give the others.
const (
	KindNoPool = "no_pool"
	// KindStartTimeout is also the kind of a codex that did not answer after its
	// start. That failure is waited out.
	KindStartTimeout = protocol.EndStartTimeout
)

// PassingKinds are the kinds that waiting can mend, whoever gives them.
var PassingKinds = []string{
	protocol.ErrTypeUnreachable, protocol.ErrTypeWireLost, protocol.EndHostLost, KindTimeout, protocol.ErrTypeBusy,
	protocol.ErrTypeStoreFull, protocol.ErrTypeTurnRuns, protocol.ErrTypeRootMissing, KindNoPool, "network", protocol.EndOverloaded, "thread_busy",
}

// lastingKinds are the kinds that waiting cannot mend.
var lastingKinds = []string{
	protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeUnfit, protocol.ErrTypeNoSpace,
	protocol.ErrTypeCodexMissing, protocol.ErrTypeCodexVersion, protocol.ErrTypeSandbox, protocol.ErrTypeUnprotected,
	protocol.ErrTypeBadInput, protocol.ErrTypeNotThere, protocol.ErrTypeSeedFenced, protocol.ErrTypeLoginUnsaved,
	protocol.ErrTypeQuota, protocol.ErrTypeUnreadable, protocol.ErrTypeFolderGone, protocol.ErrTypeDiscarded,
	protocol.ErrTypeOldIdentity, protocol.ErrTypeOutcomeUnknown,
	protocol.RefusedState, protocol.RefusedBudget, "host_not_found", "seed_not_found", "seed_pool_not_found", "seed_pool_empty",
	protocol.RefusedDead, protocol.RefusedLost, protocol.RefusedSuspect, "closed", "terminated", Unsent,
	protocol.EndAuth, protocol.EndQuota, protocol.EndRateLimit, protocol.EndModelNotFound, protocol.EndRequestTimeout,
	protocol.EndTurnTimeout, protocol.EndSilent, protocol.EndQuietAfterTool, protocol.EndOversize, protocol.EndInterrupted,
	protocol.EndOther, "context_window", "bad_request", "protocol", "thread_missing", "version",
}

// FailurePasses reports whether waiting can mend a failure. If so, the session tries
// again instead of giving up. It decides by kind:
//
//	passes   unreachable, wire_lost, host_lost   the host, or the network path to it, is down
//	         root_missing             a disk of the host is not mounted
//	         timeout                  no worker finished it: workers died or were busy
//	         busy                     a worker, a line or a seed has no room now
//	         store_full               somebody makes room; the store is ours
//	         turn_runs                the turn ends
//	         no_pool                  a worker of that zone makes the pool when it starts
//	         network, overloaded      of codex's provider, or codex itself
//	         thread_busy              a process that is about to end holds the thread
//	lasts    host_auth, host_key      the host refuses us, or may be another one
//	         host_unfit, no_space, codex_missing, codex_version, sandbox, unprotected
//	                                  the host cannot do what is asked; another one may
//	         bad_input, refused, …_not_found, seed_pool_empty
//	                                  what was asked for is wrong, or is not there
//	         seed_dead, seed_lost, seed_suspect, seed_fenced, login_unsaved, auth
//	                                  the credential is of no use, or is not ours any more
//	         snapshot_quota, unreadable, folder_gone, discarded, old_identity_missing
//	                                  a person has to decide
//	         outcome_unknown          what may have had effects is not repeated
//	         budget, closed, terminated, unsent, interrupted
//	                                  a limit or a person ended it
//	         what else codex says     its own refusal, or the end of a turn; on_limit
//	                                  decides about quota and rate_limit
//	by whether the activity said that a retry is of use
//	         store, seed, snapshot    the store is away, or the worker lacks its key: passes;
//	                                  a blob that is missing or torn: lasts
//	         fenced                   overtaken by a newer attempt of ours: passes; by another holder: lasts
//	         workspace                git, or a hook, has failed: lasts
//	         internal                 passes, unless the host lacks something
//	         process_exit, start_timeout
//	                                  codex was killed, or too slow: passes; it ended by itself: lasts
//	         kinds that are not named here
//
// Newer workers may give kinds that are not named here. Such a failure passes unless the
// activity said that a retry is of no use. To wait in vain does little harm: the session
// shows the failure, and start_timeout or a person ends the wait. But a session that is
// ended without need is lost.
func FailurePasses(f *protocol.Failure) bool {
	switch {
	case f == nil, slices.Contains(lastingKinds, f.Kind):
		return false
	case slices.Contains(PassingKinds, f.Kind):
		return true
	}
	return !f.Final
}

// Trouble is a fault that a session waits out before it tries again.
type Trouble struct {
	Doing   string    `json:"doing"`
	Since   time.Time `json:"since"`   // when the first attempt failed
	Attempt int       `json:"attempt"` // how many attempts have failed
	Kind    string    `json:"kind"`
	Error   string    `json:"error"`
	NextAt  time.Time `json:"next_at"`
}

// Failure returns the failure that is waited out.
func (t *Trouble) Failure() *protocol.Failure {
	return &protocol.Failure{Kind: t.Kind, Message: t.Error}
}

// Text says in one line what the session waits for.
func (t *Trouble) Text() string {
	return fmt.Sprintf("another attempt to %s (%d failed): %s", t.Doing, t.Attempt, t.Error)
}

// MaxTrouble bounds the text of an error that is waited out, in bytes.
const MaxTrouble = 1 << 10

// Pauses between two attempts. Each is twice as long as the one before. The longest is
// short enough that nobody waits much longer than the fault lasts. With it, a wait costs
// some 3,700 events a day.
const (
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
)

// PauseAfter returns how long to wait after so many failed attempts.
func PauseAfter(attempts int) time.Duration {
	return min(firstPause<<min(max(attempts-1, 0), 10), longestPause)
}

// Unsent is the kind of failure of a turn that never began because its message was withdrawn.
const Unsent = "unsent"
