package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// A session keeps what it has accepted. If waiting can mend a fault, the session shows the
// fault, waits and tries again. It goes on until an attempt works, or until a person, a
// budget or start_timeout ends the wait.

// Kinds that only workflows give. Activities and codex give the others.
const (
	kindNoPool = "no_pool"
	// kindStartTimeout is also the kind of a codex that did not answer after its
	// start. That failure is waited out.
	kindStartTimeout = protocol.EndStartTimeout
)

// passingKinds are the kinds that waiting can mend, whoever gives them.
var passingKinds = []string{
	protocol.ErrTypeUnreachable, protocol.ErrTypeWireLost, protocol.EndHostLost, kindTimeout, protocol.ErrTypeBusy,
	protocol.ErrTypeStoreFull, protocol.ErrTypeTurnRuns, protocol.ErrTypeRootMissing, kindNoPool, "network", protocol.EndOverloaded, "thread_busy",
}

// lastingKinds are the kinds that waiting cannot mend.
var lastingKinds = []string{
	protocol.ErrTypeAuth, protocol.ErrTypeHostKey, protocol.ErrTypeUnfit, protocol.ErrTypeNoSpace,
	protocol.ErrTypeCodexMissing, protocol.ErrTypeCodexVersion, protocol.ErrTypeSandbox, protocol.ErrTypeUnprotected,
	protocol.ErrTypeBadInput, protocol.ErrTypeNotThere, protocol.ErrTypeSeedFenced, protocol.ErrTypeLoginUnsaved,
	protocol.ErrTypeQuota, protocol.ErrTypeUnreadable, protocol.ErrTypeFolderGone, protocol.ErrTypeDiscarded,
	protocol.ErrTypeOldIdentity, protocol.ErrTypeOutcomeUnknown,
	protocol.RefusedState, protocol.RefusedBudget, "host_not_found", "seed_not_found", "seed_pool_not_found", "seed_pool_empty",
	protocol.RefusedDead, protocol.RefusedLost, protocol.RefusedSuspect, "closed", "terminated", unsent,
	protocol.EndAuth, protocol.EndQuota, protocol.EndRateLimit, protocol.EndModelNotFound, protocol.EndRequestTimeout,
	protocol.EndTurnTimeout, protocol.EndSilent, protocol.EndQuietAfterTool, protocol.EndOversize, protocol.EndInterrupted,
	protocol.EndOther, "context_window", "bad_request", "protocol", "thread_missing", "version",
}

// failurePasses reports whether waiting can mend a failure. If so, the session tries
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
func failurePasses(f *protocol.Failure) bool {
	switch {
	case f == nil, slices.Contains(lastingKinds, f.Kind):
		return false
	case slices.Contains(passingKinds, f.Kind):
		return true
	}
	return !f.Final
}

// trouble is a fault that a session waits out before it tries again.
type trouble struct {
	Doing   string    `json:"doing"`
	Since   time.Time `json:"since"`   // when the first attempt failed
	Attempt int       `json:"attempt"` // how many attempts have failed
	Kind    string    `json:"kind"`
	Error   string    `json:"error"`
	NextAt  time.Time `json:"next_at"`
}

// Pauses between two attempts. Each is twice as long as the one before. The longest is
// short enough that nobody waits much longer than the fault lasts. With it, a wait costs
// some 3,700 events a day.
const (
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
)

// maxTrouble bounds the text of an error that is waited out, in bytes.
const maxTrouble = 1 << 10

// pauseAfter returns how long to wait after so many failed attempts.
func pauseAfter(attempts int) time.Duration {
	return min(firstPause<<min(max(attempts-1, 0), 10), longestPause)
}

// meet records a failure that passes, and sets the time of the next attempt.
func (s *core) meet(doing string, f *protocol.Failure) {
	now := workflow.Now(s.ctx)
	t := s.st.Trouble
	if t == nil {
		t = &trouble{Since: now}
		s.st.Trouble = t
	}
	if t.Attempt == 0 || t.Kind != f.Kind || t.Doing != doing {
		s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("waits and tries again to %s: %s", doing, f.Message), Data: failureData(f)})
	}
	t.Attempt++
	t.Doing, t.Kind, t.Error = doing, f.Kind, excerpt(f.Message, maxTrouble)
	t.NextAt = now.Add(pauseAfter(t.Attempt))
	if by := s.startBy(); !by.IsZero() && by.Before(t.NextAt) {
		t.NextAt = by
	}
}

// tryNow makes the next attempt due at once.
func (s *core) tryNow() {
	if s.st.Trouble != nil {
		s.st.Trouble.NextAt = workflow.Now(s.ctx)
	}
}

// overcome ends a wait, because an attempt has worked.
func (s *core) overcome() {
	if t := s.st.Trouble; t != nil {
		s.note(conversation.Note{Type: protocol.EntryState, Text: fmt.Sprintf("managed to %s, after %d attempts that failed since %s", t.Doing, t.Attempt, clock(t.Since))})
		s.st.Trouble = nil
	}
}

// keepTrying calls try until it works, or fails in a way that waiting cannot mend.
// Between two attempts the session waits, longer each time, and shows that it
// waits. If the history of the run becomes full during a wait, keepTrying returns
// again, and the next run goes on with the wait.
//
// A wait ends early when leave returns true, when the session is to close or to
// resume (elsewhere or now), or when its turn is interrupted. Then keepTrying
// returns the newest failure, and the caller finds out why the wait ended. A wish
// to resume ends only one wait: the caller sets obeyed to the wish that it knows.
func (s *core) keepTrying(doing string, leave func() bool, try func() (f *protocol.Failure, again bool)) (f *protocol.Failure, again bool) {
	for {
		if f, again := s.waitOut(leave); f != nil || again {
			return f, again
		}
		f, again := try()
		switch {
		case again:
			return f, true
		case f == nil:
			if t := s.st.Trouble; t != nil && t.Doing == doing && s.st.Close == nil && s.st.Lost == nil {
				s.overcome()
			}
			return nil, false
		case !failurePasses(f) || s.st.Close != nil || leave():
			return f, false
		}
		s.meet(doing, f)
		if late := s.tooLateToStart(); late != nil {
			return late, false
		}
	}
}

// waitOut waits until the next attempt is due. If the wait was ended early, it returns the
// failure that was waited out. If the session has waited too long to start, it returns the
// failure start_timeout. again means that the wait has to go on in the next run.
func (s *core) waitOut(leave func() bool) (f *protocol.Failure, again bool) {
	t := s.st.Trouble
	if t == nil {
		return nil, false
	}
	s.publish()
	called := func() bool {
		return s.st.Close != nil || s.st.Resume != nil && s.st.Resume != s.obeyed || s.st.Down != nil || s.st.Running && s.st.Interrupt != nil || leave()
	}
	wait := t.NextAt.Sub(workflow.Now(s.ctx))
	if wait <= 0 {
		return s.tooLateToStart(), false
	}
	if _, err := s.awaitFor(wait, func() bool { return called() || s.full() }); err != nil {
		return &protocol.Failure{Kind: protocol.ErrTypeInternal, Message: fmt.Sprintf("wait to %s: %v", t.Doing, err)}, false
	}
	switch {
	case called():
		return t.failure(), false
	case s.full():
		return nil, true
	}
	return s.tooLateToStart(), false
}

// waitsForAttempt reports whether the session waits for the next attempt.
func (s *core) waitsForAttempt() bool {
	return s.st.Trouble != nil && s.st.Close == nil && workflow.Now(s.ctx).Before(s.st.Trouble.NextAt)
}

// waitsToComeBack reports whether the session waits for the next attempt to come
// back to a host. Such a session could as well be parked.
func (s *core) waitsToComeBack() bool {
	return s.waitsForAttempt() && s.st.Begun && s.st.Layout == nil
}

// failure returns the failure that is waited out.
func (t *trouble) failure() *protocol.Failure {
	return &protocol.Failure{Kind: t.Kind, Message: t.Error}
}

func (s *core) waitingView() *protocol.WaitingView {
	t := s.st.Trouble
	if t == nil {
		return nil
	}
	v := protocol.WaitingView(*t)
	return &v
}

// text says in one line what the session waits for.
func (t *trouble) text() string {
	return fmt.Sprintf("another attempt to %s (%d failed): %s", t.Doing, t.Attempt, t.Error)
}

// startBy returns the time by which the session has to begin. It is zero if the session has
// started, or may wait for ever.
func (s *core) startBy() time.Time {
	limit := protocol.StartTimeout
	if s.opt.StartTimeout != nil {
		limit = *s.opt.StartTimeout
	}
	if limit == 0 || s.hasStarted() {
		return time.Time{}
	}
	return s.st.CreatedAt.Add(limit)
}

// hasStarted reports whether the first turn could begin: codex was up once.
func (s *core) hasStarted() bool {
	return s.st.Started || s.st.Pump.Opened > 0 || s.st.hadTurn()
}

// tooLateToStart returns the failure of a session that could not begin in time,
// and nil for any other.
func (s *core) tooLateToStart() *protocol.Failure {
	by := s.startBy()
	if by.IsZero() || workflow.Now(s.ctx).Before(by) {
		return nil
	}
	f := &protocol.Failure{Kind: kindStartTimeout, Final: true,
		Message: fmt.Sprintf("the session could not begin within %v", by.Sub(s.st.CreatedAt)),
		Hint:    "see what it waited for, then start it again; --start-timeout gives it more time, 0 any"}
	if t := s.st.Trouble; t != nil {
		f.Message += fmt.Sprintf(": it tried to %s %d times since %s, and the last error was: %s", t.Doing, t.Attempt, clock(t.Since), t.Error)
	} else if s.st.Waits != "" {
		f.Message += ": it waited for " + s.st.Waits
	}
	f.Message = excerpt(f.Message, maxFailure)
	return f
}
