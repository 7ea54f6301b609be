package workflows

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

var someModels = []protocol.Model{
	{ID: "big", Name: "Big", Efforts: []string{"low", "medium", "high", "xhigh"}, DefaultEffort: "medium", Default: true},
	{ID: "small", Name: "Small", Efforts: []string{"low", "medium"}, DefaultEffort: "low"},
	{ID: "plain", Name: "Plain", Efforts: []string{}},
}

// lists returns a pump that also learned which models codex lists.
func lists(models []protocol.Model, pump pumpFunc) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := pump(ctx, in)
		out.Pump.Models = protocol.ModelList{Models: models, Codex: "0.169.0"}
		return out, err
	}
}

// refusal checks that an update was refused with this kind and these words.
func (w *world) refusal(u *updated, kind, words string) {
	w.t.Helper()
	w.refuses(u, kind)
	w.checks = append(w.checks, func() {
		var app *temporal.ApplicationError
		if errors.As(u.rejected, &app) && !strings.Contains(app.Error(), words) {
			w.t.Errorf("refused with %q, want %q in it", app.Error(), words)
		}
	})
}

func sendOf(t *testing.T, in pumps.RunPumpInput, id string) conversation.Send {
	t.Helper()
	for _, s := range in.Pump.Sends {
		if s.ID == id {
			return s
		}
	}
	t.Errorf("the pump was not given %s: %+v", id, in.Pump.Sends)
	return conversation.Send{}
}

// A new model applies from the next turn on. The effort is kept, replaced by one that the
// model has, or dropped.
func TestAModelHoldsFromTheNextTurnOnAndTheEffortFollowsIt(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{lists(someModels, endsTurn("completed", ""))}
	w.fake.rest = calm
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() {
		w.refusal(w.send(protocol.SignalSet, protocol.Set{Model: "huge"}), protocol.RefusedState, "it lists big, small, plain")
		w.refusal(w.send(protocol.SignalSet, protocol.Set{Effort: "ultra"}), protocol.RefusedState, "") // the effort is checked against the current model, if that is known
		w.refusal(w.send(protocol.SignalSet, protocol.Set{Model: "small", Effort: "high"}), protocol.RefusedState, "it has low, medium")
		w.refusal(w.send(protocol.SignalMessage, protocol.Message{ID: "x", Text: "x", Model: "huge"}), protocol.RefusedState, "codex lists no model")
		w.takes(w.send(protocol.SignalSet, protocol.Set{By: "bob", Model: "big", Effort: "high"}))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.whenTurn(2, "completed", func() {
		w.takes(w.send(protocol.SignalSet, protocol.Set{Model: "small"}))
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.whenTurn(3, "completed", func() {
		w.takes(w.send(protocol.SignalSet, protocol.Set{Model: "plain"}))
		w.send(protocol.SignalMessage, hello("m4"))
	})
	w.whenTurn(4, "completed", func() {
		w.takes(w.send(protocol.SignalSet, protocol.Set{Model: "huge", AnyModel: true}))
		w.send(protocol.SignalMessage, hello("m5"))
	})
	w.whenTurn(5, "completed", func() {
		if v := query[protocol.ModelsView](w, protocol.QueryModels); v.Model != "huge" || len(v.Models) != 3 || v.At.IsZero() {
			t.Errorf("models are %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	// In this test codex does not list the model that it would choose itself.
	w.start(session.Options{Model: "big"})
	for i, want := range [][2]string{{"", ""}, {"big", "high"}, {"small", "medium"}, {"plain", ""}, {"huge", ""}} {
		s := sendOf(t, w.fake.ran[i], []string{"m1", "m2", "m3", "m4", "m5"}[i])
		if s.Model != want[0] || s.Effort != want[1] {
			t.Errorf("turn %d began with model %q and effort %q, want %q", i+1, s.Model, s.Effort, want)
		}
	}
	notes := notesOf(w.fake.closed[0].Notes)
	for _, in := range w.fake.ran {
		notes += notesOf(in.Pump.Notes)
	}
	for _, want := range []string{"effort medium instead of high", "no effort instead of medium", "set: model big from the next turn on, effort high"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not on record: %s", want, notes)
		}
	}
}

// A model that is chosen while the session is parked is checked when codex runs again, and
// applies to the resumed thread.
func TestAChoiceOfAParkedSessionIsCheckedWhenItComesUp(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), lists(someModels, endsTurn("completed", ""))}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() { w.send(protocol.SignalPark, protocol.Park{}) })
	w.when(protocol.Parked, func() {
		w.takes(w.send(protocol.SignalSet, protocol.Set{Model: "huge"}))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
	in := w.fake.ran[1]
	if s := sendOf(t, in, "m2"); s.Model != "huge" || in.Pump.Thread.Model != "huge" {
		t.Errorf("the turn began with %q in a thread of %q", s.Model, in.Pump.Thread.Model)
	}
	if notes := notesOf(w.fake.closed[0].Notes); !strings.Contains(notes, `codex lists no model "huge", which the session was set to; it lists big, small, plain`) {
		t.Errorf("nobody was told: %s", notes)
	}
}

func TestASteerNamesItsTurn(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{staysAttached(protocol.Acknowledged), voids("s1", endsTurn("completed", ""))}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(1, func() {
		w.refusal(w.send(protocol.SignalMessage, protocol.Message{ID: "s0", Text: "x", Mode: "steer", Turn: 2}), protocol.RefusedState, "runs turn 1, not turn 2")
		w.refuses(w.send(protocol.SignalMessage, protocol.Message{ID: "s0", Text: "x", Turn: 1}), protocol.RefusedBadInput)
		w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "s1", Text: "x", Mode: "steer", Turn: 1}))
	})
	w.whenTurn(1, "completed", func() {
		w.shows("s1", "steer", 1, "void")
		if v := w.view(); v.Queue != 0 {
			t.Errorf("it became a turn of its own: %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

// voids returns a pump that reports a message as void, because it came too late.
func voids(id string, pump pumpFunc) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := pump(ctx, in)
		for i, d := range out.Pump.Deliveries {
			if d.ID == id {
				out.Pump.Deliveries[i].State = protocol.Void
			}
		}
		return out, err
	}
}

func TestAQueuedMessageIsTakenBackAndKeepsItsNumber(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), endsTurn("completed", ""), endsTurn("completed", "")}
	w.at(time.Second, func() {
		for _, id := range []string{"m1", "m2", "m3"} {
			w.send(protocol.SignalMessage, hello(id))
		}
	})
	w.when(protocol.Waiting, func() {
		if q := w.view().Queued; len(q) != 2 || q[0].ID != "m2" || q[0].N != 2 || q[0].Text != "hello" || q[0].By != "ann" {
			t.Errorf("the queue is %+v", q)
		}
		w.takes(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "m2", By: "bob"}))
		w.refuses(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "m1"}), protocol.RefusedState)
		w.refuses(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "m9"}), protocol.RefusedNotFound)
		w.refuses(w.send(protocol.SignalUnsend, protocol.Unsend{}), protocol.RefusedBadInput)
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.whenTurn(3, "completed", func() {
		turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{MessageID: "m2"})
		if turn.N != 2 || turn.Status != "interrupted" || turn.Error == nil || turn.Error.Kind != "unsent" || !strings.Contains(turn.Error.Message, "taken back by bob") {
			t.Errorf("the turn that never began is %+v", turn)
		}
		w.refuses(w.send(protocol.SignalUnsend, protocol.Unsend{Message: "m2"}), protocol.RefusedState)
		w.takes(w.send(protocol.SignalMessage, hello("m2"))) // a repeat gets the same answer and is not sent
		w.shows("m2", "message", 2, "void")
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
	if s := sendOf(t, w.fake.ran[2], "m3"); s.Turn != 3 {
		t.Errorf("the next message is turn %d", s.Turn)
	}
}

func TestActsAreTurnsThatQueue(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{asks("make"), endsTurn("completed", ""), endsTurn("completed", ""), staysAttached(protocol.Acknowledged), endsTurn("interrupted", "")}
	review := &protocol.Review{Base: "main"}
	w.at(time.Second, func() {
		w.refuses(w.send(protocol.SignalMessage, protocol.Message{ID: "c0", Do: protocol.ActCompact}), protocol.RefusedState) // there is nothing to compact yet
		w.send(protocol.SignalMessage, hello("m1"))
	})
	w.when(protocol.Waiting, func() {
		w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "c1", Do: protocol.ActCompact}))
		w.takes(w.send(protocol.SignalMessage, protocol.Message{ID: "r1", Do: protocol.ActReview, Review: review}))
		for _, bad := range []protocol.Message{
			{ID: "b", Do: "dance"}, {ID: "b", Do: protocol.ActCompact, Text: "x"}, {ID: "b", Do: protocol.ActCompact, Review: review},
			{ID: "b", Do: protocol.ActReview, Schema: []byte(`{"type":"object"}`)}, {ID: "b", Do: protocol.ActCompact, Inputs: []protocol.Input{aFile}},
			{ID: "b", Do: protocol.ActReview, Mode: "steer"}, {ID: "b", Do: protocol.ActReview, Model: "big"}, {ID: "b", Text: "x", Review: review},
			{ID: "b", Do: protocol.ActReview, Review: &protocol.Review{Base: "main", Commit: "1f3c9a"}},
		} {
			w.refuses(w.send(protocol.SignalMessage, bad), protocol.RefusedBadInput)
		}
		w.refuses(w.send(protocol.SignalMessage, protocol.Message{ID: "r1", Do: protocol.ActReview}), protocol.RefusedState) // the id belongs to another review
		w.send(protocol.SignalDecide, yes("s1.1", "make"))
	})
	w.attached(4, func() {
		w.refusal(w.send(protocol.SignalMessage, protocol.Message{ID: "s1", Text: "x", Mode: "steer"}), protocol.RefusedState, "is a review, which takes no messages")
		w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "bob"}))
	})
	w.whenTurn(3, "interrupted", func() {
		if turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 2}); turn.Act != "compact" || turn.Status != "completed" {
			t.Errorf("the compaction is %+v", turn)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
	if s := sendOf(t, w.fake.ran[2], "c1"); s.Do != protocol.ActCompact || s.Turn != 2 {
		t.Errorf("the compaction was sent as %+v", s)
	}
	if s := sendOf(t, w.fake.ran[3], "r1"); s.Do != protocol.ActReview || s.Review == nil || s.Review.Base != "main" {
		t.Errorf("the review was sent as %+v", s)
	}
}

// If codex may have begun a compaction, the session neither repeats nor continues it,
// whatever on_interrupt says.
func TestAnActThatIsCutOffIsUnknownAndNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), dies(protocol.Sent, true)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() { w.send(protocol.SignalMessage, protocol.Message{ID: "c1", Do: protocol.ActCompact}) })
	w.whenTurn(2, "unknown", func() {
		if v := w.view(); v.State != protocol.Interrupted || v.Queue != 0 {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{OnInterrupt: protocol.InterruptContinue})
	if len(w.fake.ran) != 2 {
		t.Errorf("%d pumps ran, want 2", len(w.fake.ran))
	}
}

func TestAnArchivedSessionIsParkedAndTakesNoMessages(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = calm
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() { w.takes(w.send(protocol.SignalArchive, protocol.Archive{By: "bob"})) })
	w.when(protocol.Parked, func() {
		if v := w.view(); !v.Archived {
			t.Errorf("session is %+v", v)
		}
		w.takes(w.send(protocol.SignalArchive, protocol.Archive{}))
		w.refusal(w.send(protocol.SignalMessage, hello("m2")), protocol.RefusedState, "ctl session unarchive s1")
		w.refuses(w.send(protocol.SignalResume, protocol.Resume{}), protocol.RefusedState)
		w.takes(w.send(protocol.SignalUnarchive, protocol.Archive{By: "ann"}))
		w.refuses(w.send(protocol.SignalUnarchive, protocol.Archive{}), protocol.RefusedState)
		w.takes(w.send(protocol.SignalMessage, hello("m3")))
	})
	w.whenTurn(2, "completed", func() {
		if v := w.view(); v.Archived {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestASessionThatCannotParkIsNotArchived(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = calm
	w.fake.fail("park", finally(protocol.ErrTypeNoSpace))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() { w.takes(w.send(protocol.SignalArchive, protocol.Archive{})) })
	w.once("it says so", func() bool { return w.view().Error != nil }, func() {
		if v := w.view(); v.Archived || v.State == protocol.Parked {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

// A name is sent to codex only after its thread had a turn. Sending it takes no turn and
// does not change the session's state.
func TestANameReachesCodex(t *testing.T) {
	w := newWorld(t)
	name := "the October release"
	named := func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		st := opened(in)
		st.Named = in.Pump.Thread.Name
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Bound, State: st}}, nil
	}
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), named}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() { w.takes(w.send(protocol.SignalSet, protocol.Set{Name: &name})) })
	w.once("codex knows it", func() bool { w.fake.mu.Lock(); defer w.fake.mu.Unlock(); return len(w.fake.ran) == 2 }, func() {
		if v := w.view(); v.Name != name || v.State != protocol.Idle {
			t.Errorf("session is %+v", v)
		}
		two := "a\nb"
		w.refuses(w.send(protocol.SignalSet, protocol.Set{Name: &two}), protocol.RefusedBadInput)
		w.refuses(w.send(protocol.SignalSet, protocol.Set{}), protocol.RefusedBadInput)
		w.at(time.Second, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	})
	w.start(session.Options{})
	if len(w.fake.ran) != 2 || w.fake.ran[1].Pump.Thread.Name != name {
		t.Errorf("%d pumps ran", len(w.fake.ran))
	}
}

// If codex does not answer with a list of models, the session does not ask again by itself.
func TestACodexThatListsNoModelsIsAskedOnce(t *testing.T) {
	w := newWorld(t)
	nothing := func(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Bound, State: opened(in)}}, nil
	}
	w.fake.pumps = []pumpFunc{endsTurn("completed", ""), nothing, lists(someModels, nothing)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() { w.takes(w.send(protocol.SignalModels, protocol.AskModels{By: "ann"})) })
	w.at(time.Hour, func() {
		if v := query[protocol.ModelsView](w, protocol.QueryModels); len(w.fake.ran) != 2 || !v.At.IsZero() || !strings.Contains(v.Error, "refused or did not answer") {
			t.Errorf("%d pumps ran, models are %+v", len(w.fake.ran), v)
		}
		w.takes(w.send(protocol.SignalModels, protocol.AskModels{By: "ann"}))
	})
	w.at(2*time.Hour, func() {
		if v := query[protocol.ModelsView](w, protocol.QueryModels); len(w.fake.ran) != 3 || len(v.Models) != 3 || v.Error != "" {
			t.Errorf("%d pumps ran, models are %+v", len(w.fake.ran), v)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}
