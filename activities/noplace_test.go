package activities

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/internal/protocol"
)

// noSession is a Temporal that knows no session.
type noSession struct{ client.Client }

func (noSession) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return nil, serviceerror.NewNotFound("workflow not found for ID: session/nope")
}

func TestTheFolderOfASessionThatIsNotThere(t *testing.T) {
	s := &site{Deps: Deps{Temporal: noSession{}}}
	_, err := workPlaceOf(t.Context(), s, "nope")
	var typed *typedError
	if !errors.As(err, &typed) || typed.kind != protocol.ErrTypeNotThere || !strings.Contains(err.Error(), "there is no session nope") {
		t.Errorf("it is %v", err)
	}
}
