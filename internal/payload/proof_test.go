package payload

import (
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/sdk/converter"
)

func plainOf(t *testing.T, v any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAResultProvesOnlyTheUpdateThatItAnswers(t *testing.T) {
	secret, mine := key(t), key(t)
	c := NewCodec("default", secret).ForWorkers(Workers{Keys: []Key{mine}, Required: true})
	at := place{kind: ofWorkflow, workflow: "w"}
	request := func(id, name, arg string) *updatepb.Request {
		t.Helper()
		args, err := c.encode(at.message(toUpdate, name), []*commonpb.Payload{plainOf(t, arg)})
		if err != nil {
			t.Fatal(err)
		}
		return &updatepb.Request{Meta: &updatepb.Meta{UpdateId: id}, Input: &updatepb.Input{Name: name, Args: &commonpb.Payloads{Payloads: args}}}
	}
	purpose := func(name, arg string) string { return forUpdate(name, digestOf([][]byte{plainOf(t, arg).GetData()})) }
	write := func(c *Codec, at place, purpose string) []*commonpb.Payload {
		t.Helper()
		p, err := c.encodeFor(at, purpose, []*commonpb.Payload{plainOf(t, "done")})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	accepted := func(n int64, r *updatepb.Request) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventId: n, EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
				ProtocolInstanceId: r.GetMeta().GetUpdateId(), AcceptedRequest: r}}}
	}
	completed := func(of int64, result []*commonpb.Payload) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionUpdateCompletedEventAttributes{WorkflowExecutionUpdateCompletedEventAttributes: &historypb.WorkflowExecutionUpdateCompletedEventAttributes{
				AcceptedEventId: of, Outcome: &updatepb.Outcome{Value: &updatepb.Outcome_Success{Success: &commonpb.Payloads{Payloads: result}}}}}}
	}
	marker := func(values []*commonpb.Payload) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{EventType: enums.EVENT_TYPE_MARKER_RECORDED,
			Attributes: &historypb.HistoryEvent_MarkerRecordedEventAttributes{MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{
				Details: map[string]*commonpb.Payloads{"data": {Payloads: values}}}}}
	}
	stranger := NewCodec("default", secret)
	for _, row := range []struct {
		what  string
		then  *historypb.HistoryEvent
		takes bool
	}{
		{"its result by a worker", completed(5, write(c, at, purpose("decide", "yes"))), true},
		{"a value that a worker recorded for it", marker(write(c, at, purpose("decide", "yes"))), true},
		{"a result by somebody without the workers' key", completed(5, write(stranger, at, purpose("decide", "yes"))), false},
		{"the result of an update with other arguments", completed(5, write(c, at, purpose("decide", "no"))), false},
		{"the result of another update", completed(5, write(c, at, purpose("close", "yes"))), false},
		{"the result of an update of another workflow", completed(5, write(c, place{kind: ofWorkflow, workflow: "v"}, purpose("decide", "yes"))), false},
		{"an answer to a query", completed(5, write(c, at, forQuery("decide"))), false},
		{"a value that a worker recorded otherwise", marker(write(c, at, forRecorded("run", 0))), false},
		{"the completion of another one", completed(4, write(c, at, purpose("decide", "yes"))), false},
		{"no event", &historypb.HistoryEvent{}, false},
	} {
		c.proofs = &proofs{}
		c.readProofs("w", []*historypb.HistoryEvent{accepted(5, request("u", "decide", "yes")), row.then})
		if got := c.proofs.has(at, purpose("decide", "yes")); got != row.takes {
			t.Errorf("%s proves the update: %v", row.what, got)
		}
	}
}

func TestTheMemoryOfProofsIsBounded(t *testing.T) {
	p := &proofs{}
	at := place{kind: ofWorkflow, workflow: "w"}
	for i := range mostProofs + 10 {
		p.add(at, forRecorded("r", i), "")
	}
	if len(p.known) > mostProofs || len(p.order) > mostProofs || !p.has(at, forRecorded("r", mostProofs+9)) {
		t.Errorf("%d are known", len(p.known))
	}
}

// A value that a worker wrote for one purpose is none for another, at the same place.
func TestATagIsForOnePurpose(t *testing.T) {
	c := NewCodec("default", key(t)).ForWorkers(Workers{Keys: []Key{key(t)}, Required: true})
	at := place{kind: ofWorkflow, workflow: "w"}
	purposes := []string{"", forInput("Session"), forInput("Batch"), forQuery("state"), forRecorded("run", 0), forRecorded("run", 1), forRecorded("ran", 0), forUpdate("close", "d")}
	for _, is := range purposes {
		p, err := c.encodeFor(at, is, []*commonpb.Payload{plainOf(t, "x")})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range purposes {
			if ok, err := c.marked(p[0], want); err != nil || ok != (is == want) {
				t.Errorf("what was written for %q counts for %q: %v, %v", is, want, ok, err)
			}
		}
	}
}
