package kit

import (
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// Kinds that only workflows give.
const (
	KindNoPool = "no_pool"
	// KindStartTimeout is also the kind of a codex that did not answer after its start;
	// that is waited out.
	KindStartTimeout = protocol.EndStartTimeout
)

// PassingKinds are the kinds that waiting can mend, whoever gives them.
var PassingKinds = []string{
	protocol.ErrTypeUnreachable, protocol.ErrTypeWireLost, protocol.EndHostLost, KindTimeout, protocol.ErrTypeBusy,
	protocol.ErrTypeStoreFull, protocol.ErrTypeTurnRuns, protocol.ErrTypeRootMissing, protocol.ErrTypeNewer, protocol.ErrTypeSeedBehind, KindNoPool, "network", protocol.EndOverloaded, "thread_busy",
}

var lastingKinds = []string{
	protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeHostFlood, protocol.ErrTypeUnfit, protocol.ErrTypeNoSpace,
	protocol.ErrTypeCodexMissing, protocol.ErrTypeCodexVersion, protocol.ErrTypeCodexChanged, protocol.ErrTypeSandbox, protocol.ErrTypeUnprotected,
	protocol.ErrTypeBadInput, protocol.ErrTypeNotThere, protocol.ErrTypeSeedFenced, protocol.ErrTypeLoginUnsaved,
	protocol.ErrTypeQuota, protocol.ErrTypeUnreadable, protocol.ErrTypeFolderGone, protocol.ErrTypeDiscarded,
	protocol.ErrTypeOldIdentity, protocol.ErrTypeOutcomeUnknown, protocol.ErrTypeBounds,
	protocol.RefusedState, protocol.RefusedBudget, "host_not_found", "seed_not_found", "seed_pool_not_found", "seed_pool_empty",
	protocol.RefusedDead, protocol.RefusedLost, protocol.RefusedSuspect, "closed", "terminated", Unsent,
	protocol.EndAuth, protocol.EndQuota, protocol.EndRateLimit, protocol.EndModelNotFound, protocol.EndRequestTimeout,
	protocol.EndTurnTimeout, protocol.EndSilent, protocol.EndQuietAfterTool, protocol.EndOversize, protocol.EndInterrupted,
	protocol.EndOther, protocol.EndAgentFailed, "context_window", "bad_request", "protocol", "thread_missing", "version",
}

// FailurePasses reports whether waiting can mend a failure, so that the session tries
// again. PassingKinds pass:
//
//	unreachable, wire_lost, host_lost   the host, or the network path to it, is down
//	root_missing                        a disk of the host is not mounted
//	timeout, busy, store_full           workers or room will be there
//	newer_worker                        a worker of a newer release will be there
//	seed_behind                         a person will run `ctl recover --yes`
//	no_pool                             a worker of that zone makes the pool when it starts
//	network, overloaded                 codex or its provider
//	thread_busy                         a process that is about to end holds the thread
//
// lastingKinds last: the host refuses us, sends too much or lacks something, the request is
// wrong or out of bounds, the credential is of no use, a person has to decide, a limit is
// reached (on_limit decides about quota and rate_limit), codex refuses, or what may have had
// effects is not repeated (outcome_unknown).
//
// Any other kind, also one of a newer worker, passes unless the activity said that a retry
// is of no use:
//
//	store, seed, snapshot        a blob is missing or torn: lasts
//	fenced                       by a newer attempt of ours: passes; by another holder: lasts
//	workspace                    git, or a hook, has failed: lasts
//	internal                     passes, unless the host lacks something
//	process_exit, start_timeout  codex ended by itself: lasts
//
// To wait in vain does little harm: the session shows the failure, and start_timeout or a
// person ends the wait. A session that is ended without need is lost.
func FailurePasses(f *protocol.Failure) bool {
	switch {
	case f == nil, slices.Contains(lastingKinds, f.Kind):
		return false
	case slices.Contains(PassingKinds, f.Kind):
		return true
	}
	return !f.Final
}

// Trouble is a fault that is waited out.
type Trouble struct {
	Doing   string    `json:"doing"`
	Since   time.Time `json:"since"`   // first failed attempt
	Attempt int       `json:"attempt"` // failed attempts
	Kind    string    `json:"kind"`
	Error   string    `json:"error"`
	NextAt  time.Time `json:"next_at"`
}

// Failure returns t as a failure.
func (t *Trouble) Failure() *protocol.Failure {
	return &protocol.Failure{Kind: t.Kind, Message: t.Error}
}

// Text says in one line what is waited for.
func (t *Trouble) Text() string {
	return fmt.Sprintf("another attempt to %s (%d failed): %s", t.Doing, t.Attempt, t.Error)
}

// MaxTrouble bounds Error, in bytes.
const MaxTrouble = 1 << 10

// Each pause is twice the one before. A wait costs some 3,700 events a day.
const (
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
)

// PauseAfter returns the pause after so many failed attempts.
func PauseAfter(attempts int) time.Duration {
	return min(firstPause<<min(max(attempts-1, 0), 10), longestPause)
}

// Unsent is the kind of failure of a turn whose message was withdrawn before it began.
const Unsent = "unsent"
