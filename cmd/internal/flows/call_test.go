package flows

import (
	"context"
	"errors"
	"testing"

	"go.temporal.io/api/serviceerror"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// A query can fail because a workflow task ends at the same time. That failure says nothing
// about the workflow, so the query is repeated and the user does not see it.
func TestAQueryThatMetAWorkflowTaskIsAskedAgain(t *testing.T) {
	met := serviceerror.NewQueryFailed("[TMPRL1100] invalid state transition: attempt to handleInitiatedEvent, CommandType: Activity, ID: 25, state=Created")
	tries := 0
	err := whenReady(t.Context(), func() error {
		if tries++; tries < 3 {
			return met
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	tries = 0
	if err := whenReady(t.Context(), func() error { tries++; return met }); !errors.Is(err, met) || tries != maxMet+1 {
		t.Errorf("one that always fails: after %d tries: %v", tries, err)
	}
	tries = 0
	other := serviceerror.NewQueryFailed("unknown queryType wrong")
	if err := whenReady(t.Context(), func() error { tries++; return other }); !errors.Is(err, other) || tries != 1 {
		t.Errorf("another failure: after %d tries: %v", tries, err)
	}
}

// Temporal hands a query to a poll of a worker that has just stopped, and cancels it then.
func TestAQueryThatAStoppedWorkerGotIsAskedAgain(t *testing.T) {
	lost := serviceerror.NewCanceled("context canceled")
	tries := 0
	if err := untilHeard(t.Context(), func() error {
		if tries++; tries < 3 {
			return lost
		}
		return nil
	}); err != nil || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	tries = 0
	if err := untilHeard(t.Context(), func() error { tries++; return lost }); !errors.Is(err, lost) || tries != maxMet+1 {
		t.Errorf("one that is always cancelled: after %d tries: %v", tries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tries = 0
	if err := untilHeard(ctx, func() error { tries++; return lost }); !errors.Is(err, lost) || tries != 1 {
		t.Errorf("the user gave up: after %d tries: %v", tries, err)
	}
}

// A workflow's refusal names the request, and ctl names it too. The user reads the name
// once.
func TestARefusalSaysOnceWhatWasBeingDone(t *testing.T) {
	tt := &Conn{Side: quiet{}, Codec: payload.NewCodec("default")}
	for _, c := range []struct{ doing, told, want string }{
		{"set session rel", "set session rel: codex lists no model foo", "set session rel: codex lists no model foo"},
		{"accept approval rel.1", "decide rel.1: already decided: decline by bob", "accept approval rel.1: already decided: decline by bob"},
		{"send to session rel", "message m-1 is empty: say what codex is to do", "send to session rel: message m-1 is empty: say what codex is to do"},
		{"interrupt session rel", "session rel has no running turn", "interrupt session rel: session rel has no running turn"},
		{"resume session rel", "set session other: no", "resume session rel: set session other: no"},
	} {
		err := tt.Explain(t.Context(), c.doing, temporalsdk.NewNonRetryableApplicationError(c.told, protocol.RefusedState, nil))
		if errkind.ExitCode(err) != errkind.ExitRefused || err.Error() != c.want {
			t.Errorf("%s, %q: %v, want %s", c.doing, c.told, err, c.want)
		}
	}
}

func TestAWorkflowThatIsNotReadyIsToldAgain(t *testing.T) {
	tries := 0
	err := whenReady(t.Context(), func() error {
		if tries++; tries < 3 {
			return serviceerror.NewWorkflowNotReady("it continues as new")
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	other := errors.New("something else")
	if err := whenReady(t.Context(), func() error { tries++; return other }); err != other || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var unready *serviceerror.WorkflowNotReady
	if err := whenReady(ctx, func() error { return serviceerror.NewWorkflowNotReady("") }); !errors.As(err, &unready) {
		t.Errorf("given up with %v", err)
	}
}

// A worker of somebody else can answer a query as it likes.
func TestAnAnswerWithoutTheAddressOfAHostIsAnError(t *testing.T) {
	if err := addressed("check host web-1", protocol.HostView{Name: "web-1"}, nil); errkind.ExitCode(err) != errkind.ExitFailed || err == nil {
		t.Errorf("without an address: %v", err)
	}
	if err := addressed("check host web-1", protocol.HostView{Name: "web-1", Spec: &protocol.HostSpec{}}, nil); err != nil {
		t.Errorf("with one: %v", err)
	}
	other := errors.New("no route")
	if err := addressed("check host web-1", protocol.HostView{}, other); !errors.Is(err, other) {
		t.Errorf("another failure: %v", err)
	}
}
