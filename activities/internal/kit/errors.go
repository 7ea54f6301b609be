package kit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// A TypedError has its own type and hint.
type TypedError struct {
	Kind, Hint string
	Retry      bool
	delay      time.Duration // until the next attempt; 0 means Failing.Delay
	Err        error
}

func (e *TypedError) Error() string { return e.Err.Error() }
func (e *TypedError) Unwrap() error { return e.Err }

// BadInput returns an ErrTypeBadInput, which is not retried.
func BadInput(format string, args ...any) error {
	return &TypedError{Kind: protocol.ErrTypeBadInput, Err: fmt.Errorf(format, args...)}
}

// A SeedError says that a seed cannot be used.
type SeedError struct {
	Name string
	Err  error
}

func (e *SeedError) Error() string { return fmt.Sprintf("read seed %s: %v", e.Name, e.Err) }
func (e *SeedError) Unwrap() error { return e.Err }

// ErrHandOver says that this worker is stopping and another goes on.
var ErrHandOver = errors.New("this worker is stopping; another one goes on")

// A Failing converts an attempt's errors for Temporal.
type Failing struct {
	Epoch hostexec.Epoch // zero if none
	Hide  *seeds.Redactor
	Delay time.Duration // until the next attempt; 0 leaves it to the policy
}

// Failure makes a Temporal error with a type, whether to retry, and a Problem. No other
// code does. It redacts messages and sends no causes.
func (f Failing) Failure(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return err
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.Is(err, ErrHandOver) {
		return context.Canceled
	}
	kind, hint, retry := f.Classify(err)
	delay := f.Delay
	if typed := (*TypedError)(nil); errors.As(err, &typed) && typed.delay > 0 {
		delay = typed.delay
	}
	msg := f.Hide.String(cut(what + ": " + err.Error()))
	details := []any{protocol.Problem{Kind: kind, Message: msg, Hint: hint, Passing: misconfigured(err)}}
	if flood := (*hostexec.FloodError)(nil); errors.As(err, &flood) && flood.Host != "" {
		details = append(details, flood.Host)
	}
	return temporal.NewApplicationErrorWithOptions(msg, kind, temporal.ApplicationErrorOptions{
		NonRetryable:   !retry,
		NextRetryDelay: delay,
		Details:        details,
	})
}

// maxMessage bounds an error's text, of which a part may be a host's, in bytes.
const maxMessage = 16 << 10

func cut(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}

// misconfigured reports whether this worker's configuration is at fault, so that another
// worker could succeed. An immediate retry is useless; accepted work waits.
func misconfigured(err error) bool {
	return errors.Is(err, store.ErrWrongKey) || errors.Is(err, store.ErrNoIdentity) || errors.Is(err, store.ErrOtherStore) || errors.Is(err, snapshots.ErrNewer)
}

// UntilRoom makes a full disk retryable, for work that can only wait for room. It returns
// other errors unchanged.
func (f Failing) UntilRoom(err error) error {
	if !errors.Is(err, hostexec.ErrNoSpace) {
		return err
	}
	kind, hint, _ := f.Classify(err)
	return &TypedError{Kind: kind, Hint: hint, Retry: true, Err: err}
}

func (f Failing) Classify(err error) (kind, hint string, retry bool) {
	var typed *TypedError
	var seed *SeedError
	var fenced *hostexec.FencedError
	var login *Unsavable
	var lineage *snapshots.LineageError
	var upstream *snapshots.UpstreamError
	var secret *snapshots.GitSecretError
	switch {
	case errors.As(err, &typed):
		return typed.Kind, typed.Hint, typed.Retry
	case errors.Is(err, ErrHandOver):
		return protocol.ErrTypeWireLost, "", true
	case errors.Is(err, hostexec.ErrFlood):
		return protocol.ErrTypeHostFlood, "look at the start files of its login shell and at its programs (a person there, not a session); `ctl host check` ends its quarantine once it answers as others do", false
	case errors.As(err, &fenced) && f.overtaken(fenced.Host):
		return protocol.ErrTypeFenced, "a newer attempt of the same work has taken over; nothing to do", true
	case errors.Is(err, hostexec.ErrFenced):
		return protocol.ErrTypeFenced, "the host was used by a newer holder of this session: a worker or server that was restored from an old state must not go on; close the session, or look at its folder on the host", false
	case errors.Is(err, hostexec.ErrHostKeyChanged):
		return protocol.ErrTypeHostKey, "the host shows another key than the one that is pinned: if it was reinstalled, remove it and add it again with `ctl host add`; otherwise somebody may be intercepting the connection", false
	case errors.Is(err, hostexec.ErrHostKeyUnknown):
		return protocol.ErrTypeHostKey, "pin the host's key: `ctl host add` with --host-key or --known-hosts", false
	case errors.Is(err, hostexec.ErrAuth):
		return protocol.ErrTypeAuth, "check --identity (a path on the machine of the worker), the agent there, and authorized_keys on the host", false
	case errors.Is(err, hostexec.ErrNoSpace):
		return protocol.ErrTypeNoSpace, "free some disk space below the host's root folder, or choose another one with `ctl host add --root`", false
	case errors.Is(err, ErrSeedFenced):
		return protocol.ErrTypeSeedFenced, "somebody else may hold the login by now; close the session with --discard, and see `ctl seed show`", false
	case errors.As(err, &login):
		return protocol.ErrTypeSeed, "see auth.json in the session's folder on the host; --discard gives up what cannot be saved", false
	case errors.As(err, &seed):
		return seedKind(seed.Name, err)
	case errors.Is(err, snapshots.ErrNewer):
		return protocol.ErrTypeSnapshot, "bring this worker to the version of the others; `ctl status` shows which each of them has", false
	case errors.Is(err, snapshots.ErrQuota):
		return protocol.ErrTypeQuota, "leave out what can be made again with --snapshot-exclude, or raise snapshots.max_bytes in the workers' config", false
	case errors.Is(err, hostexec.ErrContent):
		return protocol.ErrTypeQuota, "remove it on the host, or leave it out with --snapshot-exclude", false
	case errors.Is(err, chunks.ErrMissing), errors.Is(err, chunks.ErrRotten),
		errors.Is(err, snapshots.ErrIncomplete), errors.Is(err, snapshots.ErrNotFound):
		return protocol.ErrTypeSnapshot, "see `ctl snapshot list` for another one, and `ctl snapshot check` for what is wrong with it", false
	case errors.As(err, &lineage), errors.As(err, &upstream), errors.As(err, &secret), errors.Is(err, snapshots.ErrGit):
		return protocol.ErrTypeSnapshot, "", false // the error says what to do
	case errors.Is(err, chunks.ErrCondemned):
		return protocol.ErrTypeStore, "", true
	case storeFailed(err):
		return storeKind(err)
	case errors.Is(err, seeds.ErrNotWiped), errors.Is(err, seeds.ErrNotPlanted):
		return protocol.ErrTypeInternal, "", true
	case errors.Is(err, hostexec.ErrUnsupported):
		return protocol.ErrTypeInternal, "see what the host lacks: `ctl host check`", false
	case errors.Is(err, hostexec.ErrOutcomeUnknown):
		return protocol.ErrTypeWireLost, "the connection was lost on the way; it is safe to try again", true
	case errors.Is(err, hostexec.ErrUnreachable):
		return protocol.ErrTypeUnreachable, "check that the host is up and its address and port are right: `ctl host check`", true
	}
	return protocol.ErrTypeInternal, "", true
}

// overtaken reports whether a newer attempt set the host's epoch.
func (f Failing) overtaken(host hostexec.Epoch) bool {
	return host.Generation == f.Epoch.Generation && host.Pump == f.Epoch.Pump && host.Attempt > f.Epoch.Attempt
}

func seedKind(name string, err error) (kind, hint string, retry bool) {
	switch {
	case errors.Is(err, store.ErrUnreachable):
		return storeKind(err)
	case errors.Is(err, store.ErrWrongKey), errors.Is(err, store.ErrNoIdentity):
		return protocol.ErrTypeSeed, "give this worker the identity that the store's blobs are encrypted for (identity in its config)", false
	case errors.Is(err, store.ErrNotFound):
		return protocol.ErrTypeSeed, "import it again: ctl seed import " + name + " DIR", false
	}
	return protocol.ErrTypeSeed, "the seed's blob is damaged: import it again: ctl seed import " + name + " DIR", false
}

var storeErrors = []error{store.ErrNotFound, store.ErrExists, store.ErrWrongKey, store.ErrNoIdentity, store.ErrTorn,
	store.ErrUnreachable, store.ErrOtherStore, store.ErrBadKey, store.ErrTooLarge, store.ErrNotExclusive}

func storeFailed(err error) bool {
	for _, e := range storeErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

const NotExclusiveHint = "move the store to a server that honours If-None-Match, as S3 itself does; until then no login is refreshed by workers"

func storeKind(err error) (kind, hint string, retry bool) {
	switch {
	case errors.Is(err, store.ErrWrongKey), errors.Is(err, store.ErrNoIdentity):
		return protocol.ErrTypeStore, "give this worker the identity that the store's blobs are encrypted for (identity in its config)", false
	case errors.Is(err, store.ErrOtherStore):
		return protocol.ErrTypeStore, "all workers must be given the same store", false
	case errors.Is(err, store.ErrNotExclusive):
		return protocol.ErrTypeStore, NotExclusiveHint, false
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return protocol.ErrTypeStoreFull, "make room where the store is; `ctl snapshot prune` frees what nothing needs any more", true
	case errors.Is(err, store.ErrUnreachable):
		return protocol.ErrTypeStore, "check the store's URL and that this worker can reach it", true
	}
	return protocol.ErrTypeStore, "", false
}

// ErrSeedFenced says that the lease on the seed has ended, or is a newer one by now.
var ErrSeedFenced = errors.New("the seed is not held any more")

// An Unsavable is a host's auth.json that cannot become the seed's next generation. Only a
// person may give it up.
type Unsavable struct {
	Rotation seeds.Rotation
	Err      error
}

func (e *Unsavable) Error() string { return e.Err.Error() }

func (e *Unsavable) Unwrap() error { return e.Err }

var NameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CheckID refuses ids that cannot name a folder or key.
func CheckID(what, id string) error {
	if !NameRule.MatchString(id) {
		return BadInput("%s id %q must be 1 to 63 of a-z 0-9 . _ - and begin with a letter or digit", what, id)
	}
	return nil
}

// Afterwards returns a context for cleaning up.
func Afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
}

// IsRootMissing reports whether a host's root folder is missing.
func IsRootMissing(err error) bool {
	var typed *TypedError
	return errors.As(err, &typed) && typed.Kind == protocol.ErrTypeRootMissing
}
