package activities

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
)

// noSession is a Temporal that knows no session.
type noSession struct{ client.Client }

func (noSession) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return nil, serviceerror.NewNotFound("workflow not found for ID: session/nope")
}

func TestTheFolderOfASessionThatIsNotThere(t *testing.T) {
	s := &site.Site{Deps: site.Deps{Temporal: noSession{}}}
	_, err := workspaces.WorkPlaceOf(t.Context(), s, "nope")
	var typed *kit.TypedError
	if !errors.As(err, &typed) || typed.Kind != protocol.ErrTypeNotThere || !strings.Contains(err.Error(), "there is no session nope") {
		t.Errorf("it is %v", err)
	}
}
