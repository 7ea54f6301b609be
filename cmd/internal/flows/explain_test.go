package flows

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// If a person names something that does not exist, the hint says how to list what exists.
func TestWhatIsNotThereComesWithWhereToLook(t *testing.T) {
	for message, want := range map[string]string{
		`zone default has no host "web-9"`:      "`ctl host list` shows what there is",
		"cancel batch nightly":                  "`ctl batch list` shows what there is",
		"show session s1":                       "`ctl session list` shows what there is",
		"create schedule nightly: no seed team": "`ctl seed list` shows what there is",
		"look at approval s.1":                  "",
	} {
		if got := whatThereIs(message); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

// A refusal may name an existing session in which something else does not exist. The hint
// is not about the session.
func TestARefusalPointsOnlyToWhatIsMissing(t *testing.T) {
	for message, want := range map[string]string{
		`zone default has no host "web-9"`:                                                                "`ctl host list` shows what there is",
		`host web-1: zone default has no jump host "bastion"`:                                             "`ctl host list` shows what there is",
		`there is no seed "team"`:                                                                         "`ctl seed list` shows what there is",
		`session s1 knows no message "m7"`:                                                                "",
		"decide s1.9: no such approval: session s1 has had only 3 approvals so far":                       "",
		"session s1 keeps no turn 4: it does not exist, or only the transcript has it (`ctl transcript`)": "",
	} {
		codec := payload.NewCodec("default")
		e := refusal(codec, temporalsdk.NewApplicationError(message, protocol.RefusedNotFound))
		if e == nil || e.Hint != want {
			t.Errorf("%s: %+v, want the hint %q", message, e, want)
		}
	}
}

// The connection and the context have the same deadline, and either can report it first. In
// both cases it is a timeout, not a silent worker.
func TestAWaitThatIsOverIsNoWorkerThatIsAway(t *testing.T) {
	wire := serviceerror.NewDeadlineExceeded("context deadline exceeded")
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if !OutOfTime(soon, wire) {
		t.Error("the wire was first, and it is not over")
	}
	later, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if OutOfTime(later, wire) || OutOfTime(soon, nil) {
		t.Error("what failed long before, or did not, is over")
	}
}
