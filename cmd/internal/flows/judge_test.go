package flows

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/crypto/ssh"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/internal/access"
	gate "fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

const judgedID = "session/s1"

// judges has one approval, and judges decisions as a session does.
func judges(ctx workflow.Context) error {
	ap := protocol.Approval{ID: "s1.1", State: protocol.ApprovalOpen, Digest: "d", ExpiresAt: workflow.Now(ctx).Add(time.Hour)}
	if err := workflow.SetQueryHandler(ctx, protocol.QueryApprovals, func() ([]protocol.Approval, error) { return []protocol.Approval{ap}, nil }); err != nil {
		return err
	}
	for decisions := workflow.GetSignalChannel(ctx, protocol.SignalDecide); ; {
		var raw json.RawMessage
		var d protocol.Decide
		decisions.Receive(ctx, &raw)
		if err := json.Unmarshal(raw, &d); err != nil {
			return err
		}
		var v gate.Verdict
		err := workflow.SideEffect(ctx, func(workflow.Context) any {
			if k := gate.Of(ctx); k != nil {
				return k.Judge(gate.Command{Verb: access.ApprovalDecide, Received: command.Received{Workflow: judgedID, Name: protocol.SignalDecide, Kind: command.Signal, Raw: raw, Waited: time.Hour}})
			}
			return gate.Verdict{}
		}).Get(&v)
		if err != nil {
			return err
		}
		if v.Refused == "" && ap.Decision == nil {
			ap.State, ap.Decision = protocol.ApprovalDecided, &protocol.Decision{Outcome: d.Outcome, By: d.By}
		}
	}
}

// A change is the argument of an update that a principal signs.
type change struct {
	protocol.Commanded
	By string `json:"by"`
}

// changes tells who gave the last update.
func changes(ctx workflow.Context) error {
	by := "nobody"
	if err := workflow.SetQueryHandler(ctx, "by", func() (string, error) { return by, nil }); err != nil {
		return err
	}
	err := workflow.SetUpdateHandler(ctx, protocol.UpdatePutHost, func(_ workflow.Context, c change) (string, error) {
		by = c.By
		return by, nil
	})
	if err == nil {
		workflow.GetSignalChannel(ctx, "never").Receive(ctx, nil)
	}
	return err
}

func registerJudged(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(judges, workflow.RegisterOptions{Name: "judges"})
	r.RegisterWorkflowWithOptions(changes, workflow.RegisterOptions{Name: "changes"})
}

// begun is the history of a workflow whose first task is completed, and what follows.
func begun(kind string, more ...*historypb.HistoryEvent) *historypb.History {
	h := &historypb.History{Events: append([]*historypb.HistoryEvent{
		{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{WorkflowId: judgedID, OriginalExecutionRunId: "r",
				WorkflowType: &commonpb.WorkflowType{Name: kind}, TaskQueue: &taskqueuepb.TaskQueue{Name: "q"}}}},
		{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, Attributes: &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{
			WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{}}},
		{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, Attributes: &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
			WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{ScheduledEventId: 2}}},
		{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, Attributes: &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{
			WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{ScheduledEventId: 2, StartedEventId: 3}}},
	}, more...)}
	for i, ev := range h.Events {
		ev.EventId, ev.EventTime = int64(i+1), timestamppb.Now()
	}
	return h
}

// caught is a client that keeps the arguments of an update, as they are sent.
type caught struct {
	interceptor.ClientOutboundInterceptorBase
	args []any
}

func (c *caught) UpdateWorkflow(_ context.Context, in *interceptor.ClientUpdateWorkflowInput) (client.WorkflowUpdateHandle, error) {
	c.args = in.Args
	return nil, nil
}

// ctl opens the arguments of updates before it looks who gives them, as workers do.
func TestAReplayKnowsWhoGaveAnUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key, err := payload.GenerateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	codec := payload.NewCodec("default", key)
	to := &caught{}
	given := change{Commanded: protocol.Commanded{Auth: &protocol.Auth{Principal: "ann"}}, By: "mallory"}
	_, _ = codec.Interceptor().InterceptClient(to).UpdateWorkflow(t.Context(), &interceptor.ClientUpdateWorkflowInput{WorkflowID: judgedID, UpdateName: protocol.UpdatePutHost, Args: []any{given}})
	args, err := codec.Of(judgedID, time.Time{}).ToPayloads(to.args...)
	if err != nil {
		t.Fatal(err)
	}
	result, err := codec.Of(judgedID, time.Time{}).ToPayloads("ann")
	if err != nil {
		t.Fatal(err)
	}
	h := begun("changes",
		&historypb.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, Attributes: &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{
			WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{ProtocolInstanceId: "u", AcceptedRequestMessageId: "u/request", AcceptedRequestSequencingEventId: 2,
				AcceptedRequest: &updatepb.Request{Meta: &updatepb.Meta{UpdateId: "u"}, Input: &updatepb.Input{Name: protocol.UpdatePutHost, Args: args}}}}},
		&historypb.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED, Attributes: &historypb.HistoryEvent_WorkflowExecutionUpdateCompletedEventAttributes{
			WorkflowExecutionUpdateCompletedEventAttributes: &historypb.WorkflowExecutionUpdateCompletedEventAttributes{Meta: &updatepb.Meta{UpdateId: "u"}, AcceptedEventId: 5,
				Outcome: &updatepb.Outcome{Value: &updatepb.Outcome_Success{Success: result}}}}})
	var by string
	q := &query{codec: codec, register: registerJudged, doing: "look", name: "by"}
	if err := answer(q, h, time.Now(), &by); err != nil || by != "ann" {
		t.Errorf("the update is said to come from %q, %v", by, err)
	}
}

// With no worker up, Temporal keeps decisions. ctl says of each whether it will count.
func TestAKeptDecisionCountsAsTheAccessFileSays(t *testing.T) {
	codec := payload.NewCodec("default")
	signers := map[string]ssh.Signer{}
	for _, who := range []string{"bob", "mallory"} {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signers[who], err = ssh.NewSignerFromKey(private); err != nil {
			t.Fatal(err)
		}
	}
	file, err := access.Parse(fmt.Appendf(nil, "people:\n  - {name: bob, keys: [%q]}\nbindings:\n  - {name: all, roles: [approver], to: [bob]}\n",
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signers["bob"].PublicKey())))))
	if err != nil {
		t.Fatal(err)
	}
	decided := func(who, outcome string) *historypb.HistoryEvent {
		t.Helper()
		raw, err := json.Marshal(protocol.Decide{Approval: "s1.1", Outcome: outcome, By: who, Digest: "d"})
		if err != nil {
			t.Fatal(err)
		}
		signed, err := command.SignAs(command.Signal, signers[who], who, nil, judgedID, protocol.SignalDecide, raw, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		in, err := codec.Of(judgedID, time.Time{}).ToPayloads(signed)
		if err != nil {
			t.Fatal(err)
		}
		return &historypb.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
			WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: protocol.SignalDecide, Input: in}}}
	}
	keeper := gate.Fixed(file, time.Now)
	keeper.AllowBefore(time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		keeper *gate.Keeper
		kept   []*historypb.HistoryEvent
		state  protocol.ApprovalState
		by     string
	}{
		"an approver's":                         {keeper, []*historypb.HistoryEvent{decided("bob", "accept")}, protocol.ApprovalDecided, "bob"},
		"a stranger's":                          {keeper, []*historypb.HistoryEvent{decided("mallory", "accept")}, protocol.ApprovalOpen, ""},
		"an approver's, after a stranger's":     {keeper, []*historypb.HistoryEvent{decided("mallory", "accept"), decided("bob", "decline")}, protocol.ApprovalDecided, "bob"},
		"anybody's, where ctl has no such file": {nil, []*historypb.HistoryEvent{decided("mallory", "accept")}, protocol.ApprovalUnjudged, "mallory"},
		"none":                                  {nil, nil, protocol.ApprovalOpen, ""},
	} {
		var list []protocol.Approval
		q := &query{codec: codec, register: registerJudged, keeper: c.keeper, doing: "look", name: protocol.QueryApprovals}
		if err := answer(q, begun("judges", c.kept...), time.Now(), &list); err != nil || len(list) != 1 {
			t.Errorf("%s: %d approvals, %v", name, len(list), err)
			continue
		}
		by := ""
		if list[0].Decision != nil {
			by = list[0].Decision.By
		}
		if list[0].State != c.state || by != c.by {
			t.Errorf("%s: it is %s by %q, want %s by %q", name, list[0].State, by, c.state, c.by)
		}
		// A contrary decision is a conflict, as it is with a worker.
		contrary := protocol.Decide{Approval: "s1.1", Outcome: "decline", By: "carol", Digest: "d"}
		err := Decidable("decline approval s1.1", contrary)(protocol.SessionDetail{Approvals: list, View: protocol.SessionView{State: protocol.Running}})
		if conflict := errkind.ExitCode(err) == errkind.ExitRefused && err != nil; conflict != (c.state != protocol.ApprovalOpen) {
			t.Errorf("%s: a contrary decision: %v", name, err)
		}
	}
}
