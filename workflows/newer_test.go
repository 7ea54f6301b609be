package workflows

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/newer"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// lines are what workers log.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.all.String(), part)
}

// failedTask returns why the first workflow task of a run failed, or "".
func (r *real) failedTask(workflowID string) string {
	for _, ev := range r.history(workflowID, "").GetEvents() {
		if ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_FAILED {
			return ev.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage()
		}
	}
	return ""
}

// taken reports whether a worker has completed a workflow task. Until then the server refuses
// queries if one failed.
func (r *real) taken(workflowID string) bool {
	return slices.ContainsFunc(r.history(workflowID, "").GetEvents(), func(ev *historypb.HistoryEvent) bool {
		return ev.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	})
}

// TestASessionWithANewerOptionWaitsForANewerWorker has two workers of one queue, of which the
// older does not know an option of the session (promise 14).
func TestASessionWithANewerOptionWaitsForANewerWorker(t *testing.T) {
	r := newReal(t)
	said := &lines{}
	r.log, r.knows = slog.New(slog.NewTextHandler(said, nil)), []string{"agents"}
	stop := r.work()
	id := r.session("new", session.Options{FollowUps: []protocol.FollowUp{{Name: "look", Prompt: "look", Turns: 9}}})
	r.until("the older worker leaves the session alone", func() bool { return r.failedTask(protocol.SessionID(id)) != "" })
	for _, part := range []string{"follow_ups", "bring all workers"} {
		if why := r.failedTask(protocol.SessionID(id)); !strings.Contains(why, part) {
			t.Errorf("the history says %q, without %q", why, part)
		}
	}
	if !said.has("kind=workflow") || !said.has("lacks=follow_ups") {
		t.Error("the older worker's log does not say that it leaves the session to newer ones")
	}
	if n := len(r.history(protocol.SessionID(id), "").GetEvents()); n > 6 {
		t.Errorf("%d events in the history of a session that waits for a newer worker", n)
	}

	r.knows = nil
	r.work() // beside the older worker
	r.until("a newer worker takes it", func() bool { return r.taken(protocol.SessionID(id)) })
	r.becomes(id, protocol.Idle)
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	stop()
	r.close(id)
	for _, ev := range r.history(protocol.SessionID(id), "").GetEvents() {
		if a := ev.GetActivityTaskScheduledEventAttributes(); a != nil {
			var names []string
			if err := json.Unmarshal(a.GetHeader().GetFields()["fairlead-requires"].GetData(), &names); err != nil || !slices.Equal(names, []string{"follow_ups"}) {
				t.Errorf("the activity %s requires %v (%v), want follow_ups", a.GetActivityType().GetName(), names, err)
			}
		}
	}
}

// TestAMixedRunOfChildrenIsLeftToNewerWorkersAndAnybodyRunsAChild has an older worker, which
// does not know child sessions, beside a newer one. The older one never touches the parent. A
// child that may start none itself needs nothing new, so both may run it.
func TestAMixedRunOfChildrenIsLeftToNewerWorkersAndAnybodyRunsAChild(t *testing.T) {
	r := newReal(t)
	said := &lines{}
	r.log, r.knows = slog.New(slog.NewTextHandler(said, nil)), []string{"agents"}
	r.work()
	id := r.session("leads", session.Options{Children: &protocol.Children{Max: 1}})
	r.until("the older worker leaves the session alone", func() bool { return strings.Contains(r.failedTask(protocol.SessionID(id)), "children") })
	r.knows = nil
	newest := r.work()
	r.until("a newer worker takes it", func() bool { return r.taken(protocol.SessionID(id)) })
	r.becomes(id, protocol.Idle)
	r.say(id, "m1", "lead stay")
	r.until("its child runs", func() bool {
		all := r.view(id).Children
		return len(all) == 1 && r.view(all[0].Session).State == protocol.Running
	})
	child := r.view(id).Children[0].Session
	newest() // now the older one is alone
	r.signal(protocol.SessionID(child), protocol.SignalClose, protocol.Close{})
	if v, err := r.result(child); err != nil || v.State != protocol.Closed {
		t.Errorf("the child, with the older worker alone: %+v, %v", v, err)
	}
	r.work() // a newer one again
	r.ended(id, "m1", "completed")
	if all := r.view(id).Children; len(all) != 1 || all[0].Outcome != protocol.ChildCancelled {
		t.Errorf("its children are %+v", all)
	}
	r.close(id)
}

// TestAnOlderWorkerLeavesANewerActivityToOthers has an older worker alone get activities of a
// session that a newer worker runs.
func TestAnOlderWorkerLeavesANewerActivityToOthers(t *testing.T) {
	r := newReal(t)
	newest := r.work()
	said := &lines{}
	r.log, r.knows = slog.New(slog.NewTextHandler(said, nil)), []string{}
	r.work()
	var ids []string
	for _, name := range []string{"a", "b", "c"} { // some activity of three sessions gets to the older worker
		ids = append(ids, r.session(name, session.Options{FollowUps: []protocol.FollowUp{{Name: "look", Prompt: "look", Turns: 9}}}))
	}
	for _, id := range ids {
		r.until("the newer worker takes it", func() bool { return r.taken(protocol.SessionID(id)) })
		r.becomes(id, protocol.Idle)
		r.say(id, "m1", "hello")
		r.ended(id, "m1", "completed")
		r.close(id)
	}
	newest()
	if !said.has("kind=workflow") && !said.has("kind=activity") {
		t.Error("the older worker never got a task of a session that it does not know enough for")
	}
}

// TestAnOlderWorkerDoesNotGoOnWithANewerState gives a worker the state of a newer release's run.
func TestAnOlderWorkerDoesNotGoOnWithANewerState(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.zone + ".pool"
	r.start(id, protocol.TypeHostPool, json.RawMessage(`{"zone":"`+r.zone+`","carry":{"hosts":[],"leases":[],"queue":[],"epoch":7,"reap_at":"0001-01-01T00:00:00Z","of_tomorrow":{"a":1}}}`))
	r.until("the worker leaves the state alone", func() bool { return strings.Contains(r.failedTask(id), "field of_tomorrow") })
}

func TestInputsTellWhatThisProgramDoesNotKnowOfThem(t *testing.T) {
	for _, in := range []any{new(session.Input), new(hostpool.Input), new(seed.Input), new(seed.PoolInput), new(batch.Input), new(schedule.FireInput)} {
		kind := reflect.TypeOf(in).Elem().String()
		if err := json.Unmarshal([]byte(`{"of_tomorrow":1}`), in); err != nil {
			t.Fatalf("%s with a newer field cannot be read: %v", kind, err)
		}
		if got := reflect.ValueOf(in).Elem().Interface().(newer.Input).Unknown(); !slices.Equal(got, []string{"field of_tomorrow"}) {
			t.Errorf("of %s, %v is not known, want field of_tomorrow", kind, got)
		}
		if err := json.Unmarshal([]byte(`{"id":7,"name":7,"zone":7,"schedule":7}`), in); err == nil {
			t.Errorf("a %s that is not as it should be was read", kind)
		}
	}
	var within session.Input
	if err := json.Unmarshal([]byte(`{"id":"a","options":{"host":"web-1","of_tomorrow":[1]}}`), &within); err != nil || within.Options.Host != "web-1" || len(within.Unknown()) != 1 {
		t.Errorf("read %+v (%v), want a host and a field that is not known", within, err)
	}
	var fire schedule.FireInput
	if err := json.Unmarshal([]byte(`{"session":{"options":{"of_tomorrow":[1]}}}`), &fire); err != nil || len(fire.Unknown()) != 1 {
		t.Errorf("of what a schedule starts, %v is not known (%v), want a field", fire.Unknown(), err)
	}
}

// TestEveryAnnouncedFeatureIsAnOption keeps the list of features true.
func TestEveryAnnouncedFeatureIsAnOption(t *testing.T) {
	all := session.Options{
		Agents: protocol.Give("a"), Base: protocol.Give("b"), TeamTools: &protocol.ToolsGiven{Names: []string{"x"}, Activities: []string{"x"}},
		FollowUps: []protocol.FollowUp{{Name: "look"}}, Verdict: true, Children: &protocol.Children{Max: 1}, OnLimit: protocol.LimitSwitch,
		Credentials: protocol.CredentialsGateway, Egress: []string{"github.com:443"}, Bounds: protocol.Bounds{Money: 1}, Policy: "rules: [{name: all, when: 'true', outcome: ask, risk: high}]",
	}
	if got := session.NewInput("a", all, nil).Requires; !slices.Equal(got, protocol.Features()) {
		t.Errorf("a session with all of them requires %v, want %v", got, protocol.Features())
	}
	if got := session.NewInput("a", session.Options{Host: "web-1", OnLimit: protocol.LimitWait, FollowUps: []protocol.FollowUp{}}, nil); got.Requires != nil || len(got.Required()) > 0 {
		t.Errorf("a session without any requires %v", got.Requires)
	}
	if got := (session.Input{Options: all, Requires: []string{"of_tomorrow"}}).Required(); len(protocol.Lacking(got, protocol.Features())) != 1 || len(got) != len(protocol.Features())+1 {
		t.Errorf("a start that did not name its features requires %v", got)
	}
}
