package workflows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// lostSeed returns a pump that also finds that its session's lease of the seed has ended.
func lostSeed(pump pumpFunc) pumpFunc {
	return func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := pump(ctx, in)
		out.SeedLost = &protocol.Problem{Kind: protocol.ErrTypeSeedFenced, Message: "session s1 has no lease on seed team", Hint: "see"}
		return out, err
	}
}

// amidTurn answers as a pump that returns while a turn runs.
func amidTurn(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	st := opened(in)
	st.TurnID = "turn-1"
	return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.PumpCancelled, State: st, Deliveries: acked(in)}}, nil
}

// journalEnds answers as the pump that reads what a stopped codex has written.
func journalEnds(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	st := opened(in)
	return pumps.RunPumpResult{Process: &pumps.ProcessGone{State: "exited"},
		Pump: conversation.PumpResult{Reason: conversation.ProcessEnded, State: st}}, nil
}

// again returns the same seed under a lease of a workflow that was started anew.
func again(generation, epoch int64) *protocol.SeedRef {
	return &protocol.SeedRef{Name: "team", Generation: generation, Blob: "anew", Digest: "d", Kind: logins.KindChatGPT, Epoch: epoch}
}

func TestASessionThatLostItsSeedAsksForItAgain(t *testing.T) {
	unknown := &temporal.UnknownExternalWorkflowExecutionError{}
	for name, c := range map[string]struct {
		pump  pumpFunc
		turns []string // how they end
	}{
		"at the end of a turn":    {endsTurn("completed", "done"), []string{"completed", "completed"}},
		"while a turn runs":       {amidTurn, []string{"interrupted", "completed", "completed"}},
		"while a person is asked": {asks("make"), []string{"interrupted", "completed", "completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kind = logins.KindChatGPT
			w.fake.pumps = []pumpFunc{lostSeed(c.pump), journalEnds}
			w.fake.rest = endsTurn("completed", "done")
			w.seedSays = []poolAnswer{{}, {err: unknown}, {Granted: lease.Granted{Queued: "seed team, held by s9"}}}
			w.at(time.Second, func() {
				w.send(protocol.SignalMessage, hello("m1"))
				w.send(protocol.SignalMessage, hello("m2"))
			})
			w.waits(func() {
				w.waited("get its seed back", session.KindSeedAway)
				w.seedNow = again(4, 9)
			})
			w.once("it stands in line", func() bool { return strings.Contains(w.view().Waits, "held by s9") }, func() {
				if n := w.fake.startedSoFar(); n != 1 {
					t.Errorf("codex was started %d times before the seed was there", n)
				}
				w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.SeedID("team"), Epoch: 9, Seed: again(4, 9)})
			})
			w.once("all turns ended", func() bool {
				turns := turnsOf(w)
				return len(turns) == len(c.turns) && turns[len(turns)-1].Status == "completed"
			}, func() { w.send(protocol.SignalClose, protocol.Close{}) })
			w.start(session.Options{Seed: "team", OnInterrupt: protocol.InterruptContinue})
			if err := w.GetWorkflowError(); err != nil {
				t.Fatalf("the session ended with %v", err)
			}
			for i, turn := range turnsOf(w) {
				if turn.Status != c.turns[i] {
					t.Errorf("turn %d is %s, %+v; want %s", turn.N, turn.Status, turn.Error, c.turns[i])
				}
			}
			if p := w.fake.prepared; len(p) != 2 || p[0].Seed.Epoch != 7 || p[1].Seed.Epoch != 9 || p[1].Claim.Generation != p[0].Claim.Generation {
				t.Errorf("prepared with %+v", p)
			}
			for i, in := range w.fake.ran {
				if want := int64(9); i > 1 && in.Seed.Epoch != want || in.Unkept != (i == 1) {
					t.Errorf("pump %d has %+v, unkept %v", i, in.Seed, in.Unkept)
				}
			}
			if done := w.done(); strings.Count(done, "stop 1") < 1 || strings.Index(done, "stop 1") > strings.LastIndex(done, "prepare") {
				t.Errorf("did %s", done)
			}
			last := w.back[0]
			if w.released[0] != "seed/team" || last.Epoch != 9 {
				t.Errorf("released %v with %+v", w.released, last)
			}
		})
	}
}

// refusesLogin answers as a pump whose codex cannot be logged in and so got no message.
func refusesLogin(_ context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
	return pumps.RunPumpResult{Pump: conversation.PumpResult{Reason: conversation.Refused, State: in.Pump.State,
		Problem: &protocol.Problem{Kind: "auth", Message: "codex cannot be logged in", Hint: "see"}}}, nil
}

// If a session's credentials come from a broker, its host has no login. Such a session asks
// for its seed again like any other.
func TestABrokeredSessionThatLostItsSeedAsksForItAgain(t *testing.T) {
	for name, c := range map[string]struct {
		pump  pumpFunc
		turns []string // how they end
	}{
		"before codex is logged in": {refusesLogin, []string{"completed", "completed"}},
		"while a turn runs":         {amidTurn, []string{"interrupted", "completed", "completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := brokered(t, lostSeed(c.pump), journalEnds)
			w.fake.rest = endsTurn("completed", "done")
			w.seedSays = []poolAnswer{{}, {err: &temporal.UnknownExternalWorkflowExecutionError{}}}
			w.at(time.Second, func() {
				w.send(protocol.SignalMessage, hello("m1"))
				w.send(protocol.SignalMessage, hello("m2"))
			})
			w.waits(func() {
				w.waited("get its seed back", session.KindSeedAway)
				w.seedNow = again(4, 9)
			})
			w.once("all turns ended", func() bool {
				turns := turnsOf(w)
				return len(turns) == len(c.turns) && turns[len(turns)-1].Status == "completed"
			}, func() { w.send(protocol.SignalClose, protocol.Close{}) })
			opt := byBroker
			opt.OnInterrupt = protocol.InterruptContinue
			w.start(opt)
			if err := w.GetWorkflowError(); err != nil {
				t.Fatalf("the session ended with %v", err)
			}
			for i, turn := range turnsOf(w) {
				if turn.Status != c.turns[i] {
					t.Errorf("turn %d is %s, %+v; want %s", turn.N, turn.Status, turn.Error, c.turns[i])
				}
			}
			if p := w.fake.prepared; len(p) != 2 || p[1].Seed.Epoch != 9 || p[1].Credentials != protocol.CredentialsBroker {
				t.Errorf("prepared with %+v", p)
			}
			for _, a := range w.asked {
				if a.Holder == "s1" && a.At != nil && !a.Brokered {
					t.Errorf("asked for the seed without the broker: %+v", a)
				}
			}
			if len(w.reports) != 0 {
				t.Errorf("the seed is doubted: %+v", w.reports)
			}
		})
	}
}

// If the seed cannot be used any more, the session waits for a person, and keeps its queue.
func TestASessionWhoseSeedIsOfNoUseAnyMoreWaitsForAPerson(t *testing.T) {
	w := newWorld(t)
	w.kind = logins.KindChatGPT
	w.fake.pumps = []pumpFunc{lostSeed(endsTurn("completed", "done")), journalEnds}
	w.fake.rest = endsTurn("completed", "done")
	dead := poolAnswer{Granted: lease.Granted{Refused: &protocol.Failure{Kind: protocol.RefusedDead, Message: "seed team is dead", Hint: "log in anew"}}}
	w.seedSays = []poolAnswer{{}, dead}
	w.at(time.Second, func() {
		w.send(protocol.SignalMessage, hello("m1"))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.when(protocol.Interrupted, func() {
		v := w.view()
		if v.Error == nil || v.Error.Kind != protocol.RefusedDead || v.Queue != 1 {
			t.Errorf("it waits with %+v, %d queued", v.Error, v.Queue)
		}
		w.seedNow = again(5, 9) // a person has logged in anew
		w.send(protocol.SignalMessage, hello("m3"))
	})
	w.once("all turns ended", func() bool {
		turns := turnsOf(w)
		return len(turns) == 3 && turns[2].Status == "completed"
	}, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Seed: "team"})
	w.kept(3)
}

func TestATurnIsInterruptedWhileItsSessionWaitsForTheSeed(t *testing.T) {
	w := newWorld(t)
	w.kind = logins.KindChatGPT
	w.fake.pumps = []pumpFunc{lostSeed(amidTurn), journalEnds}
	w.seedSays = []poolAnswer{{}, {Granted: lease.Granted{Queued: "seed team, held by s9"}}}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("it stands in line", func() bool { return strings.Contains(w.view().Waits, "held by s9") }, func() {
		w.send(protocol.SignalInterrupt, protocol.Interrupt{})
		w.at(time.Minute, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	})
	w.start(session.Options{Seed: "team", OnInterrupt: protocol.InterruptContinue})
	turns := turnsOf(w)
	if len(turns) != 2 || turns[0].Status != "interrupted" || turns[1].Status != "interrupted" || w.GetWorkflowError() != nil {
		t.Errorf("turns %+v, %v", turns, w.GetWorkflowError())
	}
	if n := w.fake.startedSoFar(); n != 1 {
		t.Errorf("codex was started %d times", n)
	}
}

func (w *world) toldOfLogin() (told []lease.Release) {
	for i, to := range w.released {
		if to == protocol.SeedID("team") && w.back[i].At != nil {
			told = append(told, w.back[i])
		}
	}
	return told
}

// If a session ends without its seed while the login is still on a host, it tells the seed
// where the login is.
func TestASessionThatEndsWithoutItsSeedSaysWhereTheLoginIs(t *testing.T) {
	for name, c := range map[string]struct {
		on   string // the host where the login may be
		left bool   // the session parked there before
		gone bool   // the host cannot be reached
		drop bool
	}{
		"on a host that it left":      {on: "web-1", left: true},
		"on its host, which is away":  {on: "web-2", gone: true},
		"on its host, which is clean": {},
		"given up":                    {gone: true, drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var st session.State
			if c.left {
				st.SeedLeftOn, st.Parked = &session.SeedPlace{Spec: protocol.HostSpec{Name: "web-1"}, Generation: 5}, &session.Parked{}
			}
			st.Status, st.Begun, st.CreatedAt, st.SeedGone, st.SeedNo = protocol.Parked, true, w.Now(), true, true
			st.Seed, st.Generation = again(3, 7), 5
			if st.Parked == nil {
				st.Status, st.Touched, st.Layout = protocol.Idle, true, &protocol.Layout{Root: "/r"}
				st.Lease = &session.HostLease{Spec: protocol.HostSpec{Name: "web-2"}}
			}
			if c.gone {
				w.fake.fail("close", temporal.NewApplicationError("no route to host", protocol.ErrTypeUnreachable))
			}
			w.at(time.Second, func() { w.send(protocol.SignalClose, protocol.Close{Discard: c.drop}) })
			w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Seed: "team", Notify: "batch/b1"}, Carry: &st})
			if err := w.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			told := w.toldOfLogin()
			switch {
			case c.on == "" && len(told) > 0:
				t.Errorf("the seed was told %+v", told)
			case c.on == "":
			case len(told) != 1 || told[0].At == nil || told[0].At.Name != c.on || told[0].Epoch != 7 || told[0].Generation != 5 || told[0].Clean:
				t.Errorf("the seed was told %+v, want the login on %s", told, c.on)
			}
		})
	}
}

// If a session finds out while it closes that its lease has ended, it does not release the
// lease.
func TestASessionThatLosesItsSeedWhileItClosesSaysWhereTheLoginIs(t *testing.T) {
	w := newWorld(t)
	w.kind = logins.KindChatGPT
	w.fake.pumps = []pumpFunc{staysAttached(protocol.Acknowledged), lostSeed(amidTurn), journalEnds}
	w.fake.fail("close", finally(protocol.ErrTypeUnreachable))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.attached(1, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{Seed: "team", Notify: "batch/b1"})
	told := w.toldOfLogin()
	if len(told) != 1 || told[0].At == nil || told[0].Epoch != 7 {
		t.Errorf("the seed was told %+v", told)
	}
}

// idleWithoutSeed returns a session that has a host, and lost its seed while it was
// idle.
func (w *world) idleWithoutSeed() *session.State {
	st := &session.State{}
	st.Status, st.Begun, st.Started, st.CreatedAt = protocol.Idle, true, true, w.Now()
	st.Stopped, st.Incarnation, st.QuietAt = true, 1, w.Now()
	st.HasTurn, st.TurnN, st.NextN = true, 1, 1
	st.Touched, st.SeedGone, st.Seed, st.Generation = true, true, again(3, 7), 5
	st.Layout, st.Lease = &protocol.Layout{Root: "/r"}, &session.HostLease{Spec: protocol.HostSpec{Name: "web-1"}, Epoch: 1}
	st.Pump.ThreadID, st.Pump.Opened = "thread-1", 1
	st.Snap.Good = &snaps.SnapshotBrief{ID: "s1-0", Turn: 1}
	return st
}

// A session that lost its seed while idle waits in the seed's queue. Meanwhile it
// does everything that an idle session does.
func TestAnIdleSessionWithoutItsSeedIsIdle(t *testing.T) {
	inLine := poolAnswer{Granted: lease.Granted{Queued: "seed team, held by s9"}}
	for name, c := range map[string]struct {
		opt  session.Options
		st   func(*session.State)
		does func(w *world)
		want func(w *world) bool
	}{
		"it parks when told": {
			does: func(w *world) { w.takes(w.send(protocol.SignalPark, protocol.Park{})) },
			want: func(w *world) bool { return w.view().State == protocol.Parked },
		},
		"it parks by itself": {
			opt:  session.Options{ParkAfter: time.Hour},
			want: func(w *world) bool { return w.view().State == protocol.Parked },
		},
		"it is archived": {
			does: func(w *world) { w.takes(w.send(protocol.SignalArchive, protocol.Archive{})) },
			want: func(w *world) bool { v := w.view(); return v.State == protocol.Parked && v.Archived },
		},
		"its host is drained": {
			does: func(w *world) {
				w.SignalWorkflow(lease.SignalLeave, lease.LeaveHost{Draining: protocol.Draining{How: protocol.DrainPark, Since: w.Now()}, Host: "web-1", Epoch: 1})
			},
			want: func(w *world) bool { return w.view().State == protocol.Parked },
		},
		"it moves": {
			does: func(w *world) {
				w.hosts = []string{"web-2"}
				w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-2"}))
			},
			want: func(w *world) bool { v := w.view(); return v.Host == "web-2" && v.State == protocol.Idle },
		},
		"it has to close": {
			st:   func(st *session.State) { st.CloseDue = true },
			want: func(w *world) bool { return true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kind = logins.KindChatGPT
			w.seedSays = []poolAnswer{inLine}
			if c.opt.ParkAfter > 0 {
				w.every = time.Minute
			}
			st := w.idleWithoutSeed()
			if c.st != nil {
				c.st(st)
			}
			closing := st.CloseDue
			if !closing {
				w.once("it stands in line", func() bool { return strings.Contains(w.view().Waits, "held by s9") }, func() {
					if v := w.view(); v.State != protocol.Idle {
						t.Errorf("it is %s", v.State)
					}
					if c.does != nil {
						c.does(w)
					}
				})
				w.once("that is done", func() bool { return c.want(w) }, func() { w.send(protocol.SignalClose, protocol.Close{}) })
			}
			w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: seeded(c.opt), Carry: st})
			w.verify()
			if err := w.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			var gone []lease.Release
			for i, to := range w.released {
				if to == protocol.SeedID("team") {
					gone = append(gone, w.back[i])
				}
			}
			if len(gone) == 0 || gone[0].Epoch != 0 || !gone[0].Clean || gone[0].Generation != 5 {
				t.Errorf("the seed was told %+v, want that nobody stands in its line", gone)
			}
		})
	}
}

func seeded(o session.Options) session.Options {
	o.Seed = "team"
	return o
}

// A queued session takes its seed when it is granted, and ignores a late grant of
// the lost lease.
func TestAnIdleSessionTakesItsSeedWhenItIsGranted(t *testing.T) {
	w := newWorld(t)
	w.kind = logins.KindChatGPT
	w.seedSays = []poolAnswer{{err: &temporal.UnknownExternalWorkflowExecutionError{}}, {Granted: lease.Granted{Queued: "seed team, held by s9"}}}
	w.every = 10 * time.Second
	st := w.idleWithoutSeed()
	w.once("there is no seed", func() bool { return strings.Contains(w.view().Waits, "there is no seed") }, func() {})
	w.once("it stands in line", func() bool { return strings.Contains(w.view().Waits, "held by s9") }, func() {
		w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.SeedID("team"), Seed: again(3, 7), Epoch: 7}) // the late grant of the lost lease
		w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.SeedID("team"), Seed: again(4, 9), Epoch: 9})
	})
	w.once("it holds it", func() bool { return w.view().Waits == "a message" }, func() {
		w.seedNow = again(4, 9)
		w.fake.rest = endsTurn("completed", "done")
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.once("the turn ended", func() bool { turns := turnsOf(w); return len(turns) > 0 && turns[len(turns)-1].Status == "completed" },
		func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Seed: "team"}, Carry: st})
	w.verify()
	if p := w.fake.prepared; len(p) != 1 || p[0].Seed.Epoch != 9 || p[0].Restore == nil || p[0].Restore.Warm != 5 {
		t.Errorf("prepared with %+v", p)
	}
	if last := w.back[0]; w.released[0] != protocol.SeedID("team") || last.Epoch != 9 {
		t.Errorf("released %v with %+v", w.released, w.back)
	}
}

// A session that closes while it waits for its seed stays in the queue. When it gets a
// lease, its login is saved under that lease, before others use an older login.
func TestASessionThatClosesWithoutItsSeedStaysInLine(t *testing.T) {
	w := newWorld(t)
	w.kind = logins.KindChatGPT
	w.fake.pumps = []pumpFunc{lostSeed(amidTurn), journalEnds}
	w.seedSays = []poolAnswer{{}, {Granted: lease.Granted{Queued: "seed team, held by s9"}}, {Granted: lease.Granted{Queued: "seed team, held by s9"}}}
	w.fake.fail("close", finally(protocol.ErrTypeLoginUnsaved))
	var closed time.Time
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.once("it stands in line", func() bool { return strings.Contains(w.view().Waits, "held by s9") }, func() {
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.every = 10 * time.Second
	w.once("closing has failed for half an hour", func() bool { return w.fake.closedSoFar() > 4 }, func() {
		for i, r := range w.back {
			if w.released[i] == protocol.SeedID("team") {
				t.Errorf("it left the line with %+v", r)
			}
		}
		w.fake.fail("close", nil)
		closed = w.Now()
		w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.SeedID("team"), Seed: again(4, 9), Epoch: 9})
	})
	w.start(session.Options{Seed: "team", OnInterrupt: protocol.InterruptContinue})
	if took := w.Now().Sub(closed); took > time.Minute {
		t.Errorf("it closed %v after the seed was granted", took)
	}
	if last := w.fake.closed[len(w.fake.closed)-1]; last.Seed.Epoch != 9 {
		t.Errorf("it closed under the lease of epoch %d", last.Seed.Epoch)
	}
}

// While somebody else holds the seed, a session cannot save its login. It then stays on its
// host, and tries again.
func TestASessionThatCannotSaveItsLoginParksLater(t *testing.T) {
	w := newWorld(t)
	w.kind = logins.KindChatGPT
	w.seedSays = []poolAnswer{{Granted: lease.Granted{Queued: "seed team, held by s9"}}}
	w.fake.fail("park", finally(protocol.ErrTypeLoginUnsaved))
	w.once("it stands in line", func() bool { return strings.Contains(w.view().Waits, "held by s9") }, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.waits(func() {
		w.waited("park on web-1", session.KindSeedAway)
		w.fake.fail("park", nil)
	})
	w.once("it is parked", func() bool { return w.view().State == protocol.Parked }, func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Seed: "team"}, Carry: w.idleWithoutSeed()})
	w.verify()
}

// A session may get its lost seed again while it parks. If the login could not be saved
// under the lost lease, the session does not give up parking or moving, and tries again
// under the new lease.
func TestASessionThatGetsItsSeedWhileItParksParksLater(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		wish string
		arg  any
		done func(w *world) bool
	}{
		"the login is not saved": {protocol.ErrTypeLoginUnsaved, protocol.SignalPark, protocol.Park{}, func(w *world) bool { return w.view().State == protocol.Parked }},
		"its lease is over":      {protocol.ErrTypeSeedFenced, protocol.SignalPark, protocol.Park{}, func(w *world) bool { return w.view().State == protocol.Parked }},
		"it moves":               {protocol.ErrTypeLoginUnsaved, protocol.SignalResume, protocol.Resume{Host: "web-2"}, func(w *world) bool { return w.view().Host == "web-2" && w.view().State == protocol.Idle }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kind, w.hosts, w.seedNow = logins.KindChatGPT, []string{"web-2"}, again(4, 9)
			w.seedSays = []poolAnswer{{Granted: lease.Granted{Queued: "seed team, held by s9"}}}
			goOn := w.fake.hang("park")
			w.fake.failTimes("park", 1, finally(c.kind))
			w.once("it stands in line", func() bool { return strings.Contains(w.view().Waits, "held by s9") }, func() { w.takes(w.send(c.wish, c.arg)) })
			w.once("it parks", func() bool { return len(w.fake.parkedSoFar()) == 1 }, func() {
				w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.SeedID("team"), Seed: again(4, 9), Epoch: 9})
				w.once("it holds its seed", func() bool { return !strings.Contains(w.view().Waits, "held by s9") }, goOn)
			})
			w.once("the attempt has failed", func() bool { v := w.view(); return v.WaitingFor != nil || v.Error != nil }, func() {
				w.waited("park on web-1", session.KindSeedAway)
				if w.view().WaitingFor == nil {
					w.send(protocol.SignalClose, protocol.Close{})
					return
				}
				w.once("the wish is fulfilled", func() bool { return c.done(w) }, func() { w.send(protocol.SignalClose, protocol.Close{}) })
			})
			w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Seed: "team"}, Carry: w.idleWithoutSeed()})
			w.verify()
			var epochs []int64
			for _, in := range w.fake.parkedSoFar() {
				epochs = append(epochs, in.Seed.Epoch)
			}
			if !slices.Equal(epochs, []int64{7, 9}) {
				t.Errorf("it parked under the leases %v", epochs)
			}
		})
	}
}

// bareWithSeed returns a session that has its host and its seed. It must prepare its
// folder again before it starts codex, since it did not finish a park.
func (w *world) bareWithSeed() *session.State {
	st := w.idleWithoutSeed()
	st.SeedGone, st.SeedHeld, st.Bare = false, true, true
	return st
}

// A session that prepares its folder again may have to wait for its seed, if the
// seed's workflow was begun anew. It can be interrupted and closed while it waits, and
// it goes on waiting in a new run.
func TestASessionThatPreparesAgainCanBeLeftWhileItWaitsForItsSeed(t *testing.T) {
	for name, c := range map[string]struct {
		does func(w *world)
		ends func(w *world)
	}{
		"interrupted": {
			does: func(w *world) { w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{})) },
			ends: func(w *world) {
				if turns := turnsOf(w); len(turns) != 1 || turns[0].Status != "interrupted" || w.GetWorkflowError() != nil {
					t.Errorf("turns %+v, %v", turns, w.GetWorkflowError())
				}
			},
		},
		"closed": {
			ends: func(w *world) {
				if turns := turnsOf(w); len(turns) != 1 || turns[0].Status != "interrupted" || w.GetWorkflowError() != nil {
					t.Errorf("turns %+v, %v", turns, w.GetWorkflowError())
				}
			},
		},
		"its history is full": {
			does: func(w *world) {
				w.overdue()
				w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.SeedID("team"), Queued: "seed team, held by s10"})
			},
			ends: func(w *world) { w.continued() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kind = logins.KindChatGPT
			w.seedSays = []poolAnswer{{Granted: lease.Granted{Queued: "seed team, held by s9"}}}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
			w.once("it stands in line", func() bool { return strings.Contains(w.view().Waits, "held by s9") }, func() {
				if c.does != nil {
					c.does(w)
				}
				if name == "its history is full" {
					return
				}
				if name == "closed" {
					w.send(protocol.SignalClose, protocol.Close{})
					return
				}
				w.once("the turn is over", func() bool { return w.view().State == protocol.Idle }, func() { w.send(protocol.SignalClose, protocol.Close{}) })
			})
			w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Seed: "team"}, Carry: w.bareWithSeed()})
			w.verify()
			c.ends(w)
			if len(w.fake.prepared) != 0 || w.fake.startedSoFar() != 0 {
				t.Errorf("prepared %+v, started %d", w.fake.prepared, w.fake.startedSoFar())
			}
		})
	}
}

// If a session's host has the login of a seed that a pool chose, the session asks for that
// seed again, and not for another seed of the pool.
func TestASessionThatPreparesAgainAsksForTheSeedThatIsThere(t *testing.T) {
	w := newWorld(t)
	w.kind = logins.KindChatGPT
	w.fake.rest = endsTurn("completed", "done")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m2")) })
	w.once("the turn ended", func() bool { turns := turnsOf(w); return len(turns) > 0 && turns[len(turns)-1].Status == "completed" },
		func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.onAcquire = func(to string) {
		if strings.HasPrefix(to, "seedpool/") {
			t.Errorf("%s was asked for a seed", to)
		}
	}
	w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{SeedPool: "logins"}, Carry: w.bareWithSeed()})
	w.verify()
	if len(w.fake.prepared) != 1 {
		t.Errorf("prepared with %+v", w.fake.prepared)
	}
}

func TestASessionThatLeavesALoginBehindTellsItsSeed(t *testing.T) {
	w := newWorld(t)
	carry := session.State{}
	carry.Generation, carry.SeedGone, carry.SeedLeftOn = 5, true, &session.SeedPlace{Spec: protocol.HostSpec{Name: "web-1"}, Generation: 5}
	carry.Seed = again(3, 7)
	carry.Status, carry.Begun, carry.CreatedAt = protocol.Parked, true, w.Now()
	carry.Parked, carry.Resume = &session.Parked{}, &protocol.Resume{}
	w.kind, w.hosts = logins.KindChatGPT, []string{"web-2"}
	w.ends(time.Minute)
	w.ExecuteWorkflow(protocol.TypeSession, session.Input{ID: "s1", Options: session.Options{Seed: "team"}, Carry: &carry})
	var asked []string
	for _, a := range w.asked {
		if a.At != nil {
			asked = append(asked, fmt.Sprint(a.At.Name, " ", a.Generation > 5))
		}
	}
	if got := strings.Join(asked, ", "); got != "web-1 false, web-2 true" {
		t.Errorf("asked for the seed at %s", got)
	}
	if len(w.back) == 0 || w.released[0] != "seed/team" || w.back[0].Clean || w.back[0].Generation != 5 || w.back[0].Epoch == 0 {
		t.Errorf("gave back %v, %+v", w.released, w.back)
	}
}
