package workflows

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/session"
)

// Faults that waiting can mend are waited out, and others are reported at once.
func TestWhichFailuresPass(t *testing.T) {
	yes := []string{"unreachable", "wire_lost", "host_lost", "timeout", "busy", "store_full", "turn_runs", "root_missing", "no_pool", "network", "overloaded", "thread_busy"}
	for _, kind := range yes {
		if f := (&protocol.Failure{Kind: kind, Final: true}); !kit.FailurePasses(f) {
			t.Errorf("%s does not pass", kind)
		}
	}
	no := []string{"host_auth", "host_key", "host_unfit", "no_space", "codex_missing", "codex_version", "sandbox", "unprotected", "bad_input", "refused",
		"not_found", "host_not_found", "seed_not_found", "seed_pool_not_found", "seed_pool_empty", "seed_dead", "seed_lost", "seed_suspect",
		"seed_fenced", "login_unsaved", "auth", "snapshot_quota", "unreadable", "folder_gone", "discarded", "old_identity_missing",
		"outcome_unknown", "budget", "closed", "terminated", "unsent", "interrupted", "thread_missing", "protocol", "version"}
	for _, kind := range no {
		if f := (&protocol.Failure{Kind: kind}); kit.FailurePasses(f) {
			t.Errorf("%s passes", kind)
		}
	}
	for _, kind := range []string{"store", "seed", "snapshot", "fenced", "workspace", "internal", "process_exit", "start_timeout", "of a newer worker"} {
		if f := (&protocol.Failure{Kind: kind}); !kit.FailurePasses(f) {
			t.Errorf("%s does not pass", kind)
		}
		if f := (&protocol.Failure{Kind: kind, Final: true}); kit.FailurePasses(f) {
			t.Errorf("%s passes where the activity said that a retry is of no use", kind)
		}
	}
	// Every kind of ending is covered. The kinds for which the activity decides are listed
	// above.
	for _, kind := range protocol.EndingKinds() {
		switch kind {
		case "process_exit", "start_timeout", "network", "overloaded", "host_lost", "thread_busy":
			continue
		}
		if f := (&protocol.Failure{Kind: kind}); kit.FailurePasses(f) {
			t.Errorf("codex's %s passes", kind)
		}
	}
	if kit.FailurePasses((*protocol.Failure)(nil)) {
		t.Error("no failure passes")
	}
}

func TestAnActivitySaysWhetherItsFailurePasses(t *testing.T) {
	of := func(retry, passing bool) *protocol.Failure {
		return kit.FailureOf("read", temporal.NewApplicationErrorWithOptions("gone", protocol.ErrTypeStore, temporal.ApplicationErrorOptions{
			NonRetryable: !retry, Details: []any{protocol.Problem{Kind: protocol.ErrTypeStore, Message: "gone", Passing: passing}}}))
	}
	for _, c := range []struct{ retry, passing, passes bool }{{true, false, true}, {false, false, false}, {false, true, true}} {
		if got := kit.FailurePasses(of(c.retry, c.passing)); got != c.passes {
			t.Errorf("retryable %v, passing %v: passes %v", c.retry, c.passing, got)
		}
	}
	if !kit.FailurePasses(kit.FailureOf("read", errors.New("lost"))) {
		t.Error("an error of the SDK's own does not pass")
	}
}

// waited checks that a session waits out a fault, and shows it.
func (w *world) waited(doing, kind string) {
	w.t.Helper()
	v := w.view()
	f := v.WaitingFor
	if f == nil || f.Doing != doing || f.Kind != kind || f.Attempt == 0 || f.Since.IsZero() || f.Error == "" || f.NextAt.IsZero() {
		w.t.Errorf("the session is %s, waits for %q, and shows %+v", v.State, v.Waits, f)
	}
	if v.Error != nil || v.State == protocol.Failed {
		w.t.Errorf("the session is %s: %+v", v.State, v.Error)
	}
}

// waits runs a step as soon as the session waits for another attempt.
func (w *world) waits(f func()) {
	w.once("it waits for another attempt", func() bool {
		v := w.view()
		return v.WaitingFor != nil && strings.Contains(v.Waits, "another attempt")
	}, f)
}

// kept checks that all messages had their turns, and that the view does not show the fault
// any more.
func (w *world) kept(turns int) {
	w.t.Helper()
	all := turnsOf(w)
	if len(all) != turns {
		w.t.Errorf("turns %+v", all)
	}
	for _, turn := range all {
		if turn.Status != "completed" {
			w.t.Errorf("turn %+v", turn)
		}
	}
	if v := w.view(); v.WaitingFor != nil || v.Error != nil || v.Queue != 0 {
		w.t.Errorf("session is %+v, waits for %+v, %+v", v, v.WaitingFor, v.Error)
	}
}

// waitsLong is a world in which hours pass between two steps.
func waitsLong(t *testing.T) *world {
	w := newWorld(t)
	w.every = 2 * time.Second
	return w
}

// Messages that were accepted before a host was ready run, however often workers,
// connections, the store or the host fail before that.
func TestAcceptedMessagesOutliveEveryFaultThatPassesWhileASessionBegins(t *testing.T) {
	for name, c := range map[string]struct {
		what, doing, kind string
		opt               session.Options
	}{
		"any host is away":         {"prepare", "begin", protocol.ErrTypeUnreachable, session.Options{}},
		"the named host is away":   {"prepare", "begin", protocol.ErrTypeUnreachable, session.Options{Host: "web-1"}},
		"the wire is lost":         {"prepare", "begin", protocol.ErrTypeWireLost, session.Options{Seed: "team"}},
		"codex cannot be started":  {"start", session.StartCodex, protocol.ErrTypeUnreachable, session.Options{}},
		"a fork's host is away":    {"prepare", "begin", protocol.ErrTypeUnreachable, session.Options{From: "s0.snap-4"}},
		"a fork's store is full":   {"pin", "begin", protocol.ErrTypeStoreFull, session.Options{From: "s0.snap-4"}},
		"a restored one's is away": {"prepare", "begin", protocol.ErrTypeUnreachable, session.Options{Workspace: workspaces.Workspace{Snapshot: "s0.snap-4"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := waitsLong(t)
			w.fake.rest = endsTurn("completed", "")
			w.fake.failTimes(c.what, 30, finally(c.kind))
			w.at(time.Second, func() {
				w.takes(w.send(protocol.SignalMessage, hello("m1")))
				w.takes(w.send(protocol.SignalMessage, hello("m2")))
			})
			w.waits(func() { w.waited(c.doing, c.kind) })
			w.whenTurn(2, "completed", func() {
				w.kept(2)
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(c.opt)
		})
	}
}

// The same holds for a session that comes back from parking, or that moves.
func TestAcceptedMessagesOutliveEveryFaultThatPassesWhileASessionComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		what, kind string
		how        func(w *world)
	}{
		"its host is away":        {"prepare", protocol.ErrTypeUnreachable, nil},
		"no worker finishes it":   {"prepare", protocol.ErrTypeBusy + "_by_a_newer_worker", nil},
		"codex cannot be started": {"start", protocol.ErrTypeWireLost, nil},
		"it is moved": {"prepare", protocol.ErrTypeUnreachable, func(w *world) {
			w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: "web-3"}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := waitsLong(t)
			w.fake.rest = endsTurn("completed", "")
			err := finally(c.kind)
			if strings.HasSuffix(c.kind, "worker") {
				err = temporal.NewApplicationError("not now", c.kind)
			}
			w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
			w.at(2*time.Second, func() {
				if c.how == nil {
					w.takes(w.send(protocol.SignalPark, protocol.Park{}))
				}
			})
			w.at(3*time.Second, func() {
				w.fake.failTimes(c.what, 30, err)
				if c.how != nil {
					c.how(w)
				}
				w.takes(w.send(protocol.SignalMessage, hello("m2")))
				w.takes(w.send(protocol.SignalMessage, hello("m3")))
			})
			w.waits(func() {})
			w.whenTurn(3, "completed", func() {
				w.kept(3)
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(session.Options{Seed: "team"})
		})
	}
}

// A codex that is killed again and again before it could be used is started again.
func TestAcceptedMessagesOutliveEveryEarlyDeathOfCodex(t *testing.T) {
	w := waitsLong(t)
	deaths := 0
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		if deaths++; deaths <= 30 {
			return dies(protocol.Decided, false)(ctx, in)
		}
		return endsTurn("completed", "")(ctx, in)
	}
	w.at(time.Second, func() {
		w.takes(w.send(protocol.SignalMessage, hello("m1")))
		w.takes(w.send(protocol.SignalMessage, hello("m2")))
	})
	w.waits(func() { w.waited(session.StartCodex, protocol.EndProcessExit) })
	w.whenTurn(2, "completed", func() {
		w.kept(2)
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

// If codex ends by itself, it rejects the way in which it is started.
func TestACodexThatEndsByItselfEndsASessionThatNeverHadATurn(t *testing.T) {
	w := waitsLong(t)
	w.fake.rest = func(ctx context.Context, in pumps.RunPumpInput) (pumps.RunPumpResult, error) {
		out, err := dies(protocol.Decided, false)(ctx, in)
		out.Process.Code = 1
		return out, err
	}
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.start(session.Options{})
	if v := w.view(); v.State != protocol.Failed || v.Error.Kind != protocol.EndProcessExit || len(w.fake.ran) != session.MaxOwnEnds {
		t.Errorf("session is %+v, %+v after %d pumps", v, v.Error, len(w.fake.ran))
	}
}

func TestWhatWaitingCannotMendEndsASessionAtOnce(t *testing.T) {
	for _, kind := range []string{protocol.ErrTypeHostKey, protocol.ErrTypeHostFlood, protocol.ErrTypeSandbox, protocol.ErrTypeBadInput, protocol.ErrTypeNoSpace, protocol.ErrTypeStore} {
		w := waitsLong(t)
		w.fake.fail("prepare", finally(kind))
		w.start(session.Options{Host: "web-1"})
		if v := w.view(); v.State != protocol.Failed || v.Error.Kind != kind || v.UpdatedAt.Sub(v.CreatedAt) > time.Second || len(w.fake.prepared) != 1 {
			t.Errorf("%s: session is %+v, %+v", kind, v, v.Error)
		}
	}
}

func TestASessionAsksItsPoolAgain(t *testing.T) {
	for _, kind := range []string{"busy", protocol.ErrTypeUnreachable} {
		t.Run(kind, func(t *testing.T) {
			w := waitsLong(t)
			w.fake.rest = endsTurn("completed", "")
			w.refuse = &protocol.Failure{Kind: kind, Message: "not now"}
			w.at(time.Second, func() { w.takes(w.send(protocol.SignalMessage, hello("m1"))) })
			w.at(time.Hour, func() {
				w.waited("begin", kind)
				w.refuse = nil
			})
			w.whenTurn(1, "completed", func() {
				w.kept(1)
				w.send(protocol.SignalClose, protocol.Close{})
			})
			w.start(session.Options{})
		})
	}
	for _, kind := range []string{"host_not_found", protocol.ErrTypeHostKey} {
		w := waitsLong(t)
		w.refuse = &protocol.Failure{Kind: kind, Message: "never"}
		w.start(session.Options{})
		if v := w.view(); v.State != protocol.Failed || v.Error.Kind != kind || len(w.asked) != 1 {
			t.Errorf("session is %+v, %+v", v, v.Error)
		}
	}
}

func TestAStartTimeoutEndsASessionAndSaysWhatItWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		limit  time.Duration
		set    bool
		within time.Duration
	}{
		"as it was told": {time.Hour, true, time.Hour},
		"by itself":      {0, false, 24 * time.Hour},
	} {
		for _, what := range []string{"prepare", "start", "pool", "line"} {
			t.Run(name+", "+what, func(t *testing.T) {
				w := waitsLong(t)
				var opt session.Options
				if c.set {
					opt.StartTimeout = &c.limit
				}
				says := "connection refused"
				switch what {
				case "pool":
					w.refuse = &protocol.Failure{Kind: "busy", Message: says}
				case "line":
					w.mute, says = true, "2 others"
					w.at(time.Second, func() {
						w.SignalWorkflow(lease.SignalLease, lease.Granted{From: protocol.PoolID(""), Queued: says})
					})
				default:
					w.fake.fail(what, temporal.NewApplicationError(says, protocol.ErrTypeWireLost))
				}
				w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
				w.start(opt)
				v := w.view()
				took := v.UpdatedAt.Sub(v.CreatedAt)
				if v.State != protocol.Failed || v.Error.Kind != "start_timeout" || !strings.Contains(v.Error.Message, says) || v.Error.Hint == "" {
					t.Errorf("session is %+v, %+v", v, v.Error)
				}
				if took < c.within || took > c.within+10*time.Minute {
					t.Errorf("it ended after %v", took)
				}
			})
		}
	}
}

// When a turn could begin, the start timeout no longer applies. A start timeout of 0 means
// that there is none.
func TestAStartTimeoutIsOfTheStartAlone(t *testing.T) {
	hour, none := time.Hour, time.Duration(0)
	w := waitsLong(t)
	w.every = time.Minute
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.fake.fail("prepare", finally(protocol.ErrTypeUnreachable))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(30*time.Hour, func() {
		w.waited("come back", protocol.ErrTypeUnreachable)
		w.fake.fail("prepare", nil)
	})
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{StartTimeout: &hour})

	w = waitsLong(t)
	w.every = time.Minute
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("prepare", finally(protocol.ErrTypeUnreachable))
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(30*time.Hour, func() {
		w.waited("begin", protocol.ErrTypeUnreachable)
		w.fake.fail("prepare", nil)
	})
	w.whenTurn(1, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{StartTimeout: &none})
}

func TestACloseEndsAWait(t *testing.T) {
	w := waitsLong(t)
	w.fake.fail("prepare", finally(protocol.ErrTypeWireLost))
	w.at(time.Hour, func() { w.takes(w.send(protocol.SignalClose, protocol.Close{By: "ann"})) })
	w.start(session.Options{})
	v := w.view()
	if took := v.UpdatedAt.Sub(v.CreatedAt); v.State != protocol.Closed || took > time.Hour+time.Second {
		t.Errorf("session is %s after %v", v.State, took)
	}
}

func TestAnInterruptEndsAWaitForCodexWithItsTurn(t *testing.T) {
	w := waitsLong(t)
	w.fake.rest = endsTurn("completed", "")
	w.fake.fail("start", finally(protocol.ErrTypeWireLost))
	w.at(time.Second, func() {
		w.send(protocol.SignalMessage, hello("m1"))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.at(time.Hour, func() {
		w.fake.fail("start", nil)
		w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ann"}))
	})
	w.at(time.Hour+time.Second, func() {
		turns := turnsOf(w)
		if len(turns) != 2 || turns[0].Status != "interrupted" || turns[1].Status != "completed" {
			t.Errorf("turns %+v", turns)
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{})
}

func TestAnInterruptCallsOffThatASessionComesBack(t *testing.T) {
	w := waitsLong(t)
	w.fake.rest = endsTurn("completed", "")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.at(2*time.Second, func() { w.takes(w.send(protocol.SignalPark, protocol.Park{})) })
	w.at(3*time.Second, func() {
		w.fake.fail("prepare", finally(protocol.ErrTypeWireLost))
		w.send(protocol.SignalMessage, hello("m2"))
	})
	w.waits(func() { w.takes(w.send(protocol.SignalInterrupt, protocol.Interrupt{By: "ann"})) })
	w.once("it is parked again", func() bool { v := w.view(); return v.State == protocol.Parked && v.Queue == 1 }, func() {
		if v := w.view(); v.WaitingFor != nil || v.Error == nil {
			t.Errorf("session is %+v", v)
		}
		w.fake.fail("prepare", nil)
		w.takes(w.send(protocol.SignalResume, protocol.Resume{}))
	})
	w.whenTurn(2, "completed", func() { w.send(protocol.SignalClose, protocol.Close{}) })
	w.start(session.Options{})
}

func TestAResumeEndsAWaitAtOnceAndElsewhere(t *testing.T) {
	for _, host := range []string{"", "web-3"} {
		w := waitsLong(t)
		w.fake.rest = endsTurn("completed", "")
		w.fake.gone = map[string]bool{"web-1": true}
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		var at time.Time
		w.at(2*time.Hour, func() {
			w.waited("begin", protocol.ErrTypeUnreachable)
			at = w.Now()
			if host == "" {
				w.fake.mu.Lock()
				w.fake.gone = nil
				w.fake.mu.Unlock()
			}
			w.takes(w.send(protocol.SignalResume, protocol.Resume{Host: host}))
		})
		w.whenTurn(1, "completed", func() {
			if v := w.view(); v.Host != cmp.Or(host, "web-1") || w.Now().Sub(at) > 5*time.Second {
				t.Errorf("on %s after %v", v.Host, w.Now().Sub(at))
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		w.start(session.Options{Host: "web-1"})
	}
}

// A wait goes on in the next run from where it was.
func TestARolloverKeepsAWait(t *testing.T) {
	for what, doing := range map[string]string{"prepare": "begin", "start": session.StartCodex} {
		w := waitsLong(t)
		w.fake.fail(what, finally(protocol.ErrTypeWireLost))
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.at(time.Hour, func() {
			w.waited(doing, protocol.ErrTypeWireLost)
			w.fill()
			w.SignalWorkflow(protocol.SignalMessage, "any event wakes it")
		})
		w.start(session.Options{})
		in := carried(t, w.continued())
		was := in.Carry.Trouble
		if was == nil || was.Attempt < 5 || len(in.Carry.Queue)+len(in.Carry.Sends) != 1 {
			t.Fatalf("%s: the next run has %+v, %+v", what, was, in.Carry)
		}
		next := waitsLong(t)
		next.SetStartTime(w.Now())
		next.fake.rest = endsTurn("completed", "")
		next.at(time.Millisecond, func() {
			if v := next.view().WaitingFor; v == nil || v.Attempt != was.Attempt || !v.NextAt.Equal(was.NextAt) || !v.Since.Equal(was.Since) {
				t.Errorf("%s: it waits for %+v, and waited for %+v", what, v, was)
			}
		})
		next.whenTurn(1, "completed", func() {
			next.kept(1)
			next.send(protocol.SignalClose, protocol.Close{})
		})
		next.ExecuteWorkflow(protocol.TypeSession, in)
		next.verify()
	}
}
