package flows

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// notContrary refuses a decision if the history of its session has a contrary one. It is for
// histories that this ctl cannot follow, with no worker up: then nobody can say which of the
// two counts.
func (t *Conn) notContrary(ctx context.Context, doing, session string, d protocol.Decide) error {
	h, err := t.history(ctx, doing, protocol.SessionID(session))
	if err != nil {
		return err
	}
	was := contraryIn(t.Codec, h, d)
	if was == nil {
		return nil
	}
	return errkind.Refused("%s: Temporal keeps another decision on it: %s by %s, and ctl cannot follow the history to see whether that counts", doing, was.Outcome, was.By).
		Hinted("decide once a worker is up (`ctl status`), or with a ctl of the workers' version")
}

// contraryIn returns the first decision on the same approval with another outcome, or nil. It
// leaves out what cannot be read, because workers cannot read that either.
func contraryIn(codec *payload.Codec, h *historypb.History, d protocol.Decide) *protocol.Decide {
	for _, ev := range h.GetEvents() {
		var args *commonpb.Payloads
		if s := ev.GetWorkflowExecutionSignaledEventAttributes(); s.GetSignalName() == protocol.SignalDecide {
			args = s.GetInput()
		}
		if in := ev.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput(); in.GetName() == protocol.SignalDecide {
			args = in.GetArgs()
		}
		var was protocol.Decide
		if len(args.GetPayloads()) != 1 || codec.DataConverter().FromPayload(args.GetPayloads()[0], &was) != nil {
			continue
		}
		if was.Approval == d.Approval && was.Outcome != d.Outcome {
			return &was
		}
	}
	return nil
}
