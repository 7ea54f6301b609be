package pumps

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/teamtool"
)

const (
	// callOverrun is how much longer than its timeout a call's workflow may take to say how
	// the call ended, because workers are busy or dead.
	callOverrun = time.Minute
	// callKept bounds the workflow itself, which ends by itself unless no worker runs it.
	callKept = 10 * time.Minute
)

// callActivity has the team's worker carry out a call. The workflow that does so has an id made
// of the call's, so however many pumps ask, the call is carried out once, and each of them gets
// the same answer.
func callActivity(ctx context.Context, s *site.Site, tool protocol.TeamTool, call teamtool.Call) (teamtool.Reply, error) {
	target, err := teamtool.FindActivity(s.ToolActivities, *tool.Activity)
	if err != nil {
		return call.Fail("The tool %s cannot be called here: %v. Go on without it, and say so.", tool.Name, err), nil
	}
	argument, err := sealed(target, tool, call)
	if err != nil || s.Temporal == nil {
		s.Logger.Error("a call of a tool cannot be written for the team's worker", "tool", tool.Name, "session", call.Session, "error", err)
		return call.Fail("The tool %s was not called: there is trouble on our side, not on yours. Go on without it, and say so.", tool.Name), nil
	}
	over := call.Begun.Add(tool.Wait())
	within, cancel := context.WithTimeout(ctx, max(over.Add(callOverrun).Sub(s.Now()), callOverrun/2))
	defer cancel()
	run := s.Temporal.GetWorkflow(within, protocol.ToolCallID(call.ID), "")
	// Temporal may have forgotten a call that began long ago, and would begin it again.
	if s.Now().Before(over) {
		run, err = begin(within, s, tool, call, argument)
	}
	var result protocol.CallToolResult
	if err == nil {
		err = run.Get(within, &result)
	}
	var gone *serviceerror.NotFound
	var ended *temporal.WorkflowExecutionError
	switch {
	case err == nil:
		return replied(target, tool, call, result), nil
	case ctx.Err() != nil:
		return teamtool.Reply{}, context.Cause(ctx)
	case errors.As(err, &ended):
		return call.Ended(tool, protocol.CallToolResult{Outcome: protocol.ToolStopped}), nil
	case errors.As(err, &gone), within.Err() != nil:
		return call.Ended(tool, protocol.CallToolResult{Outcome: protocol.ToolTimedOut}), nil
	}
	return teamtool.Reply{}, fmt.Errorf("have a call of the tool %s carried out: %w", tool.Name, err)
}

// begin starts the workflow of a call, or finds it.
func begin(ctx context.Context, s *site.Site, tool protocol.TeamTool, call teamtool.Call, argument protocol.RawPayload) (client.WorkflowRun, error) {
	id := protocol.ToolCallID(call.ID)
	run, err := s.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: protocol.TaskQueueOf(s.Zone), StaticSummary: "tool " + tool.Name + " of session " + call.Session,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowRunTimeout:       tool.Wait() + callKept,
	}, protocol.TypeToolCall, protocol.CallToolInput{
		ID: call.ID, Tool: tool.Name, Session: call.Session, Activity: *tool.Activity, Wait: tool.Wait(), Argument: argument,
	})
	var there *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &there) {
		return s.Temporal.GetWorkflow(ctx, id, ""), nil
	}
	return run, err
}

// replied makes the reply for the model of how a call ended.
func replied(target teamtool.ActivityTarget, tool protocol.TeamTool, call teamtool.Call, r protocol.CallToolResult) teamtool.Reply {
	if r.Outcome != protocol.ToolAnswered {
		return call.Ended(tool, r)
	}
	if r.Answer == nil {
		return teamtool.Answer(false, nil)
	}
	p, err := opened(target, &commonpb.Payload{Metadata: r.Answer.Metadata, Data: r.Answer.Data})
	if err != nil {
		return teamtool.Reply{Text: fmt.Sprintf("The tool %s carried out the call, but its answer cannot be read: %v. Go on without the answer, and say so.", tool.Name, err)}
	}
	switch encoding := string(p.GetMetadata()[converter.MetadataEncoding]); encoding {
	case converter.MetadataEncodingJSON, converter.MetadataEncodingProtoJSON:
		return teamtool.Answer(true, p.GetData())
	case converter.MetadataEncodingBinary, converter.MetadataEncodingNil, "":
		return teamtool.Answer(false, p.GetData())
	default:
		return teamtool.Reply{Text: fmt.Sprintf("The tool %s carried out the call, but its answer cannot be read: its encoding is %.60q. Go on without the answer, and say so.", tool.Name, encoding)}
	}
}

// Metadata of the codec in the encryption samples of Temporal's SDKs.
const (
	encodingEncrypted = "binary/encrypted"
	metadataKeyID     = "encryption-key-id"
)

// sealed returns the argument of a call as the team's worker reads it.
func sealed(target teamtool.ActivityTarget, tool protocol.TeamTool, call teamtool.Call) (protocol.RawPayload, error) {
	data, err := call.Argument(tool.Name)
	if err != nil {
		return protocol.RawPayload{}, err
	}
	p := protocol.RawPayload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: data}
	if len(target.Keys) == 0 {
		return p, nil
	}
	whole, err := proto.Marshal(&commonpb.Payload{Metadata: p.Metadata, Data: p.Data})
	if err != nil {
		return p, err
	}
	key := target.Keys[0]
	data, err = key.Seal(whole)
	return protocol.RawPayload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingEncrypted), metadataKeyID: []byte(key.ID)}, Data: data}, err
}

// opened returns an answer in plain. Where there is a key, a plain answer is refused: anybody
// who may write to Temporal can write one.
func opened(target teamtool.ActivityTarget, p *commonpb.Payload) (*commonpb.Payload, error) {
	encrypted := string(p.GetMetadata()[converter.MetadataEncoding]) == encodingEncrypted
	switch {
	case !encrypted && len(target.Keys) == 0:
		return p, nil
	case !encrypted:
		return nil, errors.New("it is not encrypted with the key of its queue")
	}
	for _, key := range target.Keys {
		if key.ID != string(p.GetMetadata()[metadataKeyID]) {
			continue
		}
		plain, err := key.Open(p.GetData())
		if err != nil {
			return nil, err
		}
		out := &commonpb.Payload{}
		if proto.Unmarshal(plain, out) != nil {
			return nil, errors.New("what is encrypted is no payload")
		}
		return out, nil
	}
	return nil, errors.New("the workers of Fairlead do not have its key")
}
