package flows

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// A keeping is a Temporal that has one history and takes signals.
type keeping struct {
	client.Client
	events []*historypb.HistoryEvent
	sent   int
}

func (k *keeping) GetWorkflowHistory(context.Context, string, string, bool, enums.HistoryEventFilterType) client.HistoryEventIterator {
	return &pages{k.events}
}

func (k *keeping) SignalWorkflow(context.Context, string, string, string, any) error {
	k.sent++
	return nil
}

type pages struct{ events []*historypb.HistoryEvent }

func (p *pages) HasNext() bool { return len(p.events) > 0 }
func (p *pages) Next() (*historypb.HistoryEvent, error) {
	ev := p.events[0]
	p.events = p.events[1:]
	return ev, nil
}

// sent catches what a client sends as a signal.
type sentSignal struct {
	interceptor.ClientOutboundInterceptorBase
	arg any
}

func (s *sentSignal) SignalWorkflow(_ context.Context, in *interceptor.ClientSignalWorkflowInput) error {
	s.arg = in.Arg
	return nil
}

func TestAContraryDecisionIsRefusedWhereCtlCannotFollowTheHistory(t *testing.T) {
	key, err := payload.GenerateKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	codec := payload.NewCodec("default", key)
	kept := func(d protocol.Decide) *commonpb.Payloads {
		t.Helper()
		to := &sentSignal{}
		if err := codec.Interceptor().InterceptClient(to).SignalWorkflow(t.Context(), &interceptor.ClientSignalWorkflowInput{WorkflowID: judgedID, SignalName: protocol.SignalDecide, Arg: d}); err != nil {
			t.Fatal(err)
		}
		in, err := codec.Of(judgedID, time.Time{}).ToPayloads(to.arg)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	signal := func(name string, in *commonpb.Payloads) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
			WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: name, Input: in}}}
	}
	accept := kept(protocol.Decide{Approval: "s1.1", Outcome: "accept", By: "bob", Digest: "d"})
	for what, c := range map[string]struct {
		ev      *historypb.HistoryEvent
		refused bool
	}{
		"a signal": {signal(protocol.SignalDecide, accept), true},
		"an update": {&historypb.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, Attributes: &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{
			WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
				AcceptedRequest: &updatepb.Request{Input: &updatepb.Input{Name: protocol.SignalDecide, Args: accept}}}}}, true},
		"the same decision":    {signal(protocol.SignalDecide, kept(protocol.Decide{Approval: "s1.1", Outcome: "decline", By: "bob"})), false},
		"another approval":     {signal(protocol.SignalDecide, kept(protocol.Decide{Approval: "s1.2", Outcome: "accept"})), false},
		"another signal":       {signal(protocol.SignalMessage, accept), false},
		"what nobody can read": {signal(protocol.SignalDecide, &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: []byte("x")}}}), false},
		"nothing":              {signal(protocol.SignalDecide, nil), false},
	} {
		k := &keeping{events: []*historypb.HistoryEvent{c.ev}}
		tt := &Conn{Client: k, Side: quiet{}, Codec: codec}
		d := Delivery{Doing: "decline approval s1.1", Session: "s1", Name: protocol.SignalDecide, Again: true,
			Msg: protocol.Decide{Approval: "s1.1", Outcome: "decline", By: "carol", Digest: "d"}}
		_, err := d.Send(t.Context(), tt, protocol.SessionDetail{}, false, errkind.Unreachable("ctl cannot follow the history"), nil)
		if refused := err != nil && errkind.ExitCode(err) == errkind.ExitRefused; refused != c.refused || (k.sent == 0) != c.refused {
			t.Errorf("%s: it was sent %d times, %v", what, k.sent, err)
		}
		if c.refused && !strings.Contains(err.Error(), "accept by bob") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
