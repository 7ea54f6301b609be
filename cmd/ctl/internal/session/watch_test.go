package session

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/payload"
)

// cutOff is a Temporal client whose server ends a query shortly before the caller's
// deadline.
type cutOff struct{ client.Client }

func (cutOff) QueryWorkflow(ctx context.Context, _, _, _ string, _ ...any) (converter.EncodedValue, error) {
	end, _ := ctx.Deadline()
	time.Sleep(time.Until(end) - 5*time.Millisecond)
	return nil, serviceerror.NewDeadlineExceeded("context deadline exceeded")
}

// A query that --timeout cuts off does not show that the worker is silent.
func TestAQueryThatTheTimeoutCutsOffIsNotASilentWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		a := &core.App{Err: &told}
		a.Flags.Timeout = time.Second
		tt := conn.With(a, cutOff{}, payload.NewCodec("default"))
		over := core.TimedOut("no end within 1s")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, over)
		defer cancel()
		time.Sleep(800 * time.Millisecond)
		if _, err := look(ctx, a, tt, "s1"); !errors.Is(err, over) {
			t.Errorf("it ends with %v", err)
		}
		if told.Len() > 0 {
			t.Errorf("it says %q", told.String())
		}
	})
}
