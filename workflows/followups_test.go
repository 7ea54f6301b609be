package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func touches(n int, files ...string) func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := endsTurn("completed", "did it")(ctx, in)
		out.Pump.Turn.Tools, out.Pump.Turn.Touched = n, files
		return out, err
	}
}

func TestARuleStartsASessionFromTheSnapshotOfItsTurn(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, touches(2), touches(1), endsTurn("interrupted", ""), touches(9, "schema"))
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	for n := 1; n <= 4; n++ {
		w.once(fmt.Sprintf("turn %d is kept", n), func() bool { v := w.view().Snapshot; return v != nil && v.Turn == n }, func() {
			if n < 4 {
				w.send(protocol.SignalMessage, hello(fmt.Sprintf("m%d", n+1)))
				return
			}
			w.SignalWorkflow(protocol.SignalSessionEnded, protocol.SessionEnded{ID: w.view().FollowUps[0].Session, State: protocol.Closed, EndedAt: time.Unix(9, 0),
				Turn: &protocol.TurnView{Status: "completed", FinalText: strings.Repeat("looks good ", 1000)}})
			w.SignalWorkflow(protocol.SignalSessionEnded, protocol.SessionEnded{ID: "somebody's", State: protocol.Closed})
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(protocol.SignalClose, protocol.Close{}) }, time.Second)
		})
	}
	w.start(session.Options{Seed: "team", Model: "big", By: "ann", Dir: "", Bounds: protocol.Bounds{Tokens: 9}, FollowUps: []protocol.FollowUp{
		{Name: "count", Prompt: "count them", ToolCalls: 3, Model: "small", Seed: "cheap", Bounds: protocol.Bounds{Tokens: 5}},
		{Name: "schema", Prompt: "look at the schema", Files: []string{"*.sql"}},
		{Name: "third", Prompt: "each third", Turns: 3},
	}})
	if err := w.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, in := range w.children {
		o := in.Options
		got = append(got, strings.Join([]string{untagged(t, in.ID), o.From, in.First.Text, o.Seed, o.Model, o.Origin, o.Notify, fmt.Sprint(o.CloseAfter, len(o.FollowUps), o.Tokens)}, " "))
	}
	want := []string{ // the interrupted turn counts for nothing
		"s1-count-1 s1.snap-2 count them cheap small session/s1 session/s1 true 0 5",
		"s1-count-2 s1.snap-4 count them cheap small session/s1 session/s1 true 0 5",
		"s1-schema-3 s1.snap-4 look at the schema team big session/s1 session/s1 true 0 0",
		"s1-third-4 s1.snap-4 each third team big session/s1 session/s1 true 0 0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("started were\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	views := w.view().FollowUps
	if len(views) != 4 || views[0].Turn != 2 || views[0].State != "closed" || views[0].Status != "completed" || !views[0].Truncated || len(views[0].Text) > protocol.MaxFollowUpText+3 {
		t.Fatalf("they are shown as %+v", views)
	}
	if views[1].State != protocol.FollowUpStarted || untagged(t, views[1].Session) != "s1-count-2" {
		t.Errorf("they are shown as %+v", views)
	}
}

// untagged returns the id of a follow-up without the part that nobody can guess.
func untagged(t *testing.T, id string) string {
	t.Helper()
	i := strings.LastIndexByte(id, '-')
	if i < 0 || len(id)-i-1 != 10 {
		t.Fatalf("the id %s of a follow-up has no part that nobody can guess", id)
	}
	return id[:i]
}

func TestASessionThatClosesStartsItsFollowUpsFromItsLastSnapshot(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", "done"))
	w.fake.ends = func(places.CloseSessionInput) (places.CloseSessionResult, error) {
		return places.CloseSessionResult{Wiped: true, Removed: true, Archive: "s1.snap-1"}, nil
	}
	first := hello("m1")
	w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", First: &first, Options: session.Options{CloseAfter: true, Children: &protocol.Children{Max: 2}, FollowUps: []protocol.FollowUp{{Name: "review", Prompt: "review it", Turns: 1}}}})
	w.verify()
	if err := w.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if len(w.children) != 1 || w.children[0].Options.From != "s1.snap-1" {
		t.Fatalf("started were %+v; the last snapshot is %+v", w.children, w.view().Close)
	}
	if w.children[0].Options.Children != nil { // they would not count towards the bound of the first session
		t.Errorf("the follow-up may start %+v", w.children[0].Options.Children)
	}
}

func TestNoFollowUpGoesOnWithATurnThatDidNotComplete(t *testing.T) {
	w := newWorld(t)
	let := w.fake.hang("snapshot")
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""), endsTurn("interrupted", ""))
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("the snapshot is being taken", func() bool { return len(w.snapshots()) == 1 }, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.whenTurn(2, "interrupted", let)
	w.once("the second turn is kept", func() bool { v := w.view().Snapshot; return v != nil && v.Turn == 2 }, func() {
		w.SignalWorkflow(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{FollowUps: []protocol.FollowUp{{Name: "review", Prompt: "review it", Turns: 1}}})
	views := w.view().FollowUps
	if len(w.children) != 0 || len(views) != 1 || views[0].State != "failed" || views[0].Error == nil || !strings.Contains(views[0].Error.Message, "turn 2 was interrupted before a snapshot had turn 1") {
		t.Errorf("started were %+v, and shown are %+v", w.children, views)
	}
}

func TestNoFollowUpGoesOnWithASnapshotFromBeforeItsTurn(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = append(w.fake.pumps, endsTurn("completed", ""), endsTurn("completed", ""))
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("the first turn is kept", func() bool { v := w.view().Snapshot; return v != nil && v.Turn == 1 }, func() {
		w.fake.fail("snapshot", errors.New("the store is away"))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.fake.ends = func(places.CloseSessionInput) (places.CloseSessionResult, error) { // its host is lost: the pool cleans it
		return places.CloseSessionResult{Archive: "s1.snap-1"}, nil
	}
	w.whenTurn(2, "completed", func() { w.SignalWorkflow(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{FollowUps: []protocol.FollowUp{{Name: "review", Prompt: "review it", Turns: 2}}})
	views := w.view().FollowUps
	if len(w.children) != 0 || len(views) != 1 || views[0].Error == nil || !strings.Contains(views[0].Error.Message, "no snapshot has turn 2") {
		t.Errorf("started were %+v, and shown are %+v", w.children, views)
	}
}

func TestAFollowUpHasNoFollowUpsAndRulesAreChecked(t *testing.T) {
	rule := protocol.FollowUp{Name: "review", Prompt: "review it", Turns: 1}
	change := func(f func(*protocol.FollowUp)) []protocol.FollowUp { r := rule; f(&r); return []protocol.FollowUp{r} }
	for says, opt := range map[string]session.Options{
		"a follow-up has no follow-ups":   {Origin: protocol.OriginSession("s0"), FollowUps: []protocol.FollowUp{rule}},
		"the session takes none":          {Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotOff}, FollowUps: []protocol.FollowUp{rule}},
		"another one has the name review": {FollowUps: []protocol.FollowUp{rule, rule}},
		"at most 8":                       {FollowUps: make([]protocol.FollowUp, 9)},
		"one of turns, tool_calls":        {FollowUps: change(func(r *protocol.FollowUp) { r.ToolCalls = 1 })},
		"prompt: it is empty":             {FollowUps: change(func(r *protocol.FollowUp) { r.Prompt = " " })},
		"is not a pattern":                {FollowUps: change(func(r *protocol.FollowUp) { r.Turns, r.Files = 0, []string{"["} })},
		"one of seed and seed_pool":       {FollowUps: change(func(r *protocol.FollowUp) { r.Seed, r.SeedPool = "a", "b" })},
		"sandbox: use":                    {FollowUps: change(func(r *protocol.FollowUp) { r.Sandbox = "glass" })},
	} {
		if err := opt.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, which does not say %q", err, says)
		}
	}
}

// TestNobodyCanTakeTheIDsOfFollowUpsFirst has somebody who may start workflows take each id that
// can be guessed before the session begins.
func TestNobodyCanTakeTheIDsOfFollowUpsFirst(t *testing.T) {
	r := newReal(t)
	r.work()
	parent := r.zone + ".p"
	for n := 1; n <= 12; n++ {
		r.start(protocol.SessionID(fmt.Sprintf("%s-review-%d", parent, n)), protocol.TypeClaimKey, protocol.KeyClaim{})
	}
	id := r.session("p", session.Options{FollowUps: []protocol.FollowUp{{Name: "review", Prompt: "review it", Turns: 1}}})
	for n := 1; n <= 2; n++ {
		r.say(id, fmt.Sprint("m", n), "hello")
		r.ended(id, fmt.Sprint("m", n), "completed")
		r.until("the follow-up is started", func() bool { return len(r.view(id).FollowUps) == n })
	}
	all := r.view(id).FollowUps
	for _, f := range all {
		if f.State != protocol.FollowUpStarted || r.view(f.Session).Origin != protocol.OriginSession(id) {
			t.Errorf("%+v is not the session's own", f)
		}
	}
	if all[0].Session == all[1].Session || untagged(t, all[0].Session) != parent+"-review-1" || untagged(t, all[1].Session) != parent+"-review-2" {
		t.Errorf("started were %+v", all)
	}
	r.close(id)
}
