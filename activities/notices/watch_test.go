package notices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
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
	w.plan(t.Context(), &out)
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

// A plan asks once for each person whether they have the inbox open. A store that hangs holds it up
// for a moment in all, and then people are told at once.
func TestAPlanAsksOnceForEachPersonWhetherTheyLook(t *testing.T) {
	r, err := notify.Parse([]byte(`channels:
  post: {kind: mail, server: "127.0.0.1:25", tls: none, from: f@example.com}
people:
  - {name: ann, mail: ann@example.com}
  - {name: bob, mail: bob@example.com}
  - {name: eve, mail: eve@example.com}
rules:
  - {name: all, events: [approval.opened], to: [ann, bob, eve]}
`), ".")
	if err != nil {
		t.Fatal(err)
	}
	for name, looks := range map[string]func(ctx context.Context, person string) bool{
		"the store answers": func(_ context.Context, person string) bool { return person == "ann" },
		"the store hangs":   func(ctx context.Context, _ string) bool { <-ctx.Done(); return false },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := watching(t, &zone{})
			w.rules = r
			asked := map[string]int{}
			w.looking = func(ctx context.Context, person string) bool {
				asked[person]++
				return looks(ctx, person)
			}
			for i := range 20 {
				w.found = append(w.found, found{NotifyEvent: protocol.NotifyEvent{Key: fmt.Sprint("k", i), Kind: protocol.EventApprovalOpened, At: begun.Add(time.Second)}})
			}
			var out WatchEventsResult
			start := time.Now() // by the bubble's clock
			w.plan(t.Context(), &out)
			if took := time.Since(start); took > lookWait {
				t.Errorf("%s: the plan waits for %s", name, took)
			}
			held := map[string]int{}
			for _, n := range out.Notices {
				if !n.NotBefore.IsZero() {
					held[n.Person]++
				}
			}
			want, wantAsked := map[string]int{}, map[string]int{"ann": 1}
			if name == "the store answers" {
				want["ann"], wantAsked["bob"], wantAsked["eve"] = 20, 1, 1
			}
			if len(out.Notices) != 60 || !maps.Equal(held, want) || !maps.Equal(asked, wantAsked) {
				t.Errorf("%s: of %d notices, those of %v are held back, after %v requests", name, len(out.Notices), held, asked)
			}
			if w.plan(t.Context(), &out); asked["ann"] != 1 {
				t.Errorf("%s: a plan without an event asks", name)
			}
		})
	}
}
