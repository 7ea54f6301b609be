package workflows

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// lost answers as a pump whose host is out of reach for too long.
func lost(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return pumps.RunPumpResult{HostLost: &protocol.HostLost{Since: time.Unix(1_800_000_000, 0), Why: "no route to host"}}, nil
}

type pumping = func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error)

// saysTold returns a pump that, after then, reports the message about the move as
// acknowledged.
func saysTold(then pumping) pumping {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := then(ctx, in)
		if in.Pump.Tell != nil {
			out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: in.Pump.Tell.ID, State: protocol.Acknowledged})
		}
		return out, err
	}
}

var moves = session.Options{Seed: "team", OnHostLost: protocol.HostLostMove, LostAfter: 2 * time.Minute}

func TestASessionThatLosesItsHostGoesOnElsewhere(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	w.fake.differs = "its status was: ?? a"
	w.fake.pumps = []pumping{endsTurn("completed", ""), asks("make"), lost, saysTold(endsTurn("completed", "")), endsTurn("completed", "")}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(3*time.Second, func() {
		w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"})
	})
	w.at(4*time.Second, func() {
		v := w.view()
		if v.State != protocol.Interrupted || v.Host != "web-2" || v.Attempt != 2 || v.Turn.Status != "interrupted" || v.Error == nil || v.Error.Kind != "host_lost" || v.Lost != nil {
			t.Errorf("session is %+v (%+v)", v, v.Error)
		}
		if a := query[[]protocol.Approval](w, protocol.QueryApprovals)[0]; a.State != protocol.ApprovalSent {
			t.Errorf("the decision is %+v", a)
		}
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.at(5*time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.Turn.N != 3 || v.Turn.Status != "completed" || v.Error != nil {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m4"))
	})
	w.ends(6 * time.Second)
	w.start(moves)
	if w.fake.ran[2].LostAfter != 2*time.Minute {
		t.Errorf("the pump was told %+v", w.fake.ran[2])
	}
	// Nobody saw the credential removed, so the seed is told that it may be there.
	seed, slot := w.back[0], w.back[1]
	if w.released[0] != "seed/team" || seed.Clean || slot.Left == nil || slot.Left.Host != "web-1" || slot.Left.Layout == nil || slot.Left.Seed == nil || slot.Left.Snapshot.Parent != "s1.snap-1" {
		t.Errorf("given back were %+v and %+v, left %+v", seed, slot, slot.Left)
	}
	if r := w.lastPrepared().Restore; r == nil || r.Snapshot != "s1.snap-1" || r.Warm != 0 || r.Fork {
		t.Errorf("prepared with %+v", r)
	}
	third := w.fake.ran[3].Pump
	if after := append(third.Notes, w.lastPump().Pump.Notes...); !slices.ContainsFunc(after, func(n conversation.Note) bool {
		return strings.HasSuffix(n.Text, "not quite as it was: "+w.fake.differs)
	}) {
		t.Errorf("on record is %+v", after)
	}
	if third.Tell == nil || !strings.Contains(third.Tell.Text, "Host web-1") || !strings.Contains(third.Tell.Text, "in turn 1") || strings.Count(third.Tell.Text, ". ") > 1 {
		t.Errorf("codex was told %+v", third.Tell)
	}
	if !third.Resume || third.State.ThreadID != "thread-1" || third.State.Cursor.Incarnation != 2 || len(third.Sends) != 1 {
		t.Errorf("the pump was told %+v", third)
	}
	if again := w.lastPump().Pump.Tell; again != nil {
		t.Errorf("codex was told twice: %+v", again)
	}
	// The snapshot at the new place may be taken before or after codex starts.
	got := w.done()
	if _, there, found := strings.Cut(got, "prepare s1 on web-2"); !found || !strings.Contains(there, "start 2") || strings.Contains(got, "stop") {
		t.Errorf("done was %s", got)
	}
}

// The snapshot from which the thread goes on may not include the task.
func TestASessionThatIsToGoOnSaysElsewhereWhatItWasToDo(t *testing.T) {
	for what, c := range map[string]struct {
		keep bool // a snapshot is taken within the turn
		text string
	}{
		"its snapshot has the turn": {true, session.GoOnText}, "its snapshot is older": {false, "hello"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.hosts = []string{"web-1", "web-2"}
			w.fake.pumps = []pumping{endsTurn("completed", ""), asks("make"), lost, endsTurn("completed", "")}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, protocol.Message{ID: "m1", Text: "first"}) })
			w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
			w.at(3*time.Second, func() {
				if c.keep {
					w.takes(w.send(protocol.SignalSnapshot, protocol.TakeSnapshot{}))
				}
			})
			w.at(4*time.Second, func() {
				w.send(protocol.SignalDecide, protocol.Decide{Approval: "s1.1", Digest: "digest of make", Outcome: "accept"})
			})
			w.at(5*time.Second, func() {
				v := w.view()
				if v.State != protocol.Idle || v.Turn.N != 3 || v.Turn.Status != "completed" || v.Host != "web-2" {
					t.Errorf("session is %+v", v)
				}
				if was := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 2}); was.Status != "interrupted" || was.FollowedBy != 3 {
					t.Errorf("the turn that was cut off is %+v", was)
				}
			})
			w.ends(6 * time.Second)
			opt := moves
			opt.OnInterrupt = protocol.InterruptContinue
			w.start(opt)
			if sends := w.fake.ran[3].Pump.Sends; len(sends) != 1 || sends[0].ID != "s1.c1" || sends[0].Text != c.text || sends[0].Uncertain {
				t.Errorf("codex was sent %+v", sends)
			}
		})
	}
}

func TestALostHostIsWaitedForAndItIsSaid(t *testing.T) {
	for what, c := range map[string]struct {
		opt   session.Options
		stays string
	}{
		"by its policy":       {session.Options{}, "wait"},
		"without a snapshot":  {session.Options{OnHostLost: protocol.HostLostMove, Snapshot: protocol.SnapshotOptions{When: protocol.SnapshotClose}}, "no snapshot"},
		"that cannot be made": {session.Options{OnHostLost: protocol.HostLostMove}, "no snapshot of it could be taken"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.fake.pumps = []pumping{endsTurn("completed", ""), lost, staysAttached(protocol.Acknowledged), endsTurn("interrupted", "")}
			if strings.Contains(what, "made") {
				w.fake.fail("snapshot", finally(protocol.ErrTypeStore))
			}
			w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.whenTurn(1, "completed", func() {
				// The turn's snapshot is taken while the next turn runs.
				w.once("its snapshot was tried, if there is to be one", func() bool {
					v := w.view().Snapshot
					return !strings.Contains(what, "made") || v != nil && v.Tried == 1
				}, func() { w.send(protocol.SignalMessage, hello("m2")) })
			})
			w.attached(3, func() {
				v := w.view()
				if v.State != protocol.Running || v.Lost == nil || v.Lost.Host != "web-1" || !strings.Contains(v.Lost.Stays, c.stays) || !strings.Contains(v.Waits, "web-1") || v.Error == nil || v.Error.Hint == "" {
					t.Errorf("session is %+v, lost %+v, error %+v", v, v.Lost, v.Error)
				}
				if c.opt.OnHostLost == protocol.HostLostMove {
					w.refuses(w.send(protocol.SignalResume, protocol.Resume{}), protocol.RefusedState)
				}
				w.refuses(w.send(protocol.SignalResume, protocol.Resume{Host: "web-1"}), protocol.RefusedState)
				w.send(protocol.SignalInterrupt, protocol.Interrupt{}) // the next pump shows that the host is back
			})
			w.whenTurn(2, "interrupted", func() {
				if v := w.view(); v.Lost != nil || v.Attempt != 1 {
					t.Errorf("session is %+v", v)
				}
				w.SignalWorkflow(protocol.SignalClose, protocol.Close{})
			})
			w.start(c.opt)
			if a, b := w.fake.ran[1].LostAfter, w.fake.ran[2].LostAfter; a != session.LostAfter || b != 0 {
				t.Errorf("the host was waited for %v, then for %v", a, b)
			}
		})
	}
}

func TestAPersonSendsASessionAwayFromALostHost(t *testing.T) {
	w := newWorld(t)
	w.fake.pumps = []pumping{endsTurn("completed", ""), lost, func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		<-ctx.Done()
		return pumps.RunPumpResult{}, ctx.Err() // the pump never reached its host
	}, endsTurn("completed", "")}
	w.at(50*time.Millisecond, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("a snapshot is good", func() bool { v := w.view().Snapshot; return v != nil && v.N == 1 }, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.attached(3, func() { w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-5", By: "bob"})) })
	w.when(protocol.Interrupted, func() {
		if v := w.view(); v.Lost != nil || v.Turn.Status != "unknown" {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.whenTurn(3, "completed", func() {
		if v := w.view(); v.Host != "web-5" || v.Attempt != 2 {
			t.Errorf("session is %+v", v)
		}
		w.SignalWorkflow(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Host: "web-1"})
}

func TestAHostThatIsLostTwiceIsLeftTwice(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2", "web-3"}
	w.fake.pumps = []pumping{endsTurn("completed", ""), lost, lost, saysTold(endsTurn("completed", ""))}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	for i := range 3 {
		w.at(time.Duration(i+2)*time.Second, func() { w.send(protocol.SignalMessage, hello("n"+string(rune('1'+i)))) })
	}
	w.at(6*time.Second, func() {
		if v := w.view(); v.Host != "web-3" || v.Attempt != 3 || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(7 * time.Second)
	w.start(moves)
	tell := w.fake.ran[3].Pump.Tell
	if tell == nil || !strings.Contains(tell.Text, "web-1, then host web-2") || tell.Incarnation != 0 {
		t.Errorf("codex was told %+v", tell)
	}
	lefts := 0
	for _, r := range w.back {
		if r.Left != nil {
			lefts++
		}
	}
	if lefts != 2 {
		t.Errorf("given back were %+v", w.back)
	}
}

// A process may have been told something. If a pump then finds that the process certainly
// was not told, the next process is told.
func TestWhatCodexWasProvedNotToHaveHeardIsTold(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	unsaid := func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := endsTurn("completed", "")(ctx, in)
		out.Pump.Deliveries = append(out.Pump.Deliveries, protocol.Delivery{ID: in.Pump.Tell.ID, State: protocol.Decided})
		return out, err
	}
	broken := func(context.Context, pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		return pumps.RunPumpResult{}, temporal.NewCanceledError() // cancelled between two attempts
	}
	w.fake.pumps = []pumping{endsTurn("completed", ""), lost, broken, unsaid, saysTold(endsTurn("completed", ""))}
	for i := range 4 {
		w.at(time.Duration(i+1)*time.Second, func() { w.send(protocol.SignalMessage, hello("n"+string(rune('1'+i)))) })
	}
	w.ends(10 * time.Second)
	w.start(moves)
	if len(w.fake.ran) < 5 {
		t.Fatalf("%d pumps ran", len(w.fake.ran))
	}
	feared, again := w.fake.ran[3].Pump, w.fake.ran[4].Pump
	if feared.Tell == nil || feared.Tell.Incarnation == 0 {
		t.Errorf("behind a pump that said nothing: %+v", feared.Tell)
	}
	if again.Tell == nil || again.Tell.ID != feared.Tell.ID || again.Tell.Incarnation != 0 {
		t.Errorf("behind one that proved it unsaid: %+v", again.Tell)
	}
}

// If a granted host is out of reach, the session uses another host, because nothing of it
// has run on the first one.
func TestAParkedSessionTriesAnotherHostWhereItsOwnIsLost(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-1", "web-2"}
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.fake.gone = map[string]bool{"web-1": true}
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(time.Minute, func() {
		if v := w.view(); v.State != protocol.Idle || v.Host != "web-2" || v.Turn.Status != "completed" || v.Turn.N != 2 {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(2 * time.Minute)
	w.start(session.Options{})
}

func TestAnIdleSessionIsMovedByAPerson(t *testing.T) {
	for _, away := range []bool{false, true} {
		w := newWorld(t)
		w.fake.rest = saysTold(endsTurn("completed", ""))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() {
			if away {
				w.fake.fail("park", finally(protocol.ErrTypeUnreachable))
			}
			w.refuses(w.send(protocol.SignalResume, protocol.Resume{}), protocol.RefusedState)
			w.refuses(w.send(protocol.SignalResume, protocol.Resume{Host: "web-1"}), protocol.RefusedState)
			w.refuses(w.send(protocol.SignalResume, protocol.Resume{Host: "No Host"}), protocol.RefusedBadInput)
			w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2", By: "bob"}))
		})
		w.at(3*time.Second, func() {
			if v := w.view(); v.State != protocol.Idle || v.Host != "web-2" || v.Attempt != 2 || v.Warm != nil {
				t.Errorf("session is %+v", v)
			}
			w.send(protocol.SignalMessage, hello("m2"))
		})
		w.ends(4 * time.Second)
		w.start(session.Options{Host: "web-1"})
		if slot := w.back[0]; (slot.Left != nil) != away || (slot.Warm != nil) == away {
			t.Errorf("the pool was told %+v", slot)
		}
		if tell := w.lastPump().Pump.Tell; tell == nil || strings.Contains(tell.Text, "lost") != away {
			t.Errorf("codex was told %+v", tell)
		}
	}
}

func TestAMessageThatNeverReachedALostHostGoesToTheNextOne(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	w.fake.rest = endsTurn("completed", "")
	w.fake.pumps = []pumping{endsTurn("completed", ""), dies(protocol.Decided, true)}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() {
		w.fake.fail("stop", finally(protocol.ErrTypeUnreachable)) // the host is lost, not only the process
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(time.Minute, func() {
		if v := w.view(); v.Host != "web-2" || v.Turn.N != 2 || v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
	})
	w.ends(2 * time.Minute)
	w.start(moves)
	if sends := w.lastPump().Pump.Sends; len(sends) != 1 || sends[0].ID != "m2" || sends[0].Uncertain {
		t.Errorf("codex was sent %+v", sends)
	}
}

// What the pump read on the lost host and could not report is in the transcript before the
// session says anything about it. If codex is known to have the message of a turn, that
// turn is interrupted. If that is not known, the turn is unknown.
func TestWhatWasHeardOnALostHostCounts(t *testing.T) {
	for _, knows := range []bool{true, false} {
		w := newWorld(t)
		w.hosts = []string{"web-1", "web-2"}
		w.fake.pumps = []pumping{endsTurn("completed", ""), lost, saysTold(endsTurn("completed", ""))}
		w.fake.heard = func(in pumps.RecordLostInput) pumps.RecordLostResult {
			out := pumps.RecordLostResult{Seq: in.State.Seq + 3}
			if knows {
				out.Said, out.Last = []string{"m2"}, &conversation.PumpState{TurnID: "turn-2", FinalText: "I began to"}
			}
			return out
		}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
		w.at(10*time.Second, func() {
			turn := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 2})
			want, text, state := "unknown", "", session.SentThere
			if knows {
				want, text, state = "interrupted", "I began to", session.Acknowledged
			}
			if turn.Status != want || turn.FinalText != text || (turn.TurnID == "turn-2") != knows || knows && w.message("m2").State != state {
				t.Errorf("knows %v: the turn is %+v, its message %+v", knows, turn, w.message("m2"))
			}
			w.send(protocol.SignalMessage, hello("m3"))
		})
		w.ends(11 * time.Second)
		w.start(moves)
		if n := len(w.fake.losts); n != 1 {
			t.Fatalf("asked %d times what was heard", n)
		}
		in, before, next := w.fake.losts[0], w.fake.ran[1].Pump, w.fake.ran[2].Pump
		if len(in.Sends) != 1 || in.Sends[0].ID != "m2" || in.Sends[0].Text == "" || in.Turn != 2 || in.Claim.Pump <= w.fake.ran[1].Claim.Pump || in.Claim.Generation != w.fake.ran[1].Claim.Generation {
			t.Errorf("asked with %+v", in)
		}
		if next.State.Seq != before.State.Seq+3 {
			t.Errorf("the next pump begins behind entry %d, the lost one behind %d", next.State.Seq, before.State.Seq)
		}
	}
}

// If nobody can find out what the pump read, the messages that were sent are still in the
// transcript.
func TestWhatWasSaidToALostHostIsOnRecordInAnyCase(t *testing.T) {
	w := newWorld(t)
	w.hosts = []string{"web-1", "web-2"}
	w.fake.pumps = []pumping{endsTurn("completed", ""), lost, saysTold(endsTurn("completed", ""))}
	w.fake.fail("lost", finally(protocol.ErrTypeStore))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.at(10*time.Second, func() { w.send(protocol.SignalMessage, hello("m3")) })
	w.ends(11 * time.Second)
	w.start(moves)
	said := -1
	for i, n := range w.fake.ran[2].Pump.Notes {
		if n.Type == protocol.EntryUser && n.Data["message"] == "m2" && n.Data["delivery"] == session.SentThere && n.Text == hello("m2").Text {
			said = i
		}
		if strings.HasPrefix(n.Text, "turn 2 ended as") && said < 0 {
			t.Errorf("its end is on record before it: %+v", w.fake.ran[2].Pump.Notes)
		}
	}
	if said < 0 {
		t.Errorf("on record is %+v", w.fake.ran[2].Pump.Notes)
	}
}

// The snapshot of a fork is pinned before the fork waits for a host. If the
// snapshot does not exist, the fork does not wait, and fails with that reason.
func TestAForkOfWhatIsGoneTakesNoHost(t *testing.T) {
	w := newWorld(t)
	w.fake.fail("pin", finally(protocol.ErrTypeSnapshot))
	w.start(session.Options{From: "s0.snap-4"})
	if v := w.view(); v.State != protocol.Failed || v.Error == nil || v.Error.Kind != protocol.ErrTypeSnapshot || len(w.asked) != 0 || len(w.fake.prepared) != 0 {
		t.Errorf("session is %+v, %+v, and asked for %+v", v, v.Error, w.asked)
	}
}

func TestAForkThatWaitsForItsSnapshotCanBeClosed(t *testing.T) {
	w := newWorld(t)
	w.fake.hang("pin")
	w.at(50*time.Millisecond, func() { w.takes(w.send(protocol.SignalClose, protocol.Close{})) })
	w.start(session.Options{From: "s0.snap-4"})
	if v := w.view(); v.State != protocol.Closed || v.Error != nil || len(w.asked) != 0 {
		t.Errorf("session is %+v, and asked for %+v", v, w.asked)
	}
}

func TestAForkBeginsWithASnapshotAndItsOwnThread(t *testing.T) {
	w := newWorld(t)
	forks := func(then pumping) pumping {
		return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
			out, err := then(ctx, in)
			out.Pump.State.ForkedFrom = in.Pump.State.ThreadID
			return out, err
		}
	}
	w.fake.pumps = []pumping{forks(endsTurn("completed", "")), endsTurn("completed", "")}
	w.at(time.Second, func() {
		if v := w.view(); v.State != protocol.Idle || v.ThreadID != "" {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m1"))
	})
	w.at(2*time.Second, func() {
		if v := w.view(); v.ThreadID != "thread-1" || v.Turn.N != 1 {
			t.Errorf("session is %+v", v)
		}
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.ends(3 * time.Second)
	w.start(session.Options{From: "s0.snap-4"})
	if got := strings.Join(w.fake.calls, ","); !strings.HasPrefix(got, "pin s0.snap-4 for s1 of ") || strings.Count(got, "pin ") != 1 {
		t.Errorf("called %s", got)
	}
	if r := w.fake.prepared[0].Restore; r == nil || r.Snapshot != "s0.snap-4" || !r.Fork || r.Warm != 0 {
		t.Errorf("prepared with %+v", r)
	}
	if p := w.fake.ran[0].Pump; !p.Fork || p.State.ThreadID != "thread-0" || p.Resume || p.Tell != nil {
		t.Errorf("the first pump was told %+v", p)
	}
	if p := w.fake.ran[1].Pump; p.State.ThreadID != "thread-1" || p.State.ForkedFrom != "thread-0" {
		t.Errorf("the second pump was told %+v", p)
	}
}

// No pump is attached that would report the loss: codex is to be started again, and
// the process before it cannot be stopped.
func TestAHostThatIsLostWhileNothingRunsIsSaidToBeAndCanBeLeft(t *testing.T) {
	for _, back := range []bool{false, true} {
		w := newWorld(t)
		w.fake.rest = saysTold(endsTurn("completed", ""))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(31*time.Minute, func() { // the session tried to park
			if v := w.view(); v.State != protocol.Idle || v.Process.Alive {
				t.Errorf("session is %+v", v)
			}
			w.fake.fail("stop", finally(protocol.ErrTypeUnreachable))
			w.send(protocol.SignalMessage, hello("m2"))
		})
		w.at(32*time.Minute, func() {
			v := w.view()
			if v.State != protocol.Resuming || v.Lost == nil || v.Lost.Host != "web-1" || !strings.Contains(v.Waits, "web-1") || v.Error == nil || v.Error.Hint == "" {
				t.Errorf("session is %+v, lost %+v, error %+v", v, v.Lost, v.Error)
			}
			w.fake.fail("park", nil)
			if back {
				w.fake.fail("stop", nil)
				return
			}
			w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2", By: "bob"}))
		})
		w.at(35*time.Minute, func() {
			v, host := w.view(), "web-2"
			if back {
				host = "web-1"
			}
			if v.Lost != nil || v.Host != host || v.Turn.N != 2 || v.Turn.Status != "completed" {
				t.Errorf("session is %+v, lost %+v", v, v.Lost)
			}
			w.CancelWorkflow()
		})
		w.fake.fail("park", finally(protocol.ErrTypeUnreachable))
		w.start(session.Options{Host: "web-1", ParkAfter: 30 * time.Minute})
	}
}

// If the host cannot be reached, stopping what a dead process left running never succeeds.
func TestWhatADeadProcessLeftKeepsNobodyOnItsHost(t *testing.T) {
	w := newWorld(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.pumps = []pumping{endsTurn("completed", ""), dies(protocol.Acknowledged, true)}
	w.fake.hang("stop")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("a snapshot is good", func() bool { v := w.view().Snapshot; return v != nil && v.N == 1 }, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.when(protocol.Interrupted, func() { w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2"})) })
	w.once("it is elsewhere", func() bool { return w.view().Host == "web-2" && w.view().State == protocol.Interrupted }, w.CancelWorkflow)
	w.start(session.Options{Host: "web-1"})
}

// If a turn ended on the lost host and its end is reported too late for a snapshot, the
// view does not claim that its work was kept: it shows the turn's text and says that the
// rest is lost. The session does nothing that follows the end of a turn. It does what the
// options say about a turn that was cut off.
func TestATurnThatEndedOnALostHostHasNotKeptItsWork(t *testing.T) {
	failed := &protocol.Problem{Kind: "auth", Message: "no token came", Passing: true}
	for name, c := range map[string]struct {
		opt   session.Options
		end   conversation.TurnEnd
		acked bool
		again string // the message that the session itself sends next
	}{
		"it waits for a person":    {moves, conversation.TurnEnd{Status: "completed"}, true, ""},
		"only its end was heard":   {moves, conversation.TurnEnd{Status: "completed"}, false, ""},
		"it says the same again":   {with(moves, func(o *session.Options) { o.OnInterrupt = protocol.InterruptContinue }), conversation.TurnEnd{Status: "completed"}, true, hello("m2").Text},
		"it ended for want of one": {with(moves, func(o *session.Options) { o.OnAuth = protocol.AuthRetry }), conversation.TurnEnd{Status: "failed", Problem: failed}, true, ""},
	} {
		w := newWorld(t)
		w.hosts = []string{"web-1", "web-2"}
		w.fake.pumps = []pumping{endsTurn("completed", ""), lost}
		w.fake.rest = saysTold(endsTurn("completed", ""))
		w.fake.heard = func(in pumps.RecordLostInput) pumps.RecordLostResult {
			end := c.end
			end.N, end.ID, end.FinalText, end.Usage = 2, "turn-2", "all is done", protocol.Usage{Input: 7, Output: 2}
			out := pumps.RecordLostResult{Seq: in.State.Seq + 3, Ended: &end, Last: &conversation.PumpState{Usage: protocol.Usage{Input: 9, Output: 3}}}
			if c.acked {
				out.Said = []string{"m2"}
			}
			return out
		}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(2*time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
		w.at(10*time.Second, func() {
			turn, v := query[protocol.TurnView](w, protocol.QueryTurn, protocol.TurnQuery{N: 2}), w.view()
			if turn.Status != "interrupted" || turn.TurnID != "turn-2" || turn.FinalText != "all is done" || turn.Usage.Input != 7 || w.message("m2").State != session.Acknowledged {
				t.Errorf("%s: the turn is %+v, its message %+v", name, turn, w.message("m2"))
			}
			if f := turn.Error; f == nil || f.Kind != session.KindHostLost || !strings.Contains(f.Message, c.end.Status) ||
				!strings.Contains(f.Message, "from the snapshot of turn 1, and the turn's work after that is not kept") {
				t.Errorf("%s: its error is %+v", name, f)
			}
			last := w.lastPump().Pump
			switch {
			case c.again == "" && (v.State != protocol.Interrupted || v.Turn.N != 2 || v.Error == nil || v.Error.Kind != session.KindHostLost):
				t.Errorf("%s: session is %+v, %+v", name, v, v.Error)
			case c.again != "" && (v.Turn.N != 3 || len(last.Sends) != 1 || last.Sends[0].Text != c.again):
				t.Errorf("%s: session is %+v, and codex was sent %+v", name, v, last.Sends)
			}
		})
		w.ends(11 * time.Second)
		w.start(c.opt)
	}
}

func with(o session.Options, change func(*session.Options)) session.Options {
	change(&o)
	return o
}

// If a session was bound to one host and a person moves it to another host, it is bound to
// the other host. It waits for that host, even if the former one could not be reached.
func TestASessionThatIsMovedFromALostHostIsToBeWhereItWasSent(t *testing.T) {
	w := waitsLong(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("a snapshot is good", func() bool { v := w.view().Snapshot; return v != nil && v.N == 1 }, func() {
		w.fake.fail("park", finally(protocol.ErrTypeUnreachable))
		w.fake.failTimes("prepare", 10, finally(protocol.ErrTypeUnreachable))
		w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2", By: "bob"}))
		w.once("it is up again", func() bool { v := w.view(); return v.State == protocol.Idle && v.Attempt > 1 }, func() {
			if v := w.view(); v.Host != "web-2" {
				t.Errorf("session is on %s", v.Host)
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
	})
	w.start(session.Options{Host: "web-1"})
	for _, in := range w.fake.prepared[1:] {
		if in.Claim.Host.Name != "web-2" {
			t.Errorf("it tried %s", in.Claim.Host.Name)
		}
	}
}
