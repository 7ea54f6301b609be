package payload

import (
	"context"
	"slices"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// A replay runs no validators, so it would accept an update that somebody else's worker
// accepted. The result of an update proves that a worker of ours accepted it, because its mark
// covers the arguments. The SDK does not show recorded results to a replay. So the connection
// of a worker reads them in the histories that it receives.

// mostProofs bounds the memory of proofs. A proof that was dropped too early fails one
// workflow task, and the next attempt reads the history again.
const mostProofs = 1 << 16

// proofs has the updates that workers of ours accepted, from the histories that this program
// has received. It is safe for concurrent use.
type proofs struct {
	mu    sync.Mutex
	known map[string]bool
	order []string // the oldest first
	// admitted are updates that a reset brought back, by workflow and id, until they are accepted.
	admitted map[string]received
}

// admit remembers an update that may be accepted on another page of a history.
func (p *proofs) admit(workflowID, id string, r received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.admitted == nil || len(p.admitted) >= mostProofs {
		p.admitted = map[string]received{}
	}
	p.admitted[workflowID+"\x00"+id] = r
}

func (p *proofs) admittedAs(workflowID, id string) (received, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.admitted[workflowID+"\x00"+id]
	return r, ok
}

func (p *proofs) add(at place, purpose string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := at.String() + " " + purpose
	if p.known[key] {
		return
	}
	if p.known == nil {
		p.known = map[string]bool{}
	}
	if len(p.order) >= mostProofs {
		for _, old := range p.order[:mostProofs/2] {
			delete(p.known, old)
		}
		p.order = slices.Clone(p.order[mostProofs/2:])
	}
	p.known[key], p.order = true, append(p.order, key)
}

func (p *proofs) has(at place, purpose string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[at.String()+" "+purpose]
}

// A received is an update that a handler or a validator got.
type received struct {
	from    Origin
	by      dataConverter
	purpose string // of its proof
}

type messageKey struct{}

// SentBy says who sent an update. The context is that of its handler or validator.
func SentBy(ctx workflow.Context) Origin {
	r, _ := ctx.Value(messageKey{}).(received)
	return r.from
}

// Accepted returns an error if no worker of ours accepted the update of a handler's context.
// Where a worker sent the update, or nothing is required of the workflow, it returns nil.
func Accepted(ctx workflow.Context) error {
	r, ok := ctx.Value(messageKey{}).(received)
	if !ok || r.from == FromWorker || r.by.codec == nil {
		return nil
	}
	c, at, began := r.by.codec, r.by.at, workflow.GetInfo(ctx).WorkflowStartTime
	if !c.requires(began) || !workflow.IsReplaying(ctx) || c.proofs.has(at, r.purpose) {
		return nil
	}
	return &Error{Err: ErrForged, at: at, began: began, since: c.workers.Since, unjudged: true}
}

type proofKey struct{}

// Prove records that a worker of ours accepted the update of a handler's context. It costs an
// event, and is for handlers that do not return a result in the task that accepted the update.
func Prove(ctx workflow.Context) {
	r, _ := ctx.Value(messageKey{}).(received)
	workflow.SideEffect(workflow.WithValue(ctx, proofKey{}, r.purpose), func(workflow.Context) any { return true })
}

// readsProofs reads the proofs in the histories that a worker receives.
func (c *Codec) readsProofs(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if err != nil {
		return err
	}
	switch got := reply.(type) {
	case *workflowservice.PollWorkflowTaskQueueResponse:
		c.readProofs(got.GetWorkflowExecution().GetWorkflowId(), got.GetHistory().GetEvents())
	case *workflowservice.RespondWorkflowTaskCompletedResponse:
		task := got.GetWorkflowTask()
		c.readProofs(task.GetWorkflowExecution().GetWorkflowId(), task.GetHistory().GetEvents())
	case *workflowservice.GetWorkflowExecutionHistoryResponse:
		asked, _ := req.(*workflowservice.GetWorkflowExecutionHistoryRequest)
		id := asked.GetExecution().GetWorkflowId()
		c.readProofs(id, got.GetHistory().GetEvents())
		for _, blob := range got.GetRawHistory() {
			var h historypb.History
			if blob.GetEncodingType() == enums.ENCODING_TYPE_PROTO3 && proto.Unmarshal(blob.GetData(), &h) == nil {
				c.readProofs(id, h.GetEvents())
			}
		}
	}
	return nil
}

// readProofs remembers which updates workers of ours accepted. The proof of an update is in the
// same batch of events as its acceptance, so both are on one page of a history.
func (c *Codec) readProofs(workflowID string, events []*historypb.HistoryEvent) {
	accepted := map[int64]received{}
	for _, ev := range events {
		switch ev.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ADMITTED:
			r := ev.GetWorkflowExecutionUpdateAdmittedEventAttributes().GetRequest()
			if got, ok := c.updateOf(workflowID, r); ok {
				c.proofs.admit(workflowID, r.GetMeta().GetUpdateId(), got)
			}
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
			a := ev.GetWorkflowExecutionUpdateAcceptedEventAttributes()
			got, ok := c.proofs.admittedAs(workflowID, a.GetProtocolInstanceId())
			if r := a.GetAcceptedRequest(); r != nil {
				got, ok = c.updateOf(workflowID, r)
			}
			if ok {
				accepted[ev.GetEventId()] = got
			}
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED:
			done := ev.GetWorkflowExecutionUpdateCompletedEventAttributes()
			if got, ok := accepted[done.GetAcceptedEventId()]; ok {
				c.prove(got, done.GetOutcome().GetSuccess().GetPayloads())
			}
		case enums.EVENT_TYPE_MARKER_RECORDED:
			for _, details := range ev.GetMarkerRecordedEventAttributes().GetDetails() {
				for _, got := range accepted {
					c.prove(got, details.GetPayloads())
				}
			}
		}
	}
}

// updateOf returns the place and the purpose of the proof of an update.
func (c *Codec) updateOf(workflowID string, r *updatepb.Request) (received, bool) {
	name := r.GetInput().GetName()
	at := place{kind: ofWorkflow, workflow: workflowID}
	var args [][]byte
	for _, p := range r.GetInput().GetArgs().GetPayloads() {
		plain, err := c.open(p, at.message(toUpdate, name).String())
		if err != nil {
			return received{}, false // then the handler cannot read it either
		}
		args = append(args, plain.GetData())
	}
	return received{by: dataConverter{at: at}, purpose: forUpdate(name, digestOf(args))}, true
}

func (c *Codec) prove(r received, payloads []*commonpb.Payload) {
	for _, p := range payloads {
		if ok, err := c.marked(p, r.purpose); err == nil && ok && string(p.GetMetadata()[metadataPlace]) == r.by.at.String() {
			c.proofs.add(r.by.at, r.purpose)
		}
	}
}
