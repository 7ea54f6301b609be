package notices

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

var begun = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A zone has one session, which ended. It answers if mute is 0, and else is mute as often.
type zone struct {
	client.Client
	mute   int
	noList bool
}

func (z *zone) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if z.noList {
		return nil, errors.New("unavailable")
	}
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "session/s1", RunId: "r"}, Status: enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, CloseTime: timestamppb.New(begun.Add(time.Second)),
	}}}, nil
}

func (z *zone) QueryWorkflow(_ context.Context, _, _, name string, _ ...any) (converter.EncodedValue, error) {
	if z.mute > 0 {
		z.mute--
		return nil, errors.New("no answer")
	}
	var v any = map[string]string{"owner": "ann"}
	if name == protocol.QueryDetail {
		v = protocol.SessionDetail{View: protocol.SessionView{ID: "s1"}, Turns: []protocol.TurnView{{N: 1, Status: "completed", EndedAt: begun.Add(time.Second)}}}
	}
	p, err := converter.GetDefaultDataConverter().ToPayloads(v)
	return client.NewValue(p), err
}

func watching(t *testing.T, z *zone) *watcher {
	t.Helper()
	r, err := notify.Parse([]byte(`channels:
  post: {kind: mail, server: "127.0.0.1:25", tls: none, from: f@example.com, to: all@example.com}
rules:
  - {name: all, events: [session.ended, turn.ended], to: ["channel:post"]}
`), ".")
	if err != nil {
		t.Fatal(err)
	}
	return &watcher{c: z, rules: r, now: begun, since: begun, known: map[string]*session{}, deaf: map[string]time.Time{}, tried: map[string]try{}, asked: map[string]time.Time{}, seen: map[string]bool{}}
}

// looks looks once, some time later, for what ended.
func (w *watcher) looks(t *testing.T, later time.Duration) (out WatchEventsResult, settled bool) {
	t.Helper()
	w.now = w.now.Add(later)
	w.round++
	w.found = nil
	if err := w.ended(t.Context()); !w.heard("the list of ended sessions", err) {
		out.Problem = err.Error()
	}
	w.plan(&out)
	settled = w.settled(&out)
	return out, settled
}

func TestTheLastTurnOfAnEndedSessionIsToldThoughItDidNotAnswerAtOnce(t *testing.T) {
	w := watching(t, &zone{mute: 2})
	for range 2 {
		if out, settled := w.looks(t, 5*time.Second); len(out.Notices) != 0 || settled {
			t.Fatalf("a session that did not answer is told: %+v (settled %t)", out, settled)
		}
	}
	if out, settled := w.looks(t, 5*time.Second); len(out.Notices) != 2 || !settled {
		t.Errorf("the result is %+v (settled %t), want the end of the session and of its turn", out, settled)
	}
	w = watching(t, &zone{mute: 1000}) // it was refused
	w.looks(t, 5*time.Second)
	if out, settled := w.looks(t, unwell); len(out.Notices) != 1 || !settled {
		t.Errorf("the result is %+v (settled %t), want the end of the session", out, settled)
	}
}

func TestWhatDoesNotAnswerHoldsTheCursorForAnHourWhoeverWatches(t *testing.T) {
	silent := map[string]time.Time{}
	for i := range 4 { // watchers, of 25 minutes each
		w := watching(t, &zone{noList: true})
		w.now = begun.Add(time.Duration(i) * 25 * time.Minute)
		for what, since := range silent {
			w.deaf[what], w.tried[what] = since, try{at: w.now}
		}
		out, settled := w.looks(t, 0)
		if want := i == 3; settled != want || (len(out.Deaf) == 1) != want || out.Problem == "" {
			t.Errorf("watcher %d: the result is %+v (settled %t)", i, out, settled)
		}
		silent = out.Silent
	}
}

func TestNoticesBeyondTheBoundAreRecordedAsOneThatFailed(t *testing.T) {
	all := bounded(make([]protocol.Notice, maxReturned+7))
	if last := all[len(all)-1]; len(all) != maxReturned || last.State != protocol.NoticeFailed || last.Reason != "407 notices of one event are too many: 8 of them were dropped" {
		t.Errorf("%d notices, the last is %+v", len(all), last)
	}
}

func TestWhatIsCarriedOfTheSilentIsBounded(t *testing.T) {
	w := watching(t, &zone{})
	for i := range 2 * maxSilent {
		w.deaf[fmt.Sprint("session s", i)] = begun.Add(time.Duration(i) * time.Second)
	}
	out := w.silent()
	if len(out) != maxSilent+1 || !out[others].Equal(begun.Add(maxSilent*time.Second)) || out["session s0"].IsZero() {
		t.Errorf("%d are carried, others since %s", len(out), out[others])
	}
}
