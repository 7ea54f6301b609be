package workflows

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

func TestATurnAndAnApprovalCostFewEvents(t *testing.T) {
	t.Run("without snapshots", func(t *testing.T) { costsFewEvents(t, protocol.SnapshotClose, 14) })
	t.Run("with a snapshot after each turn", func(t *testing.T) { costsFewEvents(t, protocol.SnapshotTurn, 14+8) })
}

func costsFewEvents(t *testing.T, when string, turn int) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{Snapshot: protocol.SnapshotOptions{When: when}})
	r.becomes(id, protocol.Idle)
	count := r.events(id)
	cost := func(what string, most int, do func()) {
		t.Helper()
		do()
		r.until("no snapshot is on its way", func() bool {
			v := r.view(id).Snapshot
			return v == nil || v.Tried == r.view(id).Turn.N
		})
		now := r.events(id)
		t.Logf("%s: %d events", what, now-count)
		if now-count > most {
			t.Errorf("%s costs %d events, at most %d", what, now-count, most)
		}
		count = now
	}
	cost("plain turn, message by update", turn, func() {
		r.say(id, "m1", "hello")
		r.ended(id, "m1", "completed")
		r.becomes(id, protocol.Idle)
	})
	cost("plain turn, message by signal", turn, func() {
		r.signal(protocol.SessionID(id), protocol.SignalMessage, protocol.Message{ID: "m2", Text: "hello"})
		r.until("the message is there", func() bool { return r.view(id).Turn.N == 2 })
		r.ended(id, "m2", "completed")
		r.becomes(id, protocol.Idle)
	})
	cost("turn with an approval decided by update", turn+15, func() {
		r.say(id, "m3", "ask make")
		r.becomes(id, protocol.Waiting)
		r.decide(id, 1, "accept", "")
		r.ended(id, "m3", "completed")
		r.becomes(id, protocol.Idle)
	})
	cost("turn with an approval decided by signal", turn+15, func() {
		r.say(id, "m4", "ask make")
		r.becomes(id, protocol.Waiting)
		r.signal(protocol.SessionID(id), protocol.SignalDecide, r.decision(id, 2, "decline", ""))
		r.ended(id, "m4", "completed")
		r.becomes(id, protocol.Idle)
	})
	cost("turn with three approvals asked at once and decided one by one", turn+3*15, func() {
		r.say(id, "m5", "ask a b c")
		r.becomes(id, protocol.Waiting)
		for n := 3; n <= 5; n++ {
			r.decide(id, n, "accept", "")
		}
		r.ended(id, "m5", "completed")
		r.becomes(id, protocol.Idle)
	})
	cost("refused update", 0, func() {
		if err := r.tryUpdate(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{}); typeOf(err) != protocol.RefusedState {
			t.Errorf("the interrupt was answered %v", err)
		}
	})
	if n := r.host.wroteAudit(); n != 0 {
		t.Errorf("%d activities wrote nothing but audit records: each record has an activity to go with", n)
	}
	timers := 0 // only those for approvals: a lease that is slow to come has a timer, too
	for _, e := range r.history(protocol.SessionID(id), "").Events {
		if e.EventType == enums.EVENT_TYPE_TIMER_STARTED && string(e.UserMetadata.GetSummary().GetData()) == `"an approval expires"` {
			timers++
		}
	}
	if timers != 1 {
		t.Errorf("%d timers serve the deadlines of 5 approvals, want 1", timers)
	}
	r.close(id)
}

func TestAnInterruptTakesThePumpsNormalResult(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "stay")
	r.until("a pump is attached", func() bool { return r.host.attached(id) })
	r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob"})
	r.ended(id, "m1", "interrupted")
	results, sends := r.host.pumps(id)
	if fmt.Sprint(results) != "[cancelled turn_ended]" {
		t.Errorf("the pumps returned %v", results)
	}
	if len(sends) != 2 || len(sends[1]) != 1 || sends[1][0].Kind != conversation.SendInterrupt || sends[1][0].Uncertain {
		t.Errorf("the pumps were given %+v", sends)
	}
	for _, e := range r.history(protocol.SessionID(id), "").Events {
		if e.GetActivityTaskCanceledEventAttributes() != nil {
			t.Error("the pump ended as cancelled")
		}
	}
	r.close(id)
}

func TestASteerThatLosesItsRaceBecomesATurn(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "stay")
	r.until("a pump is attached", func() bool { return r.host.attached(id) })
	r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{By: "bob"})
	// The turn is about to end, so this message may or may not still steer it.
	err := r.tryUpdate(protocol.SessionID(id), protocol.SignalMessage, nil, protocol.Message{ID: "m2", Text: "faster", Mode: "steer"})
	if err == nil {
		r.until("the message has reached codex", func() bool {
			_, sends := r.host.pumps(id)
			for _, pump := range sends {
				for _, s := range pump {
					if s.ID == "m2" {
						return true
					}
				}
			}
			return false
		})
	} else if typeOf(err) != protocol.RefusedState {
		t.Error(err)
	}
	r.close(id)
}

func TestCloseWhileAPumpIsAttached(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "stay")
	r.until("a pump is attached", func() bool { return r.host.attached(id) })
	v := r.close(id)
	if v.State != protocol.Closed || v.Turn.Status != "interrupted" || !v.Close.Removed {
		t.Errorf("session is %+v", v)
	}
	if results, _ := r.host.pumps(id); fmt.Sprint(results) != "[cancelled turn_ended]" {
		t.Errorf("the pumps returned %v", results)
	}
}

// A session whose runs are very short loses nothing and repeats nothing.
func TestRolloverUnderFire(t *testing.T) {
	r := newReal(t, shortRuns)
	r.work()
	id := r.session("s", session.Options{})
	r.becomes(id, protocol.Idle)
	const senders, each = 6, 12
	var mu sync.Mutex
	answers := map[string]int{}
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for i := range each {
				m := protocol.Message{ID: fmt.Sprintf("m%d.%d", s, i), Text: "hello"}
				if s%2 == 0 {
					if err := r.c.SignalWorkflow(t.Context(), protocol.SessionID(id), "", protocol.SignalMessage, m); err != nil {
						t.Errorf("message %s: %v", m.ID, err)
					}
					continue
				}
				var acc protocol.MessageAccepted
				if err := r.tryUpdate(protocol.SessionID(id), protocol.SignalMessage, &acc, m); err != nil {
					t.Errorf("message %s: %v", m.ID, err)
				}
				mu.Lock()
				answers[m.ID] = acc.N
				mu.Unlock()
			}
		})
	}
	all.Wait()
	r.until("all messages have had their turns", func() bool { return len(r.host.ran(id)) >= senders*each })
	r.becomes(id, protocol.Idle)
	ran := r.host.ran(id)
	if len(ran) != senders*each {
		t.Errorf("%d messages were %d turns", senders*each, len(ran))
	}
	seen := map[string]bool{}
	for i, turn := range ran {
		if turn.N != i+1 {
			t.Fatalf("turn %d came as number %d", turn.N, i+1)
		}
		if seen[turn.ID] {
			t.Errorf("message %s was two turns", turn.ID)
		}
		seen[turn.ID] = true
		if n, ok := answers[turn.ID]; ok && n != turn.N {
			t.Errorf("message %s was to be turn %d and was turn %d", turn.ID, n, turn.N)
		}
	}
	v := r.close(id)
	if v.State != protocol.Closed || v.Turn.N != senders*each {
		t.Errorf("session is %+v", v)
	}
	runs := len(r.runs(protocol.SessionID(id)))
	t.Logf("%d messages in %d runs", senders*each, runs)
	if runs < 5 {
		t.Errorf("the session rolled over only %d times", runs-1)
	}
}

func TestDecisionsThatComeWhileNoWorkerIsUp(t *testing.T) {
	for _, cache := range []int{10_000, 0} {
		t.Run(fmt.Sprint("cache ", cache), func(t *testing.T) {
			worker.SetStickyWorkflowCacheSize(cache)
			defer worker.SetStickyWorkflowCacheSize(10_000)
			r := newReal(t)
			stop := r.work()
			id, other := r.session("a", session.Options{}), r.session("b", session.Options{})
			r.say(id, "m1", "ask make")
			r.becomes(id, protocol.Waiting)
			r.say(other, "m1", "stay")
			r.until("a pump is attached", func() bool { return r.host.attached(other) })
			yes := r.decision(id, 1, "accept", "")
			stop()
			r.signal(protocol.SessionID(id), protocol.SignalDecide, yes)
			r.signal(protocol.SessionID(id), protocol.SignalMessage, protocol.Message{ID: "m2", Text: "hello"})
			r.signal(protocol.SessionID(other), protocol.SignalInterrupt, protocol.Interrupt{By: "bob"})
			r.work()
			r.ended(id, "m1", "completed")
			r.ended(id, "m2", "completed")
			r.ended(other, "m1", "interrupted")
			if a := asked[[]protocol.Approval](r, protocol.SessionID(id), protocol.QueryApprovals); len(a) != 1 || a[0].State != protocol.ApprovalAcknowledged || a[0].Decision.By != "bob" {
				t.Errorf("approvals are %+v", a)
			}
			for _, s := range []string{id, other} {
				r.close(s)
			}
		})
	}
}

func TestASessionThatCouldNotBeginIsFoundAmongThoseThatFailed(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{Sandbox: "glass"})
	if _, err := r.result(id); err == nil {
		t.Fatal("it ended well")
	}
	d, err := r.c.DescribeWorkflow(t.Context(), protocol.SessionID(id), "")
	if err != nil {
		t.Fatal(err)
	}
	if state, _ := d.TypedSearchAttributes.GetKeyword(kit.AttrState); state != string(protocol.Failed) {
		t.Errorf("lists have it as %q", state)
	}
}

// Temporal keeps only the order of signals of the same name.
func TestWhoGivesASessionMoreAndGoesOnIsHeard(t *testing.T) {
	r := newReal(t)
	stop := r.work()
	stop()
	var opt session.Options
	if err := opt.SetBudget(protocol.Budget{Turns: tokens(1)}); err != nil {
		t.Fatal(err)
	}
	id := r.session("s", opt)
	r.signal(protocol.SessionID(id), protocol.SignalMessage, protocol.Message{ID: "m1", Text: "hello"})
	r.signal(protocol.SessionID(id), protocol.SignalBudget, protocol.Budget{Turns: tokens(2)})
	r.signal(protocol.SessionID(id), protocol.SignalMessage, protocol.Message{ID: "m2", Text: "hello again"})
	r.work()
	r.until("both messages are heard", func() bool { v := r.view(id); return v.Turn != nil && v.Turn.N == 2 || len(v.Refusals) > 0 })
	if v := r.view(id); len(v.Refusals) != 0 {
		t.Fatalf("refused: %+v", v.Refusals)
	}
	r.ended(id, "m1", "completed")
	r.ended(id, "m2", "completed")
	r.close(id)
}

func TestATurnOutlivesItsWorker(t *testing.T) {
	r := newReal(t)
	stop := r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "stay")
	r.until("a pump is attached", func() bool { return r.host.attached(id) })
	r.work()
	stop()
	r.until("the next worker is attached", func() bool {
		results, _ := r.host.pumps(id)
		return len(results) == 1 && r.host.attached(id)
	})
	r.update(protocol.SessionID(id), protocol.SignalInterrupt, nil, protocol.Interrupt{})
	r.ended(id, "m1", "interrupted")
	if results, _ := r.host.pumps(id); fmt.Sprint(results) != "[handed over cancelled turn_ended]" {
		t.Errorf("the pumps returned %v", results)
	}
	if ran := r.host.ran(id); len(ran) != 1 {
		t.Errorf("turns were %v", ran)
	}
	r.close(id)
}

func TestTwentySessionsShareThreeSlots(t *testing.T) {
	r := newReal(t)
	r.work()
	var ids []string
	for i := range 20 {
		id := r.session(fmt.Sprint("s", i), session.Options{CloseAfter: true})
		r.say(id, "m1", "hello")
		ids = append(ids, id)
	}
	for _, id := range ids {
		if v, err := r.result(id); err != nil || v.State != protocol.Closed || v.Turn.Status != "completed" {
			t.Errorf("session %s ended as %+v (%v)", id, v, err)
		}
	}
	if r.host.most > 3 {
		t.Errorf("%d sessions were on a host with 3 slots", r.host.most)
	}
	r.until("all slots are free", func() bool {
		return asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1").Used == 0
	})
}

func TestATerminatedHolderGivesItsSlotBack(t *testing.T) {
	r := newReal(t)
	r.looksOften()
	r.work()
	var ids []string
	for i := range 4 {
		ids = append(ids, r.session(fmt.Sprint("s", i), session.Options{}))
		if i < 3 {
			r.becomes(ids[i], protocol.Idle)
		}
	}
	r.until("the last one waits in line", func() bool { return r.view(ids[3]).Waits != "a host" })
	if v := r.view(ids[3]); v.State != protocol.Queued {
		t.Errorf("the fourth session is %s", v.State)
	}
	if err := r.c.TerminateWorkflow(t.Context(), protocol.SessionID(ids[0]), "", "for the test"); err != nil {
		t.Fatal(err)
	}
	r.becomes(ids[3], protocol.Idle)
	holders := asked[protocol.HostView](r, protocol.PoolID(r.zone), protocol.QueryHost, "web-1").Holders
	sort.Strings(holders)
	if fmt.Sprint(holders) != fmt.Sprint(ids[1:]) {
		t.Errorf("the slots are held by %v", holders)
	}
	for _, id := range ids[1:] {
		r.close(id)
	}
}

func TestALoginIsHeldByOneSessionAtATime(t *testing.T) {
	r := newReal(t)
	r.work()
	name := r.zone + "-team"
	r.start(protocol.SeedID(name), protocol.TypeSeed, seed.Input{Name: name})
	r.update(protocol.SeedID(name), protocol.UpdatePutSeed, nil, protocol.PutSeed{Name: name, Ref: protocol.SeedRef{Blob: "seeds/" + name + "/b1", Digest: "d", Kind: "chatgpt"}})
	var ids []string
	for i := range 3 {
		id := r.session(fmt.Sprint("s", i), session.Options{Seed: name, CloseAfter: true})
		r.say(id, "m1", "hello")
		ids = append(ids, id)
	}
	for _, id := range ids {
		if v, err := r.result(id); err != nil || v.State != protocol.Closed {
			t.Errorf("session %s ended as %+v (%v)", id, v, err)
		}
	}
	if r.host.most != 1 {
		t.Errorf("%d sessions held one login", r.host.most)
	}
	r.until("nobody holds it", func() bool {
		return len(asked[protocol.SeedView](r, protocol.SeedID(name), protocol.QuerySeed).HeldBy) == 0
	})
	r.update(protocol.SeedID(name), protocol.UpdateDeleteSeed, nil, protocol.DeleteSeed{Purge: true})
	if err := r.c.GetWorkflow(t.Context(), protocol.SeedID(name), "").Get(t.Context(), nil); err != nil {
		t.Error(err)
	}
	gone := r.session("late", session.Options{Seed: name})
	if _, err := r.result(gone); typeOf(err) != "seed_not_found" {
		t.Errorf("a session of a deleted seed ended with %v", err)
	}
}

func TestAnIDIsUsedOnce(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	again := func() error {
		return r.tryStart(protocol.SessionID(id), protocol.TypeSession, session.Input{ID: id, Options: session.Options{Zone: r.zone}})
	}
	if err := again(); !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		t.Errorf("the second start was answered %v", err)
	}
	r.close(id)
	if err := again(); !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		t.Errorf("after its end, the start was answered %v", err)
	}
}

func TestWhatASessionWasCanBeAskedAfterItsEnd(t *testing.T) {
	r := newReal(t)
	r.host.bad["failed"] = finally(protocol.ErrTypeCodexMissing)
	r.work()
	id := r.session("closed", session.Options{})
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	last := r.close(id)
	if v := r.view(id); v.State != protocol.Closed || !v.Close.Removed || v.UpdatedAt != last.UpdatedAt {
		t.Errorf("after its end the session is %+v, its result was %+v", v, last)
	}
	if turn := asked[protocol.TurnView](r, protocol.SessionID(id), protocol.QueryTurn, protocol.TurnQuery{N: 1}); turn.FinalText != "you said: hello" {
		t.Errorf("its turn is %+v", turn)
	}
	// This is the last row of the message table: Temporal itself refuses messages to an
	// ended session.
	for name, arg := range map[string]any{protocol.SignalMessage: hello("m2"), protocol.SignalInterrupt: protocol.Interrupt{},
		protocol.SignalBudget: protocol.Budget{Tokens: tokens(1)}, protocol.SignalClose: protocol.Close{Discard: true}} {
		var gone *serviceerror.NotFound
		if err := r.tryUpdate(protocol.SessionID(id), name, nil, arg); !errors.As(err, &gone) {
			t.Errorf("update %s was answered %v", name, err)
		}
		if err := r.c.SignalWorkflow(t.Context(), protocol.SessionID(id), "", name, arg); !errors.As(err, &gone) {
			t.Errorf("signal %s was answered %v", name, err)
		}
	}

	bad := r.session("failed", session.Options{})
	_, err := r.result(bad)
	var app *temporal.ApplicationError
	var v protocol.SessionView
	if !errors.As(err, &app) || app.Type() != protocol.ErrTypeCodexMissing || app.Details(&v) != nil || v.State != protocol.Failed || v.Error.Kind != app.Type() {
		t.Errorf("the failed session ended with %v and %+v", err, v)
	}
	if v := r.view(bad); v.State != protocol.Failed || v.Close == nil {
		t.Errorf("after its end the failed session is %+v", v)
	}
}
