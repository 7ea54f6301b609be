package payload

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrNoKey means that this program does not have the payload's key.
	ErrNoKey = errors.New("encrypted with a key that is not here")
	// ErrTorn means that an encrypted payload was cut, changed or copied from elsewhere.
	ErrTorn = errors.New("payload is torn, or of another namespace")
	// ErrMoved means that a payload was encrypted for another workflow, activity, signal or
	// update.
	ErrMoved = errors.New("payload was encrypted for another place")
	// ErrOlder means that a payload is not encrypted for its place, and must be.
	ErrOlder = errors.New("payload is not encrypted for its place")
	// ErrForged means that no worker wrote a payload that only workers may write.
	ErrForged = errors.New("payload was not written by a worker")
	// ErrKeyFile means that the key file cannot be used.
	ErrKeyFile = errors.New("not a file of payload keys")
)

// An Error says why a payload cannot be decrypted or is refused, and what to do. It wraps
// ErrNoKey, ErrTorn, ErrMoved, ErrOlder or ErrForged.
type Error struct {
	KeyID string   // of the needed key; empty if unknown
	Have  []string // ids of our keys
	Err   error

	at           place  // where it was met
	met          string // what was met there
	began, since time.Time
	worker       bool // KeyID is that of a key of workers
	unjudged     bool // it is an update that no worker of ours accepted
}

func (e *Error) Error() string {
	switch {
	case errors.Is(e.Err, ErrTorn):
		return fmt.Sprintf("decrypt a payload of Temporal's: %v", e.Err)
	case errors.Is(e.Err, ErrMoved):
		return fmt.Sprintf("read a payload of Temporal's for %s: %s, and is refused here: somebody has copied it", e.at.describe(), e.met)
	case errors.Is(e.Err, ErrOlder):
		return fmt.Sprintf("read a payload of Temporal's for %s: %s, and is refused (%s)", e.at.describe(), e.met, e.migration())
	}
	if e.unjudged {
		return fmt.Sprintf("replay an update of %s: no worker of ours accepted it. The update does not count, and the workflow waits. Probably another program answers the tasks of the workflow: let only workers poll the task queue, and reset the workflow to before the update (%s)", e.at.describe(), e.tagged())
	}
	if errors.Is(e.Err, ErrForged) {
		return fmt.Sprintf("read a payload of Temporal's for %s: it has no valid mark of a worker, so it is refused: only a worker may write it (%s)", e.at.describe(), e.tagged())
	}
	if e.KeyID == "" && !e.worker {
		return "decrypt a payload of Temporal's: it is encrypted, but not by Fairlead"
	}
	have := "none"
	if len(e.Have) > 0 {
		have = strings.Join(e.Have, ", ")
	}
	if e.worker {
		return fmt.Sprintf("verify a payload of Temporal's: it needs the workers' key %s, and this worker has %s (set temporal.worker_payload_key to the key file of the other workers; keep old keys in that file as long as histories need them)",
			cmp.Or(e.KeyID, "of another program"), have)
	}
	return fmt.Sprintf("decrypt a payload of Temporal's: it needs payload key %s, and this program has %s (set temporal.payload_key to the key file that the workers use; keep old keys in that file as long as histories need them)",
		e.KeyID, have)
}

func (e *Error) migration() string {
	const how = "set temporal.payloads_since of every worker and ctl to the time of the upgrade"
	switch {
	case e.since.IsZero():
		return "if it was written by an older version or before there was a key, " + how
	case e.began.IsZero():
		return "temporal.payloads_since is " + e.since.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("this began at %s, and only what began before temporal.payloads_since, %s, may have older payloads",
		e.began.UTC().Format(time.RFC3339), e.since.UTC().Format(time.RFC3339))
}

// tagged says what to do about a payload that was written before workers had a key.
func (e *Error) tagged() string {
	const how = "if a worker wrote it before that worker had a key, set temporal.worker_payload_since of every worker to the time at which all workers had one"
	if e.since.IsZero() {
		return how
	}
	return "only workflows that began before temporal.worker_payload_since, " + e.since.UTC().Format(time.RFC3339) + ", may lack marks"
}

func (e *Error) Unwrap() error { return e.Err }
