package payload

import (
	"context"
	"crypto/hmac"
	"encoding/json"
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
	known map[string]string // the note of each
	order []string          // the oldest first
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

func (p *proofs) add(at place, purpose, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := at.String() + " " + purpose
	if _, is := p.known[key]; is {
		return
	}
	if p.known == nil {
		p.known = map[string]string{}
	}
	if len(p.order) >= mostProofs {
		for _, old := range p.order[:mostProofs/2] {
			delete(p.known, old)
		}
		p.order = slices.Clone(p.order[mostProofs/2:])
	}
	p.known[key], p.order = note, append(p.order, key)
}

func (p *proofs) has(at place, purpose string) bool {
	_, is := p.note(at, purpose)
	return is
}

func (p *proofs) note(at place, purpose string) (note string, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	note, is = p.known[at.String()+" "+purpose]
	return note, is
}

// A received is an update that a handler or a validator got.
type received struct {
	from    Origin
	by      dataConverter
	purpose string // of its proof
	note    string // of its proof
	to      *outbound
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
//
// The event also has the value that also returns; it is false in a history that lacks the
// value. also may run once, in the task that accepts the update. It must not take long, and may
// be nil.
func Prove(ctx workflow.Context, also func() bool) (did bool) {
	r, _ := ctx.Value(messageKey{}).(received)
	var v proven
	err := workflow.SideEffect(workflow.WithValue(ctx, proofKey{}, r), func(workflow.Context) any {
		return proven{Also: also != nil && also()}
	}).Get(&v)
	return err == nil && v.Also
}

// A proven is the value of a proof. Older histories have just true.
type proven struct {
	Also bool `json:"also,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *proven) UnmarshalJSON(data []byte) error {
	if string(data) == "true" {
		*p = proven{}
		return nil
	}
	type plain proven
	return json.Unmarshal(data, (*plain)(p))
}

// Metadata of a proof: what Note said, and a tag that covers it. A program that knows neither
// reads the proof as any other.
const (
	metadataNote    = "fairlead-note"
	metadataNoteTag = "fairlead-note-tag"
)

// maxNote bounds a note, in bytes.
const maxNote = 256

// Note is for validators. The proof of the update has the text, and the handler of the update
// gets it from Noted, also in a replay. A text that is too long is left out.
func Note(ctx workflow.Context, text string) {
	r, _ := ctx.Value(messageKey{}).(received)
	if r.to == nil || text == "" || len(text) > maxNote {
		return
	}
	if r.to.notes == nil {
		r.to.notes = map[string]string{}
	}
	r.to.notes[r.purpose] = text
}

// Noted returns what the validator of an update noted. The context is that of its handler. It
// returns "" where no proof is required of the workflow, since then a replay may not have it.
func Noted(ctx workflow.Context) string {
	r, _ := ctx.Value(messageKey{}).(received)
	return r.note
}

func (o *outbound) noted(ctx workflow.Context, r received) string {
	text := o.notes[r.purpose]
	delete(o.notes, r.purpose)
	c := r.by.codec
	if c == nil || c.workers != nil && !c.requires(workflow.GetInfo(ctx).WorkflowStartTime) {
		return ""
	}
	if workflow.IsReplaying(ctx) {
		text, _ = c.proofs.note(r.by.at, r.purpose)
	}
	return text
}

// noteAs is the purpose that the tag of a note covers.
func noteAs(purpose, note string) string { return purpose + " noted " + note }

// note adds a note to a marked payload.
func (c *Codec) note(at, purpose, note string, p *commonpb.Payload) {
	if c.workers == nil || note == "" || len(p.GetMetadata()[metadataWorkerTag]) == 0 {
		return
	}
	p.Metadata[metadataNote], p.Metadata[metadataNoteTag] = []byte(note), c.workers.keys()[0].tag(c.namespace, at, noteAs(purpose, note), p)
}

// noteOf returns the note of a proof that a worker marked for a purpose, or "".
func (c *Codec) noteOf(p *commonpb.Payload, purpose string) string {
	meta := p.GetMetadata()
	note := string(meta[metadataNote])
	if note == "" || len(note) > maxNote {
		return ""
	}
	for _, k := range c.workers.keys() {
		if k.id == string(meta[metadataWorkerKey]) && hmac.Equal(meta[metadataNoteTag], k.tag(c.namespace, string(meta[metadataPlace]), noteAs(purpose, note), p)) {
			return note
		}
	}
	return ""
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

// ReadNotes reads the notes of proofs in a history. It is for replays by a program that is not
// a worker and cannot verify proofs. Such a program cannot tell to which update the proof in a
// recorded value belongs. So the note counts for each update that was accepted before it and
// has no note.
func (c *Codec) ReadNotes(workflowID string, events []*historypb.HistoryEvent) {
	if c.workers == nil {
		c.readProofs(workflowID, events)
	}
}

func (c *Codec) prove(r received, payloads []*commonpb.Payload) {
	for _, p := range payloads {
		if note := string(p.GetMetadata()[metadataNote]); c.workers == nil && note != "" && len(note) <= maxNote {
			c.proofs.add(r.by.at, r.purpose, note)
		}
		if ok, err := c.marked(p, r.purpose); err == nil && ok && string(p.GetMetadata()[metadataPlace]) == r.by.at.String() {
			c.proofs.add(r.by.at, r.purpose, c.noteOf(p, r.purpose))
		}
	}
}
